//! The state of the shards of a run that a command follows: what was printed, their progress, and
//! the metrics of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::bail;
use cluster_connection::Connection;
use mirror_job::{JobProgress, LogProgress, PodState, RunName, ShardState, log_progress};

use super::follow::{pods, reasons};
use crate::metrics::{self, ShardCounts};
use crate::quantity;

/// The time between two readings of the logs of pods.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// The time between two lines that differ only in how much has arrived.
const PRINT_INTERVAL: Duration = Duration::from_secs(30);
/// Lines at the end of a log that have the newest progress.
const LAST_LINES: u32 = 20;

/// Watches the shards of a run.
#[derive(Debug)]
pub(super) struct Watch {
    run: RunName,
    namespace: String,
    settings: WatchSettings,
    begun: Instant,
    has_started: bool,
    printed: Option<Printed>,
    logs_read: Option<Instant>,
    progress: BTreeMap<u32, LogProgress>,
    counts: BTreeMap<u32, ShardCounts>,
    has_failed_to_write: AtomicBool,
}

/// What is done with what is known.
#[derive(Debug, Clone)]
pub(super) struct WatchSettings {
    /// How long no pod may start; zero: without end.
    pub(super) start_timeout: Duration,
    pub(super) metrics: Option<PathBuf>,
}

/// The last line that was printed.
#[derive(Debug)]
struct Printed {
    state: String,
    percent: Option<u8>,
    why: Vec<String>,
    at: Instant,
}

impl Watch {
    pub(super) fn new(run: RunName, namespace: &str, settings: WatchSettings) -> Self {
        Self {
            run,
            namespace: namespace.to_owned(),
            settings,
            begun: Instant::now(),
            has_started: false,
            printed: None,
            logs_read: None,
            progress: BTreeMap::new(),
            counts: BTreeMap::new(),
            has_failed_to_write: AtomicBool::new(false),
        }
    }

    /// Takes in how far the Job of the shards is, prints what is new, and writes the metrics.
    /// Returns why shards wait or have failed.
    pub(super) async fn observe(
        &mut self,
        cluster: &Connection,
        job: &JobProgress,
        shards: &[ShardState],
    ) -> anyhow::Result<Vec<String>> {
        self.read_logs(cluster, shards).await;
        self.count(shards);
        let why = reasons(shards);
        self.print(job, shards, &why);
        if let Some(path) = &self.settings.metrics {
            metrics::write(path, &self.metrics(job), &self.has_failed_to_write);
        }
        if job.is_suspended {
            // It waits for a queue.
            self.begun = Instant::now();
        }
        self.has_started |= shards.iter().any(|shard| shard.state != PodState::Waiting);
        let limit = self.settings.start_timeout;
        if !self.has_started && !limit.is_zero() && self.begun.elapsed() >= limit {
            let Self { run, namespace, .. } = self;
            let reason = match why.is_empty() {
                true => "the cluster reports no reason".to_owned(),
                false => why.join("\n"),
            };
            bail!(
                "no pod of the run {run} has started for {}: {reason}\n\
                 the Jobs still exist, and continue once the cause is removed; \
                 end them with `oc-mirror job cancel {run} -n {namespace}`",
                quantity::time(limit),
            );
        }
        Ok(why)
    }

    /// The end of the run, for the metrics.
    pub(super) fn end(&self, code: u8) {
        let Some(path) = &self.settings.metrics else { return };
        let mut text = String::new();
        running(&mut text, false);
        metrics::metric(
            &mut text,
            "exit_code",
            "gauge",
            "Exit code of the run.",
            &[("", code.into())],
        );
        let now = metrics::now().into();
        metrics::metric(
            &mut text,
            "end_time_seconds",
            "gauge",
            "When the run ended.",
            &[("", now)],
        );
        let mut counts = self.counts.clone();
        counts.values_mut().for_each(|counts| counts.is_running = false);
        metrics::render_shards(&mut text, &counts);
        metrics::write(path, &text, &self.has_failed_to_write);
    }

    /// Reads periodically from logs how far running shards are. What cannot be read is left out.
    async fn read_logs(&mut self, cluster: &Connection, shards: &[ShardState]) {
        if self.logs_read.is_some_and(|read| read.elapsed() < LOG_INTERVAL) {
            return;
        }
        self.logs_read = Some(Instant::now());
        for (shard, progress) in logged(cluster, &self.namespace, shards).await {
            if self.progress.get(&shard) != Some(&progress)
                && let Some(counts) = self.counts.get_mut(&shard)
            {
                counts.progressed = metrics::now();
            }
            self.progress.insert(shard, progress);
        }
    }

    fn count(&mut self, shards: &[ShardState]) {
        for shard in shards {
            let is_running = shard.state == PodState::Running;
            let new = ShardCounts { is_running, attempts: 0, progressed: metrics::now() };
            let counts = self.counts.entry(shard.index).or_insert(new);
            if counts.attempts != shard.attempts || counts.is_running != is_running {
                // A shard that starts or ends does not stall.
                *counts = ShardCounts { attempts: shard.attempts, ..new };
            }
        }
    }

    fn print(&mut self, job: &JobProgress, shards: &[ShardState], why: &[String]) {
        let state = summary(job);
        let percent = self.percent(job, shards);
        let is_new = match &self.printed {
            None => true,
            Some(printed) => {
                printed.state != state
                    || printed.why != why
                    || (printed.percent != percent && printed.at.elapsed() >= PRINT_INTERVAL)
            }
        };
        if !is_new {
            return;
        }
        match percent {
            Some(percent) => tracing::info!("shards: {state}, {percent} % of the content"),
            None => tracing::info!("shards: {state}"),
        }
        let known = self.printed.take().map(|printed| printed.why).unwrap_or_default();
        for line in why.iter().filter(|line| !known.contains(line)) {
            tracing::warn!("{line}");
        }
        let at = Instant::now();
        self.printed = Some(Printed { state, percent, why: why.to_vec(), at });
    }

    /// How much has arrived. Shards have equal shares.
    fn percent(&self, job: &JobProgress, shards: &[ShardState]) -> Option<u8> {
        if self.progress.is_empty() {
            return None;
        }
        let of = |shard: &ShardState| match shard.state {
            PodState::Succeeded => 100,
            PodState::Running | PodState::Waiting | PodState::Failed => {
                self.progress.get(&shard.index).map_or(0, |progress| u32::from(progress.percent))
            }
        };
        u8::try_from(shards.iter().map(of).sum::<u32>() / job.completions.max(1)).ok()
    }

    fn metrics(&self, job: &JobProgress) -> String {
        let mut text = String::new();
        running(&mut text, true);
        let waiting = job
            .completions
            .saturating_sub(job.active + job.succeeded)
            .saturating_sub(u32::try_from(job.failed_indexes.len()).unwrap_or(u32::MAX));
        metrics::metric(
            &mut text,
            "shards",
            "gauge",
            "Shards of the run by state.",
            &[
                ("{state=\"waiting\"}", waiting.into()),
                ("{state=\"active\"}", job.active.into()),
                ("{state=\"done\"}", job.succeeded.into()),
                ("{state=\"failed\"}", job.failed_indexes.len() as i128),
            ],
        );
        metrics::render_shards(&mut text, &self.counts);
        text
    }
}

fn running(text: &mut String, is_running: bool) {
    let help = "Whether the run is under way.";
    metrics::metric(text, "running", "gauge", help, &[("{mode=\"job\"}", is_running.into())]);
}

/// How far running shards are, by the logs of their pods.
pub(super) async fn logged(
    cluster: &Connection,
    namespace: &str,
    shards: &[ShardState],
) -> BTreeMap<u32, LogProgress> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let mut found = BTreeMap::new();
    for shard in shards.iter().filter(|shard| shard.state == PodState::Running) {
        if let Ok(log) = cluster.logs(&path, &shard.pod, Some(LAST_LINES)).await
            && let Some(progress) = log_progress(&log, shard.index)
        {
            found.insert(shard.index, progress);
        }
    }
    found
}

/// `12 of 16 done, 4 active, 2 pods failed and were repeated`
pub(super) fn summary(progress: &JobProgress) -> String {
    let JobProgress { completions, active, succeeded, .. } = progress;
    let mut text = format!("{succeeded} of {completions} done, {active} active");
    if progress.failed_pods > 0 {
        let pods = usize::try_from(progress.failed_pods).unwrap_or(usize::MAX);
        text += &format!(", {} failed and repeated", quantity::count(pods, "pod"));
    }
    if progress.is_suspended {
        text += ", suspended";
    }
    text
}

/// The states of the shards of a Job.
pub(super) async fn states(
    cluster: &Connection,
    namespace: &str,
    job: &str,
) -> anyhow::Result<Vec<ShardState>> {
    Ok(mirror_job::shard_states(&pods(cluster, namespace, job).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        let settings = WatchSettings { start_timeout: Duration::ZERO, metrics: None };
        Watch::new("oc-mirror-0123456789ab".parse().unwrap(), "mirror", settings)
    }

    fn shard(index: u32, state: PodState) -> ShardState {
        ShardState { index, pod: String::new(), state, attempts: 1, reason: None }
    }

    #[test]
    fn progress_is_the_mean_of_all_shards() {
        let job = JobProgress { completions: 4, ..JobProgress::default() };
        let mut watch = watch();
        let shards = [shard(0, PodState::Succeeded), shard(2, PodState::Running)];
        assert_eq!(watch.percent(&job, &shards), None);
        watch.progress.insert(2, LogProgress { percent: 40, amount: String::new() });
        assert_eq!(watch.percent(&job, &shards), Some(35));
    }

    #[test]
    fn metrics_distinguish_the_shards() {
        let job = JobProgress { completions: 4, active: 1, succeeded: 1, ..JobProgress::default() };
        let mut watch = watch();
        watch.count(&[shard(0, PodState::Succeeded), shard(2, PodState::Running)]);
        let text = watch.metrics(&job);
        for line in [
            "oc_mirror_shards{state=\"waiting\"} 2",
            "oc_mirror_shard_running{shard=\"0\"} 0",
            "oc_mirror_shard_running{shard=\"2\"} 1",
            "oc_mirror_shard_attempts_total{shard=\"2\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_summary_counts() {
        let progress = JobProgress { completions: 2, failed_pods: 1, ..JobProgress::default() };
        assert_eq!(summary(&progress), "0 of 2 done, 0 active, 1 pod failed and repeated");
    }
}
