# Process 1 of a User-Mode Linux machine. /host is a folder of the host, /host/.lab is ours.
# Environment: UMLNAME, UMLMODULES, UMLNICS, and UMLUPLINK and UMLUPLINKMAC if there is a NIC to the host.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8
exec < /dev/null > /host/.lab/console 2>&1

power_off() {
  echo o > /proc/sysrq-trigger
  while :; do sleep 1; done
}
fail() {
  echo "FAILED: $*"
  power_off
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts /usr/lib/modules /log
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t hostfs none /usr/lib/modules -o "hostfs=$UMLMODULES" || fail "no kernel modules"
mount --bind /host/.lab/log /log
modprobe bonding max_bonds=0 || fail "no module bonding"
for module in openvswitch 8021q veth tun bridge vrf; do
  modprobe "$module" || fail "no module $module"
done
# What the first start brings along. Owners and modes of the host's files mean nothing here.
if [ ! -e /etc/.lab-started ]; then
  cp -r /host/.lab/files/. / && chown -R root:root /etc/NetworkManager && : > /etc/.lab-started ||
    fail "no files for the first start"
fi
hostname "$UMLNAME"
ip link set lo up
# The driver of vec0 ends the kernel when a program reads the sizes of the NIC's rings, which nmstate
# does. So vec0 is in a network namespace of its own, bridged to the NIC that programs see.
connect_to_host() {
  ip netns add uplink &&
    ip link set vec0 netns uplink &&
    ip -n uplink link add br0 type bridge &&
    ip -n uplink link set br0 up &&
    ip -n uplink link set vec0 master br0 up &&
    ip link add "$UMLUPLINK" address "$UMLUPLINKMAC" type veth peer name port netns uplink &&
    ethtool -K "$UMLUPLINK" tx off > /dev/null &&
    ip netns exec uplink ethtool -K port tx off > /dev/null &&
    ip -n uplink link set port master br0 up
}
[ -z "$UMLUPLINK" ] || connect_to_host || fail "no NIC to the host"

# The LAN: a bridge with a router's address, DHCP, and a VLAN with the same.
lan() { ip netns exec lan "$@"; }
# The MTU of the LAN. A NIC starts with a smaller one, as usual.
jumbo=9216
ip netns add lan
lan ip link set lo up
lan ip link add br0 type bridge
# Told afterwards, it is kept, whatever ports come and go.
lan ip link set br0 mtu "$jumbo" up
lan ip address add 198.51.100.1/24 dev br0
lan ip link add link br0 name br0.100 type vlan id 100
lan ip link set br0.100 up
lan ip address add 192.0.2.1/24 dev br0.100
IFS=, read -r -a nics <<< "$UMLNICS"
for nic in 0 1; do
  ip link add "${nics[nic]}" address "52:54:00:00:00:0$nic" \
    type veth peer name "port$nic" mtu "$jumbo" netns lan
  # As in a node in namespaces: programs that read raw packets need complete checksums.
  ethtool -K "${nics[nic]}" tx off > /dev/null
  lan ethtool -K "port$nic" tx off > /dev/null
  lan ip link set "port$nic" master br0 up
done
lan dnsmasq --conf-file=/dev/null --user=root --port=0 --bind-interfaces --no-ping \
  --interface=br0 --interface=br0.100 --pid-file=/run/dnsmasq.pid --dhcp-leasefile=/run/leases \
  --dhcp-authoritative --log-facility=/log/dnsmasq.log \
  --dhcp-range=198.51.100.100,198.51.100.150,1h --dhcp-range=192.0.2.100,192.0.2.150,1h ||
  fail "no DHCP"

# Read-only, or NetworkManager would wait for a udev that does not run here. Not so the devices:
# options of a bond that is up are set there.
mkdir -p /run/sys
mount --bind /sys /run/sys
mount -o remount,bind,ro /sys
mount --bind /run/sys/devices/virtual/net /sys/devices/virtual/net
source /host/.lab/daemons.sh
start_daemons
echo READY

cd /host
bash -c 'source /host/.lab/calls.sh; source /host/.lab/scenario' > /host/.lab/output 2>&1
code=$?
sync
echo "$code" > /host/.lab/code
power_off
