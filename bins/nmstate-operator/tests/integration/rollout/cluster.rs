//! Objects of the cluster as the cases create and read them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, WatchEvent, WatchParams,
};
use nmstate_api::StoredPolicy;
use node_policy::Phase;
use serde_json::{Value, json};

use crate::rollout::bench::{Bench, NODES};
use crate::rollout::object::Object;

/// A version of the cluster; only this part of its real schema is read.
const CLUSTER_VERSION: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterversions.config.openshift.io"},
    "spec": {
        "group": "config.openshift.io", "scope": "Cluster",
        "names": {
            "kind": "ClusterVersion", "plural": "clusterversions", "singular": "clusterversion",
            "listKind": "ClusterVersionList"
        },
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true
            }}
        }]
    }
}"#;
impl Bench {
    pub(crate) fn create_objects(&self) {
        let crd: Value = serde_json::from_str(CLUSTER_VERSION).unwrap();
        let crds = resource(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        );
        self.put(&crds, "clusterversions.config.openshift.io", &crd);
        let partial = json!({"history": [{"state": "Partial"}]});
        let version = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"name": "version"}, "status": partial,
        });
        self.wait("versions of the cluster are known", || {
            self.try_put(&cluster_versions(), "version", &version)
        });
        for name in NODES {
            self.create_node(name);
        }
    }

    /// Whether the installation of the cluster is complete.
    pub(crate) fn set_installed(&self, is_complete: bool) {
        let versions = self.api(&cluster_versions());
        let state = if is_complete { "Completed" } else { "Partial" };
        let done = json!({"status": {"history": [{"state": state}]}});
        self.runtime
            .block_on(versions.patch("version", &PatchParams::default(), &Patch::Merge(&done)))
            .unwrap();
    }

    pub(crate) fn create_marker(&self, name: &str) {
        let marker = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"},
        });
        let maps = self.namespaced(&resource("", "v1", "ConfigMap", "configmaps"));
        self.runtime.block_on(maps.patch(name, &apply("test"), &Patch::Apply(&marker))).unwrap();
    }

    /// Values of nodes, where the coordinator looks for them.
    pub(crate) fn put_config_map(&self, name: &str, data: &Value) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"}, "data": data,
        });
        let maps = self.namespaced(&resource("", "v1", "ConfigMap", "configmaps"));
        self.runtime.block_on(maps.patch(name, &apply("test"), &Patch::Apply(&map))).unwrap();
    }

    pub(crate) fn marker_time(&self, name: &str) -> String {
        let maps = self.namespaced(&resource("", "v1", "ConfigMap", "configmaps"));
        let marker = self.runtime.block_on(maps.get(name)).unwrap();
        Object(serde_json::to_value(marker).unwrap()).created()
    }

    // Nodes.

    pub(crate) fn create_node(&self, name: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        });
        self.put(&nodes(), name, &node);
        self.set_ready(name, true);
    }

    pub(crate) fn delete_node(&self, name: &str) {
        let nodes = self.api(&nodes());
        drop(self.runtime.block_on(nodes.delete(name, &DeleteParams::default())).unwrap());
    }

    pub(crate) fn set_ready(&self, name: &str, is_ready: bool) {
        let status = if is_ready { "True" } else { "False" };
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        self.patch_status(&nodes(), name, &ready);
    }

    /// Sets a label of a node, or removes it.
    pub(crate) fn label_node(&self, name: &str, label: &str, value: Option<&str>) {
        self.patch_metadata(&nodes(), name, &json!({"labels": {label: value}}));
    }

    // Policies and reports.

    pub(crate) fn apply_policy(&self, name: &str, spec: &Value, annotations: &[(&str, &str)]) {
        self.write_policy("test", name, &policy(name, spec, annotations));
    }

    /// The same as another field manager, which takes over the fields of the first one.
    pub(crate) fn apply_policy_as(&self, writer: &str, name: &str, spec: &Value) {
        self.write_policy(writer, name, &policy(name, spec, &[]));
    }

    fn write_policy(&self, writer: &str, name: &str, policy: &Value) {
        let policies: Api<StoredPolicy> = Api::all(self.client.clone());
        self.wait(&format!("{writer} has written {name}"), || {
            let patch = Patch::Apply(policy);
            match self.runtime.block_on(policies.patch(name, &apply(writer), &patch)) {
                Ok(_) => Some(()),
                // Another client wrote at the same time.
                Err(kube::Error::Api(status)) if status.code == 409 => None,
                Err(error) => panic!("writing {name}: {error}"),
            }
        });
    }

    pub(crate) fn annotate_policy(&self, name: &str, annotation: &str, value: Option<&str>) {
        self.patch_metadata(&policies(), name, &json!({"annotations": {annotation: value}}));
    }

    pub(crate) fn policy(&self, name: &str) -> Object {
        self.get_policy(name).unwrap_or_else(|| panic!("there is no {name}"))
    }

    pub(crate) fn delete_policy(&self, name: &str) {
        let policies: Api<StoredPolicy> = Api::all(self.client.clone());
        drop(self.runtime.block_on(policies.delete(name, &DeleteParams::default())).unwrap());
    }

    /// Deletes all policies, and waits until all handlers have released them.
    pub(crate) fn delete_policies(&self) {
        for policy in self.all_policies() {
            self.delete_policy(&policy.name());
        }
        self.wait("all reports about deleted policies are gone", || {
            self.all_enactments().is_empty().then_some(())
        });
    }

    pub(crate) fn wait_for_policy(&self, name: &str, type_: &str, reason: &str) -> Object {
        self.wait(&format!("policy {name} is {type_} ({reason})"), || {
            self.get_policy(name).filter(|policy| policy.holds(type_, reason))
        })
    }

    /// Waits until all nodes have the current generation.
    pub(crate) fn wait_until_available(&self, name: &str) -> Object {
        self.wait(&format!("all of policy {name} is Available"), || {
            let policy = self.get_policy(name)?;
            let is_of = policy.status()["observedGeneration"] == policy.0["metadata"]["generation"];
            (is_of && policy.holds("Available", "SuccessfullyConfigured")).then_some(policy)
        })
    }

    pub(crate) fn enactment(&self, node: &str, policy: &str) -> Object {
        let name = format!("{node}.{policy}");
        self.get(&enactments(), &name).unwrap_or_else(|| panic!("there is no {name}"))
    }

    pub(crate) fn has_enactment(&self, node: &str, policy: &str) -> bool {
        self.get(&enactments(), &format!("{node}.{policy}")).is_some()
    }

    pub(crate) fn wait_for_phase(&self, node: &str, policy: &str, phase: Phase) -> Object {
        self.wait(&format!("{policy} is {phase:?} on {node}"), || {
            let enactment = self.get(&enactments(), &format!("{node}.{policy}"))?;
            (enactment.phase() == phase).then_some(enactment)
        })
    }

    /// Waits until one node has reached this phase; returns it and the other one.
    pub(crate) fn wait_for_one(&self, policy: &str, phase: Phase) -> (&'static str, &'static str) {
        let [a, b] = NODES;
        self.wait(&format!("{policy} is {phase:?} somewhere"), || {
            [(a, b), (b, a)].into_iter().find(|(node, _)| {
                let enactment = self.get(&enactments(), &format!("{node}.{policy}"));
                enactment.is_some_and(|it| it.phase() == phase)
            })
        })
    }

    pub(crate) fn wait_for_generation(
        &self,
        node: &str,
        policy: &str,
        generation: i64,
        phase: Phase,
    ) {
        self.wait(&format!("generation {generation} of {policy} is {phase:?} on {node}"), || {
            let enactment = self.get(&enactments(), &format!("{node}.{policy}"))?;
            let is_of = enactment.status()["policyGeneration"] == generation;
            (is_of && enactment.phase() == phase).then_some(())
        });
    }

    /// The slots of nodes that revert deleted policies.
    pub(crate) fn revert_slots(&self) -> String {
        let leases = self.namespaced(&resource("coordination.k8s.io", "v1", "Lease", "leases"));
        let lease = self.runtime.block_on(leases.get("nmstate-reverts")).unwrap();
        let annotations = lease.metadata.annotations.unwrap_or_default();
        annotations["nmstate.landfall.dev/revert-slots"].clone()
    }

    pub(crate) fn wait_until_left(&self, node: &str, policy: &str) {
        self.wait(&format!("{node} has no report about {policy}"), || {
            (!self.has_enactment(node, policy)).then_some(())
        });
    }

    /// Waits for an event on the current policy object, and returns its text.
    pub(crate) fn wait_for_event(&self, policy: &str, reason: &str) -> String {
        let uid = self.policy(policy).0["metadata"]["uid"].clone();
        let events = self.namespaced(&resource("events.k8s.io", "v1", "Event", "events"));
        self.wait(&format!("there is an event {reason} on {policy}"), || {
            let all = self.runtime.block_on(events.list(&Default::default())).ok()?;
            let is_it = |it: &&DynamicObject| {
                it.data["regarding"]["uid"] == uid && it.data["reason"] == reason
            };
            Some(all.items.iter().find(is_it)?.data["note"].as_str()?.to_owned())
        })
    }

    // Reports about networks.

    pub(crate) fn wait_for_report(&self, node: &str) {
        self.wait(&format!("{node} reports its network"), || {
            let report = self.get(&node_states(), node)?;
            report.status()["currentState"]["interfaces"].is_array().then_some(())
        });
    }

    pub(crate) fn wait_for_reported_mtu(&self, node: &str, mtu: u32) {
        self.wait(&format!("{node} reports an MTU of {mtu}"), || {
            let report = self.get(&node_states(), node)?;
            let interfaces = report.status()["currentState"]["interfaces"].as_array()?.clone();
            let nic = interfaces.into_iter().find(|it| it["name"] == "nic1")?;
            (nic["mtu"] == mtu).then_some(())
        });
    }

    pub(crate) fn delete_report(&self, node: &str) {
        let reports = self.api(&node_states());
        drop(self.runtime.block_on(reports.delete(node, &DeleteParams::default())).unwrap());
    }

    /// Writes invalid content into a report, then requests it to be read again.
    pub(crate) fn spoil_report(&self, node: &str) {
        let nonsense = json!({"status": {"currentState": null}});
        self.patch_status(&node_states(), node, &nonsense);
        let asks = json!({"labels": {"nmstate.io/force-nns-refresh": "1"}});
        self.patch_metadata(&node_states(), node, &asks);
    }

    /// Collects the slots of every version of a policy from now on.
    pub(crate) fn watch_policy(&self, name: &str) -> Watch {
        let policies: Api<DynamicObject> = self.api(&policies());
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
        let stream = self.runtime.block_on(policies.watch(&parameters, "0")).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let task = self.runtime.spawn(async move {
            let mut stream = stream.boxed();
            while let Some(event) = stream.next().await {
                if let Ok(WatchEvent::Added(it) | WatchEvent::Modified(it)) = event {
                    let slots = it.data["status"]["slots"].as_array().cloned().unwrap_or_default();
                    let names = slots.iter().filter_map(|it| Some(it["node"].as_str()?.to_owned()));
                    kept.lock().unwrap().push(names.collect());
                }
            }
        });
        Watch { seen, task }
    }

    // The API.

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), resource)
    }

    fn namespaced(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", resource)
    }

    fn put(&self, resource: &ApiResource, name: &str, object: &Value) {
        let api = self.api(resource);
        self.runtime.block_on(api.patch(name, &apply("test"), &Patch::Apply(object))).unwrap();
    }

    fn try_put(&self, resource: &ApiResource, name: &str, object: &Value) -> Option<()> {
        let api = self.api(resource);
        self.runtime.block_on(api.patch(name, &apply("test"), &Patch::Apply(object))).ok().map(drop)
    }

    fn patch_metadata(&self, resource: &ApiResource, name: &str, metadata: &Value) {
        let patch = json!({"metadata": metadata});
        let api = self.api(resource);
        self.runtime
            .block_on(api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)))
            .unwrap();
    }

    fn patch_status(&self, resource: &ApiResource, name: &str, patch: &Value) {
        let api = self.api(resource);
        self.runtime
            .block_on(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)))
            .unwrap();
    }

    fn get(&self, resource: &ApiResource, name: &str) -> Option<Object> {
        let found = self.runtime.block_on(self.api(resource).get_opt(name));
        Some(object(&self.unless_cut_off(found)??))
    }

    fn get_policy(&self, name: &str) -> Option<Object> {
        let policies: Api<StoredPolicy> = Api::all(self.client.clone());
        let found = self.runtime.block_on(policies.get_opt(name));
        Some(readable(&self.unless_cut_off(found)??))
    }

    /// A connection may break when a server is restarted.
    fn unless_cut_off<T>(&self, response: Result<T, kube::Error>) -> Option<T> {
        match response {
            Ok(found) => Some(found),
            Err(error @ (kube::Error::Api(_) | kube::Error::SerdeError(_))) => panic!("{error}"),
            Err(_) => None,
        }
    }

    fn all_policies(&self) -> Vec<Object> {
        let policies: Api<StoredPolicy> = Api::all(self.client.clone());
        let list = self.runtime.block_on(policies.list(&Default::default())).unwrap();
        list.iter().map(readable).collect()
    }

    fn all_enactments(&self) -> Vec<Object> {
        let enactments = self.api(&enactments());
        let list = self.runtime.block_on(enactments.list(&Default::default())).unwrap();
        list.iter().map(object).collect()
    }

    /// All policies and reports, for the analysis of a failure.
    pub(crate) fn objects(&self) -> String {
        let lines = self.all_policies().into_iter().chain(self.all_enactments());
        lines.map(|it| format!("{}: {}\n", it.name(), it.status())).collect()
    }
}

impl Object {
    fn name(&self) -> String {
        self.0["metadata"]["name"].as_str().unwrap_or_default().to_owned()
    }
}

/// A watch in progress.
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<Vec<String>>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// The holders of slots, in each version of the policy.
    pub(crate) fn end(self) -> Vec<Vec<String>> {
        self.task.abort();
        self.seen.lock().unwrap().clone()
    }
}

fn object(found: &impl serde::Serialize) -> Object {
    Object(serde_json::to_value(found).unwrap())
}

/// Without the spec if it cannot be parsed.
fn readable(policy: &StoredPolicy) -> Object {
    object(&policy.read().unwrap_or_else(|_| policy.without_spec()))
}

fn policy(name: &str, spec: &Value, annotations: &[(&str, &str)]) -> Value {
    let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name, "annotations": annotations}, "spec": spec,
    })
}

fn apply(writer: &str) -> PatchParams {
    PatchParams::apply(writer).force()
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

fn policies() -> ApiResource {
    let kind = "NodeNetworkConfigurationPolicy";
    resource("nmstate.io", "v1", kind, "nodenetworkconfigurationpolicies")
}

fn enactments() -> ApiResource {
    let kind = "NodeNetworkConfigurationEnactment";
    resource("nmstate.io", "v1beta1", kind, "nodenetworkconfigurationenactments")
}

fn node_states() -> ApiResource {
    resource("nmstate.io", "v1beta1", "NodeNetworkState", "nodenetworkstates")
}

fn nodes() -> ApiResource {
    resource("", "v1", "Node", "nodes")
}

fn cluster_versions() -> ApiResource {
    resource("config.openshift.io", "v1", "ClusterVersion", "clusterversions")
}
