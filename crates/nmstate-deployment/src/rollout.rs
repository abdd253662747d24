//! How far the cluster is with what it was told to run.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What is known of the operand's pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rollout {
    pub handlers: Option<DaemonSet>,
    pub coordinator: Option<Deployment>,
}

/// One name for all that is deployed: it changes when any object does.
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
    /// What is missing before everything of this fingerprint runs, in words. A few handlers may be
    /// away: among many nodes one always restarts.
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
        let may_be_away = wanted / 10;
        if updated < wanted {
            return Some(format!("{updated} of {wanted} handlers are of the new version"));
        }
        (available < wanted - may_be_away)
            .then(|| format!("{available} of {wanted} handlers are ready"))
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
        }
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
