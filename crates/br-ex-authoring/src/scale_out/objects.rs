//! The objects that let a cluster provision the new machine.

use machine_config::yaml;
use nmstate::NetworkState;
use serde_json::{Value, json};

use crate::inventory::DocumentName;

/// Where a cluster keeps its machines.
const NAMESPACE: &str = "openshift-machine-api";

/// What is known of the machine beside its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub host: DocumentName,
    pub bmc: Option<Bmc>,
}

/// How the machine is switched on and given an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bmc {
    /// `redfish-virtualmedia://…`, as the bare metal operator expects it.
    pub address: String,
    /// The secret with user name and password.
    pub credentials: String,
    pub boot_mac: String,
    pub verify_certificate: bool,
}

/// A file for `oc apply -f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub name: String,
    pub yaml: String,
}

#[derive(Debug, thiserror::Error)]
#[error("writing {name} as YAML")]
pub struct ManifestError {
    name: String,
    source: yaml::WriteError,
}

impl Machine {
    /// The secret with the network that the machine has while it is provisioned.
    pub fn network_secret(&self) -> String {
        format!("{}-network-config-secret", self.host)
    }
}

/// The secret with the first network and, when the machine has a BMC, its BareMetalHost.
pub fn manifests(
    machine: &Machine,
    network: &NetworkState,
) -> Result<Vec<Manifest>, ManifestError> {
    let Machine { host, bmc } = machine;
    let name = format!("{host}-network-config-secret.yaml");
    let text =
        yaml::manifest(network).map_err(|source| ManifestError { name: name.clone(), source })?;
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": machine.network_secret(), "namespace": NAMESPACE},
        "type": "Opaque",
        "stringData": {"nmstate": text},
    });
    let mut files = vec![(name, secret)];
    if let Some(Bmc { address, credentials, boot_mac, verify_certificate }) = bmc {
        let mut access = json!({"address": address, "credentialsName": credentials});
        if !verify_certificate {
            access["disableCertificateVerification"] = json!(true);
        }
        let object = json!({
            "apiVersion": "metal3.io/v1alpha1",
            "kind": "BareMetalHost",
            "metadata": {"name": host.as_str(), "namespace": NAMESPACE},
            "spec": {
                "bmc": access,
                "bootMACAddress": boot_mac,
                "online": true,
                "preprovisioningNetworkDataName": machine.network_secret(),
            },
        });
        files.push((format!("{host}-baremetalhost.yaml"), object));
    }
    let written = |(name, object): (String, Value)| match yaml::manifest(&object) {
        Ok(yaml) => Ok(Manifest { name, yaml }),
        Err(source) => Err(ManifestError { name, source }),
    };
    files.into_iter().map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> NetworkState {
        let text = "interfaces: [{name: eno1, type: ethernet, state: up, ipv4: {enabled: true, dhcp: \
                    true}}]";
        NetworkState::new_from_yaml(text).unwrap()
    }

    #[test]
    fn a_machine_without_bmc_gets_its_network_only() {
        let machine = Machine { host: "worker-7".parse().unwrap(), bmc: None };
        let manifests = manifests(&machine, &network()).unwrap();
        assert_eq!(manifests.len(), 1);
        assert_eq!(manifests[0].name, "worker-7-network-config-secret.yaml");
        let expected = "apiVersion: v1
kind: Secret
metadata:
  name: worker-7-network-config-secret
  namespace: openshift-machine-api
type: Opaque
stringData:
  nmstate: |
    interfaces:
    - name: eno1
";
        assert!(manifests[0].yaml.starts_with(expected), "{}", manifests[0].yaml);
    }

    #[test]
    fn a_bare_metal_host_names_the_secret_of_its_network() {
        let bmc = Bmc {
            address: "redfish-virtualmedia://192.0.2.200/redfish/v1/Systems/1".to_owned(),
            credentials: "worker-7-bmc-secret".to_owned(),
            boot_mac: "52:54:00:00:00:07".to_owned(),
            verify_certificate: true,
        };
        let machine = Machine { host: "worker-7".parse().unwrap(), bmc: Some(bmc) };
        let manifests = manifests(&machine, &network()).unwrap();
        let yaml = &manifests[1].yaml;
        assert!(yaml.contains("preprovisioningNetworkDataName: worker-7-network-config-secret\n"));
        // In quotes: to readers of YAML 1.1 it would be a number in base 60.
        assert!(yaml.contains("bootMACAddress: \"52:54:00:00:00:07\"\n"), "{yaml}");
        assert!(!yaml.contains("disableCertificateVerification"));
    }
}
