//! The progress of the roll-out, and whether its components are healthy.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The observed state of the operand's pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rollout {
    pub handlers: Option<DaemonSet>,
    pub coordinator: Option<Deployment>,
    /// The handlers one by one. Read only where [`Self::is_incomplete`].
    pub pods: Vec<HandlerPod>,
    /// Nodes that are not ready. Read only where [`Self::is_incomplete`].
    pub down: BTreeSet<String>,
}

/// The handler of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerPod {
    pub node: String,
    /// Identifies the version of the DaemonSet that it was created from.
    pub revision: String,
    pub is_ready: bool,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// Why its container does not run, as the kubelet reports it.
    pub waits_for: Option<String>,
}

impl HandlerPod {
    /// None for a pod that has no node yet.
    pub fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
        let containers = status.and_then(|it| it.container_statuses.as_ref()).into_iter().flatten();
        let labels = pod.metadata.labels.as_ref();
        let mut waits =
            containers.filter_map(|it| it.state.as_ref()?.waiting.as_ref()?.reason.clone());
        Some(Self {
            node: pod.spec.as_ref()?.node_name.clone()?,
            revision: labels.and_then(|it| it.get(REVISION)).cloned().unwrap_or_default(),
            is_ready: conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True"),
            is_going: pod.metadata.deletion_timestamp.is_some(),
            waits_for: waits.next(),
        })
    }
}

/// Names of the nodes that are not ready.
pub fn down<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> BTreeSet<String> {
    let is_ready = |node: &&Node| {
        let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
        conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    let down = nodes.into_iter().filter(|node| !is_ready(node));
    down.filter_map(|node| node.metadata.name.clone()).collect()
}

/// On every pod of a DaemonSet.
const REVISION: &str = "controller-revision-hash";
/// Names in a message. More are counted.
const MOST_NAMES: usize = 5;

/// A fingerprint of everything that is deployed: it changes when any object does.
fn fingerprint(objects: &[Value]) -> String {
    let mut hash = Sha256::new();
    for object in objects {
        hash.update(object.to_string().as_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// On what runs pods: the fingerprint of the operand it was applied with.
const FINGERPRINT: &str = "nmstate.landfall.dev/operand";

/// Writes the fingerprint of all objects on those that run pods, and returns it.
pub fn mark(objects: &mut [Value]) -> String {
    let fingerprint = fingerprint(objects);
    for object in objects {
        if object["kind"] == "DaemonSet" || object["kind"] == "Deployment" {
            object["metadata"]["annotations"][FINGERPRINT] = json!(fingerprint);
        }
    }
    fingerprint
}

fn bears(metadata: &ObjectMeta, fingerprint: &str) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations.and_then(|list| list.get(FINGERPRINT)).is_some_and(|text| text == fingerprint)
}

impl Rollout {
    /// What is missing before everything of this fingerprint runs, as text. A few handlers may be
    /// unavailable: among many nodes one always restarts.
    pub fn missing(&self, fingerprint: &str, with_coordinator: bool) -> Option<String> {
        self.handlers_missing(fingerprint)
            .or_else(|| with_coordinator.then(|| self.coordinator_missing(fingerprint))?)
    }

    fn handlers_missing(&self, fingerprint: &str) -> Option<String> {
        let Some(set) = &self.handlers else { return Some("No handlers yet".to_owned()) };
        let Some(status) = set.status.as_ref().filter(|status| {
            bears(&set.metadata, fingerprint)
                && status.observed_generation.unwrap_or(0) >= set.metadata.generation.unwrap_or(0)
        }) else {
            return Some("Handlers are about to be rolled out".to_owned());
        };
        let wanted = status.desired_number_scheduled;
        let updated = status.updated_number_scheduled.unwrap_or(0);
        let available = status.number_available.unwrap_or(0);
        let down = self.handlers_down();
        let note = match down.is_empty() {
            true => String::new(),
            false => format!("; not ready: {}", names(&down)),
        };
        if updated < wanted - self.cannot_be_updated(updated) {
            return Some(format!("{updated} of {wanted} handlers are of the new version{note}"));
        }
        let may_be_away = (wanted / 10).max(count(down.len()));
        (available < wanted - may_be_away)
            .then(|| format!("{available} of {wanted} handlers are ready{note}"))
    }

    /// Whether the numbers alone do not show that every handler is new and ready.
    pub fn is_incomplete(&self) -> bool {
        let status = self.handlers.as_ref().and_then(|set| set.status.as_ref());
        status.is_some_and(|status| {
            let wanted = status.desired_number_scheduled;
            let least = status.updated_number_scheduled.min(status.number_available).unwrap_or(0);
            least < wanted
        })
    }

    /// Nodes that are down and should have a handler.
    pub fn handlers_down(&self) -> Vec<String> {
        let nodes: BTreeSet<&str> = self.pods.iter().map(|pod| pod.node.as_str()).collect();
        let down = self.down.iter().filter(|node| nodes.contains(node.as_str()));
        down.cloned().collect()
    }

    /// Nodes that are ready while their handler is not, with the reason if it is known.
    pub fn handlers_not_ready(&self) -> Vec<String> {
        let is_up = |node: &str| !self.down.contains(node);
        let ready: BTreeSet<&str> =
            self.pods.iter().filter(|pod| pod.is_ready).map(|pod| pod.node.as_str()).collect();
        let waiting = self
            .pods
            .iter()
            .filter(|pod| is_up(&pod.node) && !ready.contains(pod.node.as_str()) && !pod.is_going);
        let name = |pod: &HandlerPod| match &pod.waits_for {
            Some(reason) => format!("{} ({reason})", pod.node),
            None => pod.node.clone(),
        };
        waiting.map(name).collect()
    }

    /// How many handlers are not updated because their nodes are down. A handler that is being
    /// replaced is not counted: its node is up.
    fn cannot_be_updated(&self, updated: i32) -> i32 {
        let (down, up): (Vec<&HandlerPod>, Vec<&HandlerPod>) =
            self.pods.iter().partition(|pod| self.down.contains(&pod.node));
        let Some(newest) = up.first().map(|pod| pod.revision.as_str()) else { return 0 };
        if up.iter().any(|pod| pod.is_going || pod.revision != newest) {
            return 0;
        }
        let is_new = |pod: &&&HandlerPod| !pod.is_going && pod.revision == newest;
        let new = up.len() + down.iter().filter(is_new).count();
        // Otherwise all of them are of the previous version, and the update has not begun.
        let is_newest = count(new) == updated;
        let stale: BTreeSet<&str> =
            down.iter().filter(|pod| !is_new(pod)).map(|pod| pod.node.as_str()).collect();
        if is_newest { count(stale.len()) } else { 0 }
    }

    fn coordinator_missing(&self, fingerprint: &str) -> Option<String> {
        let Some(deployment) = &self.coordinator else {
            return Some("No coordinator yet".to_owned());
        };
        let generation = deployment.metadata.generation.unwrap_or(0);
        let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let Some(status) = deployment
            .status
            .as_ref()
            .filter(|status| status.observed_generation.unwrap_or(0) >= generation)
            .filter(|_| bears(&deployment.metadata, fingerprint))
        else {
            return Some("The coordinator is about to be rolled out".to_owned());
        };
        let (updated, available) =
            (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
        (updated < wanted || available == 0).then(|| {
            format!("{updated} of {wanted} coordinators are of the new version, {available} ready")
        })
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A few names, and how many more there are.
pub(crate) fn names(all: &[String]) -> String {
    let first = all.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST_NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rollout(handlers: &Value, coordinator: &Value) -> Rollout {
        let of = |status: &Value| {
            json!({
                "metadata": { "generation": 2, "annotations": { FINGERPRINT: "f" } },
                "status": status,
            })
        };
        Rollout {
            handlers: serde_json::from_value(of(handlers)).unwrap(),
            coordinator: serde_json::from_value(of(coordinator)).unwrap(),
            ..Rollout::default()
        }
    }

    fn pod(node: &str, revision: &str) -> HandlerPod {
        HandlerPod {
            node: node.into(),
            revision: revision.into(),
            is_ready: true,
            is_going: false,
            waits_for: None,
        }
    }

    #[test]
    fn a_node_that_is_down_does_not_hold_up_an_update_and_is_named() {
        let good = json!({ "observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1 });
        let mut seen = rollout(&handlers(2, 3, 2, 2), &good);
        assert!(seen.is_incomplete());
        seen.down = ["c".to_owned()].into();
        let gone = HandlerPod { is_ready: false, is_going: true, ..pod("c", "old") };
        seen.pods = vec![pod("a", "new"), pod("b", "new"), gone.clone()];
        assert_eq!(seen.missing("f", true), None);
        assert_eq!(seen.handlers_down(), ["c"]);
        assert_eq!(seen.handlers_not_ready(), Vec::<String>::new());

        // The same numbers while a handler is being replaced on a node that is up.
        seen.down.clear();
        let missing = seen.missing("f", true).unwrap();
        assert_eq!(missing, "2 of 3 handlers are of the new version");
        // One node is down and has the new handler, another is being updated.
        seen.down = ["a".to_owned()].into();
        seen.pods = vec![pod("a", "new"), pod("b", "new"), pod("c", "old")];
        let missing = seen.missing("f", true).unwrap();
        assert_eq!(missing, "2 of 3 handlers are of the new version; not ready: a");
        // The update has not begun.
        let mut seen = rollout(&handlers(2, 3, 0, 2), &good);
        seen.down = ["c".to_owned()].into();
        seen.pods = vec![pod("a", "old"), pod("b", "old"), gone];
        assert!(seen.missing("f", true).is_some());
    }

    #[test]
    fn a_handler_that_does_not_run_on_a_node_that_is_up_is_named_with_the_reason() {
        let status = json!({
            "conditions": [{ "type": "Ready", "status": "False" }],
            "containerStatuses": [{
                "name": "handler", "image": "i", "imageID": "", "ready": false, "restartCount": 7,
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            }],
        });
        let broken = serde_json::from_value(json!({
            "metadata": { "labels": { REVISION: "new" } },
            "spec": { "nodeName": "b", "containers": [] },
            "status": status,
        }));
        let pods = vec![pod("a", "new"), HandlerPod::of(&broken.unwrap()).unwrap()];
        let seen = Rollout { pods, ..Rollout::default() };
        assert_eq!(seen.handlers_not_ready(), ["b (CrashLoopBackOff)"]);
        let down = Rollout { down: ["b".to_owned()].into(), ..seen };
        assert_eq!(down.handlers_not_ready(), Vec::<String>::new());
    }

    #[test]
    fn nodes_without_a_ready_condition_are_down() {
        let node = |name: &str, status: &str| -> Node {
            let conditions = json!([{ "type": "Ready", "status": status }]);
            let status = json!({ "conditions": conditions });
            serde_json::from_value(json!({ "metadata": { "name": name }, "status": status }))
                .unwrap()
        };
        let nodes = [node("a", "True"), node("b", "Unknown"), node("c", "False")];
        assert_eq!(down(&nodes), ["b".to_owned(), "c".to_owned()].into());
    }

    fn handlers(observed: i64, wanted: i32, updated: i32, available: i32) -> Value {
        json!({
            "observedGeneration": observed,
            "desiredNumberScheduled": wanted,
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "currentNumberScheduled": wanted,
            "numberMisscheduled": 0,
            "numberReady": available,
        })
    }

    #[test]
    fn a_roll_out_is_over_when_all_is_new_and_nearly_all_is_ready() {
        let good = json!({ "observedGeneration": 2, "updatedReplicas": 1, "availableReplicas": 1 });
        for (seen, over) in [
            (handlers(2, 20, 20, 20), true),
            (handlers(2, 20, 20, 18), true),
            (handlers(2, 20, 20, 17), false),
            (handlers(2, 20, 19, 20), false),
            (handlers(1, 20, 20, 20), false),
            (handlers(2, 0, 0, 0), true),
            (handlers(2, 1, 1, 0), false),
        ] {
            assert_eq!(rollout(&seen, &good).missing("f", true).is_none(), over, "{seen}");
        }
        let all = handlers(2, 1, 1, 1);
        let none = json!({ "observedGeneration": 2, "updatedReplicas": 1 });
        assert!(rollout(&all, &none).missing("f", true).is_some());
        assert!(rollout(&all, &none).missing("f", false).is_none());
        assert!(Rollout::default().missing("f", false).is_some());
        // What runs is complete, but it is what ran before.
        assert!(rollout(&all, &good).missing("g", false).is_some());
    }

    #[test]
    fn a_fingerprint_changes_with_any_object() {
        let one = fingerprint(&[json!({ "a": 1 })]);
        assert_eq!(one, fingerprint(&[json!({ "a": 1 })]));
        assert_ne!(one, fingerprint(&[json!({ "a": 2 })]));
        assert_ne!(one, fingerprint(&[json!({ "a": 1 }), json!({ "a": 1 })]));
    }
}
