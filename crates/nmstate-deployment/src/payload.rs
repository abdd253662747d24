//! The content of a release payload: files that the cluster-version operator applies in the order
//! of their names. Objects as values; nothing is written here.

mod access;
mod deployment;
mod hosted;
mod monitoring;

use nmstate_api::admission::{self, Accounts};
use nmstate_api::crd;
use serde_json::{Value, json};

use crate::names::{CLUSTER_OPERATOR, HANDLER, NAMESPACE, OPERATOR, PART_OF, PART_OF_LABEL};
use crate::yaml::{self, YamlError};

/// Where the release tooling puts the image's digest, in every file.
pub(crate) const IMAGE: &str = "quay.io/openshift/nmstate-operator:latest";
/// Where the release tooling puts the release's version.
pub(crate) const VERSION: &str = "0.0.1-snapshot";

/// Clusters that run their own control plane.
const SELF_MANAGED: [&str; 2] = ["self-managed-high-availability", "single-node-developer"];
/// Clusters whose control plane is hosted elsewhere.
const HOSTED: [&str; 2] = ["ibm-cloud-managed", "hypershift"];

/// A file of the payload.
#[derive(Debug, Clone, PartialEq)]
pub struct PayloadFile {
    pub name: String,
    pub objects: Vec<Value>,
}

impl PayloadFile {
    /// What is in it.
    pub fn text(&self) -> Result<String, YamlError> {
        let note = "# Written by `nmstate-operator manifests`; do not edit.\n";
        Ok(format!("{note}{}", yaml::stream(&self.objects)?))
    }
}

/// All files, in the order of their names. `image-references` is among them.
pub fn files() -> Vec<PayloadFile> {
    let mut files = vec![everywhere("50", "00", "namespace", vec![namespace()])];
    for crd in crd::all() {
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default().to_owned();
        files.push(everywhere("50", "01", &format!("crd-{plural}"), vec![crd]));
    }
    let accounts = Accounts { namespace: NAMESPACE, handler: HANDLER, operator: OPERATOR };
    files.extend([
        everywhere("50", "02", "admission", admission::all(accounts)),
        everywhere("50", "03", "access", access::objects()),
        hosted_only("50", "03", "access-coordinator", crate::operand::coordinator_access()),
        everywhere("50", "04", "cluster-reader", vec![access::cluster_reader()]),
        self_managed("50", "05", "network-policy", vec![deployment::network_policy()]),
        self_managed("50", "05", "service", vec![deployment::service()]),
        self_managed("50", "06", "deployment", vec![deployment::deployment()]),
        // The cluster-version operator of a hosted cluster must not wait for it: the operator that
        // reports it is deployed beside the control plane, and creates it.
        self_managed("50", "07", "clusteroperator", vec![cluster_operator()]),
        everywhere("90", "01", "monitoring", monitoring::objects()),
        self_managed("90", "02", "monitoring-control-plane", monitoring::control_plane()),
        PayloadFile { name: "image-references".to_owned(), objects: vec![image_references()] },
    ]);
    files.sort_by(|one, two| one.name.cmp(&two.name));
    files
}

/// What runs in the management cluster, in the namespace of one hosted control plane. The operator
/// of hosted control planes applies it; the cluster-version operator does not read it.
pub fn hosted_files(namespace: &str) -> Vec<PayloadFile> {
    // By name, as the others. Management clusters without the API of the Prometheus operator do not get
    // the first one.
    vec![
        PayloadFile {
            name: "nmstate-operator-monitoring.yaml".to_owned(),
            objects: hosted::monitoring(namespace),
        },
        PayloadFile {
            name: "nmstate-operator.yaml".to_owned(),
            objects: hosted::objects(namespace),
        },
    ]
}

/// What a cluster that is not OpenShift needs, for `kubectl apply -f`: without kinds that it does not
/// have, and with this image.
pub fn kubernetes_files(image: &str, version: &str) -> Vec<PayloadFile> {
    let kept = ["_namespace", "_crd-", "_admission", "_access.", "_network-policy", "_deployment"];
    let is_kept = |file: &PayloadFile| kept.iter().any(|part| file.name.contains(part));
    let mut files: Vec<PayloadFile> = files().into_iter().filter(is_kept).collect();
    for file in &mut files {
        let name = file.name.strip_prefix("0000_50_nmstate-operator_").unwrap_or(&file.name);
        file.name = name.to_owned();
        for object in &mut file.objects {
            replace(object, IMAGE, image);
            replace(object, VERSION, version);
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.retain(|key, _| !key.starts_with("include.release.openshift.io/"));
            }
        }
    }
    files
}

/// Replaces every text that is `from`.
fn replace(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(list) => list.iter_mut().for_each(|value| replace(value, from, to)),
        Value::Object(map) => map.values_mut().for_each(|value| replace(value, from, to)),
        _ => {}
    }
}

fn everywhere(level: &str, order: &str, what: &str, objects: Vec<Value>) -> PayloadFile {
    let profiles: Vec<&str> = SELF_MANAGED.into_iter().chain(HOSTED).collect();
    file(level, order, what, objects, &profiles)
}

fn hosted_only(level: &str, order: &str, what: &str, objects: Vec<Value>) -> PayloadFile {
    file(level, order, what, objects, &HOSTED)
}

fn self_managed(level: &str, order: &str, what: &str, objects: Vec<Value>) -> PayloadFile {
    file(level, order, what, objects, &SELF_MANAGED)
}

fn file(
    level: &str,
    order: &str,
    what: &str,
    mut objects: Vec<Value>,
    profiles: &[&str],
) -> PayloadFile {
    for object in &mut objects {
        for profile in profiles {
            let name = format!("include.release.openshift.io/{profile}");
            object["metadata"]["annotations"][name] = json!("true");
        }
        object["metadata"]["labels"][PART_OF_LABEL] = json!(PART_OF);
    }
    PayloadFile { name: format!("0000_{level}_{OPERATOR}_{order}_{what}.yaml"), objects }
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "annotations": {
                "openshift.io/node-selector": "",
                "workload.openshift.io/allowed": "management",
            },
            "labels": {
                "openshift.io/cluster-monitoring": "true",
                "pod-security.kubernetes.io/enforce": "privileged",
                "pod-security.kubernetes.io/audit": "privileged",
                "pod-security.kubernetes.io/warn": "privileged",
            },
        },
    })
}

/// The cluster-version operator creates it without its status and waits for these versions.
fn cluster_operator() -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": { "name": CLUSTER_OPERATOR },
        "spec": {},
        "status": {
            "versions": [{ "name": "operator", "version": VERSION }],
            "relatedObjects": related_objects(),
        },
    })
}

/// What to collect for the analysis of a failure. An empty name means all objects of the resource.
pub(crate) fn related_objects() -> Value {
    let object = |group: &str, resource: &str, name: &str| json!({ "group": group, "resource": resource, "name": name });
    json!([
        object("", "namespaces", NAMESPACE),
        object("nmstate.io", "nmstates", ""),
        object("nmstate.io", "nodenetworkconfigurationpolicies", ""),
        object("nmstate.io", "nodenetworkconfigurationenactments", ""),
        object("nmstate.io", "nodenetworkstates", ""),
    ])
}

fn image_references() -> Value {
    json!({
        "apiVersion": "image.openshift.io/v1",
        "kind": "ImageStream",
        "spec": { "tags": [{
            "name": OPERATOR,
            "from": { "kind": "DockerImage", "name": IMAGE },
        }]},
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn images(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::String(text) if text.contains("quay.io/") => {
                found.insert(text.clone());
            }
            Value::Object(map) => map.values().for_each(|value| images(value, found)),
            Value::Array(list) => list.iter().for_each(|value| images(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_image_that_is_deployed_is_in_image_references() {
        let (mut listed, mut used) = (BTreeSet::new(), BTreeSet::new());
        for file in files() {
            let is_list = file.name == "image-references";
            let found = if is_list { &mut listed } else { &mut used };
            file.objects.iter().for_each(|object| images(object, found));
        }
        assert!(!used.is_empty());
        assert_eq!(listed, used);
    }

    #[test]
    fn other_clusters_get_the_image_that_is_named_and_no_kind_of_openshift() {
        let files = kubernetes_files("example.com/i:1", "1.2.3");
        assert!(files.iter().map(|file| &file.name).is_sorted());
        let objects: Vec<&Value> = files.iter().flat_map(|file| &file.objects).collect();
        for object in &objects {
            let group = object["apiVersion"].as_str().unwrap();
            assert!(!group.contains("openshift.io") && !group.contains("coreos.com"), "{group}");
        }
        let text = json!(objects).to_string();
        assert!(text.contains("example.com/i:1") && text.contains("1.2.3"));
        assert!(!text.contains(IMAGE) && !text.contains(VERSION));
    }

    #[test]
    fn every_manifest_names_the_profiles_it_is_for() {
        for file in files().iter().filter(|file| file.name != "image-references") {
            for object in &file.objects {
                let annotations = object["metadata"]["annotations"].as_object().unwrap();
                let of_profile = |name: &&String| name.starts_with("include.release.openshift.io/");
                assert!(annotations.keys().any(|name| of_profile(&name)), "{}", file.name);
            }
        }
    }

    #[test]
    fn no_cluster_waits_for_an_operator_that_its_payload_lacks() {
        let includes = |object: &Value, profile: &str| {
            let name = format!("include.release.openshift.io/{profile}");
            object["metadata"]["annotations"][name] == "true"
        };
        let objects: Vec<Value> = files().into_iter().flat_map(|file| file.objects).collect();
        for profile in SELF_MANAGED.into_iter().chain(HOSTED) {
            let has = |kind: &str| {
                objects.iter().any(|object| object["kind"] == kind && includes(object, profile))
            };
            assert_eq!(has("ClusterOperator"), has("Deployment"), "{profile}");
        }
    }

    #[test]
    fn policies_can_be_created_on_every_cluster() {
        let every = SELF_MANAGED.into_iter().chain(HOSTED);
        let every: BTreeSet<_> =
            every.map(|profile| format!("include.release.openshift.io/{profile}")).collect();
        let crds: Vec<_> = files().into_iter().filter(|file| file.name.contains("_crd-")).collect();
        assert_eq!(crds.len(), 4);
        for file in crds {
            let annotations = file.objects[0]["metadata"]["annotations"].as_object().unwrap();
            // Only profiles: no capability and no feature set may exclude the CRD.
            let names: BTreeSet<_> = annotations.keys().cloned().collect();
            assert_eq!(names, every, "{}", file.name);
        }
    }

    #[test]
    fn the_cluster_operator_comes_after_the_deployment() {
        let names: Vec<String> = files().into_iter().map(|file| file.name).collect();
        let place = |what: &str| names.iter().position(|name| name.ends_with(what)).unwrap();
        assert!(place("deployment.yaml") < place("clusteroperator.yaml"));
        assert!(names.is_sorted());
    }
}
