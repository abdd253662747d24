//! Where things are on a node.

/// Documents of the cluster, one per host or one for all.
pub(crate) const DOCUMENTS: &str = "/etc/nmstate/openshift";
/// Says that br-ex was made of a document, and holds that document. configure-ovs does nothing
/// where it exists.
pub(crate) const FLAG: &str = "/etc/nmstate/openshift/applied";
/// nmstate.service applies what is in here.
pub(crate) const STAGING: &str = "/etc/nmstate";
/// Profiles of NetworkManager that stay.
pub(crate) const PROFILES: &str = "/etc/NetworkManager/system-connections";
/// Profiles of NetworkManager that end with the boot.
pub(crate) const PROFILES_OF_BOOT: &str = "/run/NetworkManager/system-connections";
/// An attempt that has begun and not ended. Units look for it.
pub(crate) const ATTEMPT: &str = "/var/lib/brex-firstboot/attempt";
pub(crate) const ATTEMPT_DRAFT: &str = "/var/lib/brex-firstboot/attempt.new";
pub(crate) const ATTEMPT_ENDED: &str = "/var/lib/brex-firstboot/attempt.old";
pub(crate) const TRIES: &str = "/var/lib/brex-firstboot/tries.json";
/// One report per boot.
pub(crate) const REPORTS: &str = "/var/log/brex-firstboot";
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
pub(crate) const NODE_ADDRESS: &str = "/run/nodeip-configuration/primary-ip";
pub(crate) const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
pub(crate) const CARDS: &str = "/sys/class/net";
pub(crate) const SERIAL: &str = "/sys/class/dmi/id/product_serial";
