# Runs as process 1 of a node, in the node's root: D-Bus, Open vSwitch and NetworkManager, as the
# node's own services would start them. Also run by machines of other kinds, which source it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root

# Waits until a command succeeds. The limit is long, because a busy machine is slow.
await() {
  local what=$1 pause=0.02 end=$((SECONDS + 180)); shift
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { echo "$what: not within three minutes"; exit 1; }
    sleep "$pause"
    pause=0.1
  done
}
nm_runs() { [ "$(nmcli -t -f RUNNING general)" = running ]; }

# NetworkManager removes the bridges it made at the last start and makes them again. In the userspace
# datapath their links are tun devices: a switch that reacts late sees both changes at once and
# keeps the old link, which NetworkManager considers unmanaged; it then waits indefinitely for
# one of its own. Removed before the switch starts, there is no old link. The kernel's datapath, which
# nodes have, needs none of this.
forget_bridges_of_the_last_start() {
  local bridge
  for bridge in $(ovs-vsctl --no-wait --bare --columns=name find Bridge datapath_type=netdev \
    'external_ids:"NM.connection.uuid"!=""'); do
    ovs-vsctl --no-wait del-br "$bridge"
  done
}

start_daemons() {
  mkdir -p /run/dbus /run/openvswitch /run/NetworkManager /run/lock /var/lib/NetworkManager \
    /etc/openvswitch /etc/NetworkManager/conf.d /etc/NetworkManager/system-connections
  uname -n > /etc/hostname
  [ -s /etc/machine-id ] || dbus-uuidgen > /etc/machine-id
  [ -e /etc/resolv.conf ] || : > /etc/resolv.conf
  # Profiles that others can read are ignored.
  find /etc/NetworkManager/system-connections -type f -exec chmod 600 {} +
  dbus-daemon --system --nofork --nopidfile --nosyslog >> /log/dbus.log 2>&1 < /dev/null &
  [ -e /etc/openvswitch/conf.db ] ||
    ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
  ovsdb-server /etc/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock \
    --pidfile=/run/openvswitch/ovsdb-server.pid --unixctl=/run/openvswitch/ovsdb-server.ctl \
    -vconsole:off -vfile:info --log-file=/log/ovsdb-server.log > /dev/null 2>&1 < /dev/null &
  await "Open vSwitch's database" test -S /run/openvswitch/db.sock
  forget_bridges_of_the_last_start
  ovs-vswitchd unix:/run/openvswitch/db.sock --pidfile=/run/openvswitch/ovs-vswitchd.pid \
    --unixctl=/run/openvswitch/ovs-vswitchd.ctl \
    -vconsole:off -vfile:info --log-file=/log/ovs-vswitchd.log > /dev/null 2>&1 < /dev/null &
  await "D-Bus" test -S /run/dbus/system_bus_socket
  # Returns when the switch has created everything in its database.
  ovs-vsctl --timeout=180 init -- set Open_vSwitch . "external_ids:system-id=$(uname -n)" ||
    { echo "Open vSwitch: not within three minutes"; exit 1; }
  # Without --debug it writes to a journal that does not exist here.
  NetworkManager --debug >> /log/NetworkManager.log 2>&1 < /dev/null &
  await "NetworkManager" nm_runs
}
