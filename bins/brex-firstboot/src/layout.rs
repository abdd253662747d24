//! Where things are on a node.

/// Documents of the cluster, one per host or one for all.
pub(crate) const DOCUMENTS: &str = "/etc/nmstate/openshift";
/// Contains the document that br-ex was configured from. configure-ovs does nothing where it exists.
pub(crate) const FLAG: &str = "/etc/nmstate/openshift/applied";
/// nmstate.service applies the files in this directory.
pub(crate) const STAGING: &str = "/etc/nmstate";
/// Profiles of NetworkManager that stay.
pub(crate) const PROFILES: &str = "/etc/NetworkManager/system-connections";
/// Profiles of NetworkManager that end with the boot.
pub(crate) const PROFILES_OF_BOOT: &str = "/run/NetworkManager/system-connections";
/// An attempt that has started and not ended. Units check whether it exists.
pub(crate) const ATTEMPT: &str = "/var/lib/brex-firstboot/attempt";
pub(crate) const ATTEMPT_DRAFT: &str = "/var/lib/brex-firstboot/attempt.new";
pub(crate) const ATTEMPT_ENDED: &str = "/var/lib/brex-firstboot/attempt.old";
pub(crate) const TRIES: &str = "/var/lib/brex-firstboot/tries.json";
/// One report per boot.
pub(crate) const REPORTS: &str = "/var/log/brex-firstboot";
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Addresses that nodeip-configuration selected: the first one of the node, and one per family.
pub(crate) const NODE_ADDRESSES: [&str; 3] = [
    "/run/nodeip-configuration/primary-ip",
    "/run/nodeip-configuration/ipv4",
    "/run/nodeip-configuration/ipv6",
];
/// Waits forever on a node that has the flag and no address from nodeip-configuration.
pub(crate) const WAIT_FOR_NODE_IP: &str =
    "/etc/systemd/system/network-online.target.wants/wait-for-node-ip.service";
/// Settings of an interrupted attempt that can be restored when Open vSwitch runs.
pub(crate) const SETTINGS: &str = "/var/lib/brex-firstboot/settings.json";
/// Scripts that NetworkManager runs; nmstate writes one per interface and event.
pub(crate) const DISPATCHER: &str = "/etc/NetworkManager/dispatcher.d";
pub(crate) const HOSTNAME: &str = "/etc/hostname";
/// Settings that NetworkManager received over D-Bus, such as global name servers.
pub(crate) const MANAGER_STATE: &str = "/var/lib/NetworkManager/NetworkManager-intern.conf";
pub(crate) const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
pub(crate) const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
pub(crate) const NICS: &str = "/sys/class/net";
pub(crate) const SERIAL: &str = "/sys/class/dmi/id/product_serial";
