# The other end of a machine's links, in the machine itself: a router's address, DHCP, and a VLAN
# with the same. The third NIC is connected to it.
set -e
ip netns add lan
ip link set lan0 netns lan
lan() { ip netns exec lan "$@"; }
lan ip link set lo up
lan ip link set lan0 up
lan ip address add 198.51.100.1/24 dev lan0
lan ip link add link lan0 name lan0.100 type vlan id 100
lan ip link set lan0.100 up
lan ip address add 192.0.2.1/24 dev lan0.100
lan dnsmasq --conf-file=/dev/null --user=root --port=0 --bind-interfaces --no-ping \
  --interface=lan0 --interface=lan0.100 --pid-file=/run/lab-dnsmasq.pid \
  --dhcp-leasefile=/run/lab-leases --dhcp-authoritative \
  --dhcp-range=198.51.100.100,198.51.100.150,1h --dhcp-range=192.0.2.100,192.0.2.150,1h
