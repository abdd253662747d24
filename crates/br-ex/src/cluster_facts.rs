//! What is known about the cluster that a document is for.

use std::str::FromStr;

use ipnet::IpNet;
use nmstate::NetworkState;

/// What is known about the cluster and its nodes. Nothing need be.
#[derive(Debug, Clone, Default)]
pub struct ClusterFacts {
    /// The MTU of the cluster network.
    pub cluster_mtu: Option<u32>,
    pub machine_networks: Vec<IpNet>,
    pub cluster_networks: Vec<IpNet>,
    pub service_networks: Vec<IpNet>,
    pub platform: Option<Platform>,
    /// The nmstate of the nodes.
    pub nmstate: Option<NmstateVersion>,
    /// The node's state before the document is applied.
    pub current: Option<NetworkState>,
}

/// Where a cluster runs, by the names of install-config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    None,
    External,
    Baremetal,
    Vsphere,
    Openstack,
    Nutanix,
    Kubevirt,
    Aws,
    Azure,
    Gcp,
    Ibmcloud,
    Powervs,
}

impl Platform {
    pub const ALL: [Self; 12] = [
        Self::None,
        Self::External,
        Self::Baremetal,
        Self::Vsphere,
        Self::Openstack,
        Self::Nutanix,
        Self::Kubevirt,
        Self::Aws,
        Self::Azure,
        Self::Gcp,
        Self::Ibmcloud,
        Self::Powervs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::External => "external",
            Self::Baremetal => "baremetal",
            Self::Vsphere => "vsphere",
            Self::Openstack => "openstack",
            Self::Nutanix => "nutanix",
            Self::Kubevirt => "kubevirt",
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
            Self::Ibmcloud => "ibmcloud",
            Self::Powervs => "powervs",
        }
    }

    /// Whether nodes run nodeip-configuration, which writes the node's address to a file.
    pub fn chooses_node_address(self) -> bool {
        match self {
            Self::None
            | Self::External
            | Self::Baremetal
            | Self::Vsphere
            | Self::Openstack
            | Self::Nutanix
            | Self::Kubevirt => true,
            Self::Aws | Self::Azure | Self::Gcp | Self::Ibmcloud | Self::Powervs => false,
        }
    }
}

impl FromStr for Platform {
    type Err = UnknownPlatform;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| UnknownPlatform(text.to_owned()))
    }
}

/// A platform that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("platform {0:?} is unknown; known are {known}", known = Platform::ALL.map(Platform::name).join(", "))]
pub struct UnknownPlatform(String);

/// A version of nmstate: `2.2.38`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NmstateVersion(pub u32, pub u32, pub u32);

impl FromStr for NmstateVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || NotAVersion(text.to_owned());
        // Packages add a release behind a dash: `2.2.38-1.el9`.
        let number = text.split_once('-').map_or(text, |(number, _)| number);
        let numbers: Vec<u32> =
            number.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| fail())?;
        match numbers[..] {
            [major, minor, patch] => Ok(Self(major, minor, patch)),
            _ => Err(fail()),
        }
    }
}

/// Not a version of nmstate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version of nmstate; write for example 2.2.38")]
pub struct NotAVersion(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_read_by_the_names_of_install_config() {
        for platform in Platform::ALL {
            assert_eq!(platform.name().parse(), Ok(platform));
        }
        assert_eq!("BareMetal".parse(), Ok(Platform::Baremetal));
        let error = "metal".parse::<Platform>().unwrap_err().to_string();
        assert!(error.starts_with("platform \"metal\" is unknown; known are none, "), "{error}");
    }

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text: &str| text.parse::<NmstateVersion>().unwrap();
        assert!(version("2.2.9") < version("2.2.38-1.el9_4"));
        assert!("2.2".parse::<NmstateVersion>().is_err());
        assert!("2.2.x".parse::<NmstateVersion>().is_err());
    }
}
