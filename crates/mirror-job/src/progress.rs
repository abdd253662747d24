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

/// How far a shard is, as its pod logs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogProgress {
    pub percent: u8,
    /// `1.2 GB of 4.0 GB`
    pub amount: String,
}

impl LogProgress {
    /// Of an amount in bytes, as text.
    pub fn new((done, all): (u64, u64), text: impl Fn(u64) -> String) -> Self {
        let percent = match all {
            0 => 100,
            // At most 100, so it fits.
            _ => u8::try_from(u128::from(done.min(all)) * 100 / u128::from(all)).unwrap_or(100),
        };
        Self { percent, amount: format!("{} of {}", text(done.min(all)), text(all)) }
    }

    /// The line of the log, without time and level.
    pub fn line(&self, shard: u32) -> String {
        format!("shard {shard}: {} %, {}", self.percent, self.amount)
    }
}

/// The last progress in the log of a shard's pod.
pub fn log_progress(log: &str, shard: u32) -> Option<LogProgress> {
    let label = format!("shard {shard}: ");
    log.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once(&label)?;
        let (percent, amount) = rest.split_once(" %, ")?;
        Some(LogProgress { percent: percent.parse().ok()?, amount: amount.trim().to_owned() })
    })
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
    fn the_progress_of_a_shard_is_read_from_its_log() {
        let at = |done| LogProgress::new((done, 200), |bytes| format!("{bytes} B"));
        assert_eq!(at(63).line(3), "shard 3: 31 %, 63 B of 200 B");
        assert_eq!(
            (at(500).percent, LogProgress::new((0, 0), |b| b.to_string()).percent),
            (100, 100)
        );
        let log = format!(
            "2026/01/01 [INFO] : shard 3 of run x: 200 B\n[INFO] : {}\n[INFO] : {}\n[WARN] : slow\n",
            at(2).line(3),
            at(63).line(3)
        );
        assert_eq!(log_progress(&log, 3), Some(at(63)));
        assert_eq!(log_progress(&log, 30), None);
        assert_eq!(log_progress("shard 3: 7 blobs, 1 mounted", 3), None);
    }

    #[test]
    fn the_newest_pod_of_a_shard_counts_and_reasons_are_reported() {
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
