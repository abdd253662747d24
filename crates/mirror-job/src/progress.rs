//! What the state of a Job and its pods means.

use serde_json::Value;

/// How far a Job is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobProgress {
    pub completions: u32,
    pub active: u32,
    pub succeeded: u32,
    /// Pods that failed so far, repeated ones included.
    pub failed_pods: u32,
    pub failed_indexes: Vec<u32>,
    pub is_suspended: bool,
    /// `Complete` or `Failed`, once the Job has ended.
    pub ended: Option<Condition>,
}

/// A condition that is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: String,
    pub reason: String,
    pub message: String,
}

impl JobProgress {
    /// Reads a Job as the API has it.
    pub fn of(job: &Value) -> Self {
        let (spec, status) = (&job["spec"], &job["status"]);
        let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ended = conditions.iter().find(|condition| {
            condition["status"] == "True"
                && (condition["type"] == "Complete" || condition["type"] == "Failed")
        });
        Self {
            completions: number(&spec["completions"]).max(1),
            active: number(&status["active"]),
            succeeded: number(&status["succeeded"]),
            failed_pods: number(&status["failed"]),
            failed_indexes: indexes(status["failedIndexes"].as_str().unwrap_or_default()),
            is_suspended: spec["suspend"] == true,
            ended: ended.map(|condition| Condition {
                kind: text(&condition["type"]),
                reason: text(&condition["reason"]),
                message: text(&condition["message"]),
            }),
        }
    }

    pub fn has_failed(&self) -> bool {
        self.ended.as_ref().is_some_and(|condition| condition.kind == "Failed")
    }
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    Waiting,
    Running,
    Failed,
    Succeeded,
}

/// The newest pod of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardState {
    pub index: u32,
    pub pod: String,
    pub state: PodState,
    /// Pods of this shard so far.
    pub attempts: u32,
    /// Why it waits or has failed.
    pub reason: Option<String>,
}

/// The state of each shard that has a pod, by index.
pub fn shard_states(pods: &[Value]) -> Vec<ShardState> {
    let mut newest: std::collections::BTreeMap<u32, (String, ShardState)> =
        std::collections::BTreeMap::new();
    for pod in pods {
        let annotations = &pod["metadata"]["annotations"];
        let index = annotations["batch.kubernetes.io/job-completion-index"].as_str();
        let Some(index) = index.and_then(|index| index.parse().ok()) else { continue };
        let created = text(&pod["metadata"]["creationTimestamp"]);
        let (state, reason) = state(pod);
        let pod = text(&pod["metadata"]["name"]);
        let mut shard = ShardState { index, pod, state, attempts: 1, reason };
        match newest.remove(&index) {
            Some((other, known)) if other > created || known.state == PodState::Succeeded => {
                let attempts = known.attempts + 1;
                newest.insert(index, (other, ShardState { attempts, ..known }));
            }
            known => {
                shard.attempts += known.map_or(0, |(_, known)| known.attempts);
                newest.insert(index, (created, shard));
            }
        }
    }
    newest.into_values().map(|(_, shard)| shard).collect()
}

fn state(pod: &Value) -> (PodState, Option<String>) {
    let status = &pod["status"];
    let container = &status["containerStatuses"][0]["state"];
    let waiting = &container["waiting"];
    let terminated = &container["terminated"];
    match status["phase"].as_str().unwrap_or_default() {
        "Succeeded" => (PodState::Succeeded, None),
        "Failed" => {
            let code = terminated["exitCode"].as_i64();
            let last = text(&terminated["message"]);
            let last = last.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let why = match code {
                Some(code) => format!("exit code {code}: {last}"),
                None => format!("{}: {}", text(&status["reason"]), text(&status["message"])),
            };
            (PodState::Failed, Some(why.trim_end_matches([':', ' ']).to_owned()))
        }
        "Running" => (PodState::Running, None),
        _ if waiting.is_object() => {
            let why = format!("{}: {}", text(&waiting["reason"]), text(&waiting["message"]));
            (PodState::Waiting, Some(why.trim_end_matches([':', ' ']).to_owned()))
        }
        _ => {
            let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let unscheduled = conditions.iter().find(|condition| {
                condition["type"] == "PodScheduled" && condition["status"] == "False"
            });
            (PodState::Waiting, unscheduled.map(|condition| text(&condition["message"])))
        }
    }
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads `0-2,5`. What is not a number is left out: it only serves to inform.
fn indexes(text: &str) -> Vec<u32> {
    let ranges = text.split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        // A range that a cluster has is never longer.
        (to >= from && to - from < 100_000).then_some(from..=to)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(index: u32, created: &str, status: &Value) -> Value {
        json!({
            "metadata": {
                "name": format!("pod-{index}-{created}"),
                "creationTimestamp": created,
                "annotations": { "batch.kubernetes.io/job-completion-index": index.to_string() },
            },
            "status": status,
        })
    }

    #[test]
    fn a_job_that_failed_names_its_indexes_and_reason() {
        let job = json!({
            "spec": { "completions": 8, "suspend": false },
            "status": {
                "succeeded": 4, "failed": 9, "failedIndexes": "0-2,5",
                "conditions": [
                    { "type": "FailureTarget", "status": "True", "reason": "x" },
                    { "type": "Failed", "status": "True", "reason": "MaxFailedIndexesExceeded", "message": "m" },
                ],
            },
        });
        let progress = JobProgress::of(&job);
        assert_eq!(progress.failed_indexes, [0, 1, 2, 5]);
        assert!(progress.has_failed());
        assert_eq!(progress.ended.unwrap().reason, "MaxFailedIndexesExceeded");
        assert_eq!(
            JobProgress::of(&json!({})),
            JobProgress { completions: 1, ..JobProgress::default() }
        );
    }

    #[test]
    fn the_newest_pod_of_a_shard_counts_and_reasons_are_told() {
        let pods = [
            pod(1, "2026-01-01T00:00:02Z", &json!({ "phase": "Running" })),
            pod(
                1,
                "2026-01-01T00:00:01Z",
                &json!({ "phase": "Failed", "containerStatuses": [
                { "state": { "terminated": { "exitCode": 75, "message": "a\nno route\n" } } },
            ] }),
            ),
            pod(
                0,
                "2026-01-01T00:00:01Z",
                &json!({ "phase": "Pending", "containerStatuses": [
                { "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } } },
            ] }),
            ),
            pod(
                2,
                "2026-01-01T00:00:01Z",
                &json!({ "phase": "Failed", "containerStatuses": [
                { "state": { "terminated": { "exitCode": 1, "message": "a\nwrong version\n" } } },
            ] }),
            ),
            pod(
                3,
                "2026-01-01T00:00:01Z",
                &json!({ "phase": "Failed", "reason": "Evicted", "message": "disk" }),
            ),
        ];
        let states = shard_states(&pods);
        let of = |at: usize| (states[at].state, states[at].attempts, states[at].reason.as_deref());
        assert_eq!(of(0), (PodState::Waiting, 1, Some("ImagePullBackOff: no such image")));
        assert_eq!(of(1), (PodState::Running, 2, None));
        assert_eq!(of(2), (PodState::Failed, 1, Some("exit code 1: wrong version")));
        assert_eq!(of(3), (PodState::Failed, 1, Some("Evicted: disk")));
    }
}
