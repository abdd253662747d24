//! What installs kubernetes-nmstate in a cluster, and what is needed to install it again.

use std::fmt;

use serde_json::{Map, Value, json};

/// Its name in catalogs.
pub const PACKAGE: &str = "kubernetes-nmstate-operator";
/// The only object that configures the network add-ons of OpenShift Virtualization.
pub const NETWORK_ADDONS: &str = "cluster";
/// The API group of the network add-ons.
pub const NETWORK_ADDONS_GROUP: &str = "networkaddonsoperator.network.kubevirt.io";
/// OLM's API group.
pub const OLM_GROUP: &str = "operators.coreos.com";

/// An object because of which kubernetes-nmstate is in the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Installer {
    pub kind: InstallerKind,
    /// The object to create to restore it: no status, no version, no metadata of the server.
    pub copy: Value,
    pub uid: String,
    /// It is being deleted already.
    pub is_going: bool,
    /// The controller that created it, if any: it may create it again.
    pub owner: Option<String>,
}

/// In the order of removal: OLM creates a version again as long as there is a Subscription,
/// whatever else is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstallerKind {
    /// OLM: what shall be installed.
    Subscription,
    /// The field `spec.nmstate` of an object that configures other components, too.
    NetworkAddons,
    /// OLM: what is installed.
    ServiceVersion,
}

impl Installer {
    /// Reads an object as stored by the server. None if it does not install kubernetes-nmstate.
    pub fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str()?;
        let (kind, spec) = match object["kind"].as_str()? {
            "Subscription" if object["spec"]["name"] == PACKAGE => {
                (InstallerKind::Subscription, subscribed(object))
            }
            "ClusterServiceVersion" if is_version(name) && !is_copied(metadata) => {
                (InstallerKind::ServiceVersion, object["spec"].clone())
            }
            "NetworkAddonsConfig" if name == NETWORK_ADDONS => {
                let nmstate = object["spec"].get("nmstate").filter(|part| !part.is_null())?;
                (InstallerKind::NetworkAddons, json!({ "nmstate": nmstate }))
            }
            _ => return None,
        };
        let copy = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": kept(kind, metadata),
            "spec": spec,
        });
        Some(Self {
            kind,
            copy,
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            is_going: metadata["deletionTimestamp"].is_string(),
            owner: owner(metadata),
        })
    }

    pub fn namespace(&self) -> &str {
        self.copy["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.copy["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Whether both are about the same object.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.kind, self.namespace(), self.name()) == (other.kind, other.namespace(), other.name())
    }

    /// Whether an administrator has to approve what this installs.
    pub(super) fn needs_approval(&self) -> bool {
        self.copy["spec"]["installPlanApproval"] == "Manual"
    }
}

impl fmt::Display for Installer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = (self.namespace(), self.name());
        match self.kind {
            InstallerKind::Subscription => write!(out, "the Subscription {namespace}/{name}"),
            InstallerKind::ServiceVersion => {
                write!(out, "the ClusterServiceVersion {namespace}/{name}")
            }
            InstallerKind::NetworkAddons => {
                write!(out, "spec.nmstate of the NetworkAddonsConfig {name}")
            }
        }
    }
}

/// Whether this is the name of a version of it: the package, a dot, and a version.
pub fn is_version(name: &str) -> bool {
    name.strip_prefix(PACKAGE).is_some_and(|rest| rest.starts_with('.'))
}

/// OLM shows a version in other namespaces, too. It removes those by itself.
fn is_copied(metadata: &Value) -> bool {
    !metadata["labels"]["olm.copiedFrom"].is_null()
}

fn owner(metadata: &Value) -> Option<String> {
    let owner = metadata["ownerReferences"].as_array()?.first()?;
    Some(format!("{} {}", owner["kind"].as_str()?, owner["name"].as_str()?))
}

/// The version that a Subscription requests. One with manual approval requests the installed version, not
/// the version that it started with.
fn subscribed(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    let installed = &object["status"]["installedCSV"];
    if spec["installPlanApproval"] == "Manual" && installed.is_string() {
        spec["startingCSV"] = installed.clone();
    }
    spec
}

fn kept(kind: InstallerKind, metadata: &Value) -> Value {
    let mut kept = Map::new();
    // Of the object of the network add-ons, only one field may be restored by us.
    let about_people = kind != InstallerKind::NetworkAddons;
    for field in ["name", "namespace", "labels", "annotations"] {
        let is_wanted = about_people || field == "name";
        if let Some(value) = metadata.get(field).filter(|value| is_wanted && !value.is_null()) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    // OLM writes these itself, about the group that the version was in.
    if let Some(annotations) = kept.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !name.starts_with("olm."));
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(approval: &str) -> Value {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": {
                "name": "mine", "namespace": "openshift-nmstate", "uid": "u",
                "resourceVersion": "7", "managedFields": [{}], "labels": { "a": "b" },
            },
            "spec": {
                "name": PACKAGE, "channel": "stable", "installPlanApproval": approval,
                "startingCSV": "kubernetes-nmstate-operator.v1",
            },
            "status": { "installedCSV": "kubernetes-nmstate-operator.v2" },
        })
    }

    #[test]
    fn a_copy_has_what_people_wrote_and_nothing_of_the_server() {
        let installer = Installer::of(&subscription("Automatic")).unwrap();
        assert_eq!(
            installer.copy,
            json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "Subscription",
                "metadata": {
                    "name": "mine", "namespace": "openshift-nmstate", "labels": { "a": "b" },
                },
                "spec": {
                    "name": PACKAGE, "channel": "stable", "installPlanApproval": "Automatic",
                    "startingCSV": "kubernetes-nmstate-operator.v1",
                },
            })
        );
        assert_eq!(installer.owner, None);
        assert_eq!(installer.to_string(), "the Subscription openshift-nmstate/mine");
        // A copy is read like the object itself.
        assert_eq!(Installer::of(&installer.copy).unwrap().copy, installer.copy);
    }

    #[test]
    fn where_steps_are_approved_by_hand_the_installed_version_comes_back() {
        let manual = Installer::of(&subscription("Manual")).unwrap();
        assert_eq!(manual.copy["spec"]["startingCSV"], "kubernetes-nmstate-operator.v2");
        assert!(manual.needs_approval());
    }

    #[test]
    fn only_what_installs_kubernetes_nmstate_is_one() {
        let version = |name: &str, labels: Value| {
            Installer::of(&json!({
                "kind": "ClusterServiceVersion",
                "metadata": { "name": name, "labels": labels },
                "spec": {},
            }))
        };
        assert!(version("kubernetes-nmstate-operator.4.17.0-202501", json!({})).is_some());
        let copied = json!({ "olm.copiedFrom": "openshift-nmstate" });
        assert!(version("kubernetes-nmstate-operator.4.17.0-202501", copied).is_none());
        assert!(version("kubernetes-nmstate-operators.v1", json!({})).is_none());
        assert!(version("sriov-network-operator.v4.17.0", json!({})).is_none());
        let mut other = subscription("Automatic");
        other["spec"]["name"] = json!("sriov-network-operator");
        assert!(Installer::of(&other).is_none());
        assert!(Installer::of(&json!({ "kind": "Secret", "metadata": { "name": "x" } })).is_none());
    }

    #[test]
    fn of_the_network_add_ons_one_field_is_kept() {
        let config = |spec: Value| {
            Installer::of(&json!({
                "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
                "kind": "NetworkAddonsConfig",
                "metadata": { "name": "cluster", "labels": { "a": "b" } },
                "spec": spec,
            }))
        };
        let with = config(json!({ "multus": {}, "nmstate": {} })).unwrap();
        assert_eq!(with.copy["spec"], json!({ "nmstate": {} }));
        assert_eq!(with.copy["metadata"], json!({ "name": "cluster" }));
        assert!(config(json!({ "multus": {} })).is_none());
        let owned = Installer::of(&json!({
            "kind": "NetworkAddonsConfig",
            "metadata": { "name": "cluster", "ownerReferences": [
                { "kind": "HyperConverged", "name": "kubevirt-hyperconverged" },
            ]},
            "spec": { "nmstate": {} },
        }));
        assert_eq!(owned.unwrap().owner.as_deref(), Some("HyperConverged kubevirt-hyperconverged"));
    }
}
