//! What the machine-config operator writes to a node for br-ex: units with
//! its names and dependencies, and programs that do the least these units are there for.

use lab_cluster::node::NodeFile;

/// Would stage a document and set the flag at once. It is masked, and must not have run.
const NMSTATE_CONFIGURATION: &str = "\
[Unit]
Requires=openvswitch.service
Wants=NetworkManager-wait-online.service
After=NetworkManager-wait-online.service openvswitch.service network.service
After=nodeip-configuration.service
Before=nmstate.service kubelet-dependencies.target ovs-configuration.service
Before=node-valid-hostname.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cp /etc/nmstate/openshift/*.yml /etc/nmstate/openshift/applied'

[Install]
WantedBy=network-online.target
";

const NMSTATE: &str = "\
[Unit]
After=NetworkManager-wait-online.service
Wants=NetworkManager-wait-online.service
Requires=NetworkManager.service
Before=network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/nmstatectl service

[Install]
WantedBy=NetworkManager.service
";

const NODEIP_CONFIGURATION: &str = "\
[Unit]
Wants=NetworkManager-wait-online.service
After=NetworkManager-wait-online.service firstboot-osupdate.target
Before=kubelet-dependencies.target ovs-configuration.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash /usr/local/bin/nodeip-configuration.sh

[Install]
WantedBy=kubelet-dependencies.target
";
const NODEIP_CONFIGURATION_SH: &str = "\
mkdir -p /run/nodeip-configuration
ip -4 -o address show scope global | awk '{sub(\"/.*\", \"\", $4); print $4; exit}' \
  > /run/nodeip-configuration/primary-ip
";

const OVS_CONFIGURATION: &str = "\
[Unit]
Requires=openvswitch.service
Wants=NetworkManager-wait-online.service
After=firstboot-osupdate.target NetworkManager-wait-online.service openvswitch.service
After=network.service nodeip-configuration.service nmstate.service
Before=kubelet-dependencies.target node-valid-hostname.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash /usr/local/bin/configure-ovs.sh

[Install]
RequiredBy=kubelet-dependencies.target
";
/// Does nothing if the flag exists; otherwise creates br-ex on the NIC with the node's address.
const CONFIGURE_OVS_SH: &str = "\
set -e
if [ -e /etc/nmstate/openshift/applied ]; then
  echo 'configure-ovs: skipped'
  exit 0
fi
echo 'configure-ovs: makes br-ex'
add() { nmcli connection add save no \"$@\" > /dev/null; }
add type ovs-bridge con-name br-ex ifname br-ex
add type ovs-port con-name ovs-port-phys0 ifname nic0 master br-ex slave-type ovs-bridge
add type ovs-port con-name ovs-port-br-ex ifname br-ex master br-ex slave-type ovs-bridge
add type ethernet con-name ovs-if-phys0 ifname nic0 master ovs-port-phys0 slave-type ovs-port \
  connection.autoconnect-priority 100
add type ovs-interface con-name ovs-if-br-ex ifname br-ex master ovs-port-br-ex \
  slave-type ovs-port ipv4.method auto ipv4.route-metric 48 ipv6.method disabled \
  802-3-ethernet.cloned-mac-address \"$(cat /sys/class/net/nic0/address)\"
nmcli connection up ovs-if-phys0 > /dev/null
nmcli connection up ovs-if-br-ex > /dev/null
";

const WAIT_FOR_NODE_IP: &str = "\
[Unit]
Requires=nmstate.service
After=nmstate.service
Before=kubelet-dependencies.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'until test -s /run/nodeip-configuration/primary-ip; do sleep 1; done'
TimeoutStartSec=120

[Install]
WantedBy=network-online.target
";

const WAIT_FOR_BR_EX_UP: &str = "\
[Unit]
After=ovs-configuration.service
Before=node-valid-hostname.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'until test -e /run/nodeip-configuration/br-ex-up; do sleep 1; done'
TimeoutStartSec=180

[Install]
RequiredBy=node-valid-hostname.service
";
const RESOLV_PREPENDER: &str = "\
#!/bin/sh
[ \"$1\" != br-ex ] || [ \"$2\" != up ] || {
  mkdir -p /run/nodeip-configuration
  : > /run/nodeip-configuration/br-ex-up
}
";

const NODE_VALID_HOSTNAME: &str = "\
[Unit]
Before=kubelet-dependencies.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true

[Install]
RequiredBy=kubelet-dependencies.target
";

const FIRSTBOOT_OSUPDATE: &str = "[Unit]\nDescription=The OS is the one that is wanted\n";
const KUBELET_DEPENDENCIES: &str = "[Unit]\nDescription=All that kubelet waits for\n";

const KUBELET: &str = "\
[Unit]
Requires=kubelet-dependencies.target
After=kubelet-dependencies.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true

[Install]
WantedBy=multi-user.target
";

const NMSTATE_CONF: &str = "[service]\nkeep_state_file_after_apply = true\n";

/// All files.
pub(crate) fn files() -> Vec<NodeFile> {
    let units = [
        ("nmstate-configuration.service", NMSTATE_CONFIGURATION),
        ("nmstate.service", NMSTATE),
        ("nodeip-configuration.service", NODEIP_CONFIGURATION),
        ("ovs-configuration.service", OVS_CONFIGURATION),
        ("wait-for-node-ip.service", WAIT_FOR_NODE_IP),
        ("wait-for-br-ex-up.service", WAIT_FOR_BR_EX_UP),
        ("node-valid-hostname.service", NODE_VALID_HOSTNAME),
        ("firstboot-osupdate.target", FIRSTBOOT_OSUPDATE),
        ("kubelet-dependencies.target", KUBELET_DEPENDENCIES),
        ("kubelet.service", KUBELET),
    ];
    let unit = |(name, text): (&str, &str)| NodeFile {
        path: format!("/usr/lib/systemd/system/{name}"),
        content: text.into(),
        mode: 0o644,
    };
    let file =
        |path: &str, text: &str, mode| NodeFile { path: path.into(), content: text.into(), mode };
    let mut files: Vec<NodeFile> = units.into_iter().map(unit).collect();
    files.push(file("/etc/nmstate/nmstate.conf", NMSTATE_CONF, 0o644));
    files.push(file("/usr/local/bin/nodeip-configuration.sh", NODEIP_CONFIGURATION_SH, 0o755));
    files.push(file("/usr/local/bin/configure-ovs.sh", CONFIGURE_OVS_SH, 0o755));
    let dispatcher = "/etc/NetworkManager/dispatcher.d/30-resolv-prepender";
    files.push(file(dispatcher, RESOLV_PREPENDER, 0o755));
    files
}

/// The units that a node has enabled, without the one that is masked. `openvswitch.service` is
/// Debian's own.
pub(crate) const ENABLED: [&str; 7] = [
    "kubelet.service",
    "nmstate.service",
    "node-valid-hostname.service",
    "nodeip-configuration.service",
    "ovs-configuration.service",
    "wait-for-br-ex-up.service",
    "wait-for-node-ip.service",
];
