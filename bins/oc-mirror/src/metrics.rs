//! `--metrics-file`: how far a run is, in the text format of Prometheus, for the textfile collector
//! of node-exporter or another agent that reads files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use mirror::{Event, ImageDone, Observer, Outcome, ShardActivity};
use workspace::atomic_file::{self, Durability};

use crate::problem::chain;

/// How often the file is written.
const INTERVAL: Duration = Duration::from_secs(5);

/// An observer that counts events and passes them on.
pub(crate) struct Metrics {
    path: PathBuf,
    mode: &'static str,
    inner: Arc<dyn Observer>,
    counts: Mutex<Counts>,
    has_failed: AtomicBool,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Counts {
    started: i64,
    /// When something last arrived.
    progressed: i64,
    planned: u64,
    present: u64,
    copied: u64,
    failed: u64,
    blobs_planned: u64,
    blobs: u64,
    failed_attempts: u64,
    bytes_planned: u64,
    bytes: u64,
    shards: BTreeMap<u32, ShardCounts>,
    /// Exit code and time of the end.
    ended: Option<(u8, i64)>,
}

/// How far one shard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardCounts {
    pub(crate) is_running: bool,
    /// Processes or pods so far.
    pub(crate) attempts: u32,
    /// When something last arrived, in Unix time.
    pub(crate) progressed: i64,
}

pub(crate) fn now() -> i64 {
    Timestamp::now().as_second()
}

impl Metrics {
    pub(crate) fn new(path: PathBuf, mode: &'static str, inner: Arc<dyn Observer>) -> Self {
        let started = now();
        let counts = Counts { started, progressed: started, ..Counts::default() };
        Self { path, mode, inner, counts: Mutex::new(counts), has_failed: AtomicBool::new(false) }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the file again and again. Never ends.
    pub(crate) async fn follow(&self) {
        loop {
            self.write();
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Writes the file for the last time.
    pub(crate) fn end(&self, exit_code: u8) {
        self.counts().ended = Some((exit_code, now()));
        self.write();
    }

    /// A file that cannot be written does not end the run; the user is warned once.
    fn write(&self) {
        let text = render(&self.counts(), self.mode);
        write(&self.path, &text, &self.has_failed);
    }
}

/// Writes a file of metrics. `has_failed` keeps a second warning from being printed.
pub(crate) fn write(path: &Path, text: &str, has_failed: &AtomicBool) {
    let written = atomic_file::write(path, text.as_bytes(), Durability::Later);
    if let Err(error) = written
        && !has_failed.swap(true, Ordering::Relaxed)
    {
        tracing::warn!("writing the metrics: {}", chain(&error));
    }
}

impl Observer for Metrics {
    fn notice(&self, event: Event) {
        self.counts().apply(&event, now());
        self.inner.notice(event);
    }
}

impl Counts {
    fn apply(&mut self, event: &Event, now: i64) {
        match event {
            Event::Planned { images, present, blobs, bytes } => {
                (self.planned, self.present) = (*images as u64, *present as u64);
                (self.blobs_planned, self.bytes_planned) = (*blobs, *bytes);
            }
            Event::Moved { bytes } => self.bytes += bytes,
            Event::BlobDone { .. } => self.blobs += 1,
            Event::BlobFailed { .. } => {
                self.failed_attempts += 1;
                return;
            }
            Event::ImageDone(ImageDone { outcome, .. }) => match outcome {
                Outcome::Copied => self.copied += 1,
                Outcome::Failed { .. } => self.failed += 1,
                Outcome::Present | Outcome::Pending => {}
            },
            Event::Collected { .. } | Event::Archived { .. } | Event::Verified { .. } => {}
            Event::Stage { .. }
            | Event::BlobStarted { .. }
            | Event::ImageStarted { .. }
            | Event::Warning { .. } => return,
            Event::Shard { shard, activity } => {
                let nothing = ShardCounts { is_running: false, attempts: 0, progressed: now };
                let counts = self.shards.entry(*shard).or_insert(nothing);
                match activity {
                    ShardActivity::Started => {
                        (counts.is_running, counts.progressed) = (true, now);
                        counts.attempts += 1;
                    }
                    ShardActivity::Progressed => counts.progressed = now,
                    ShardActivity::Ended => counts.is_running = false,
                }
                return;
            }
        }
        self.progressed = now;
    }
}

fn render(counts: &Counts, mode: &str) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(&str, i128)]| {
        metric(&mut text, name, kind, help, values);
    };
    let is_running = i128::from(counts.ended.is_none());
    let mode = format!("{{mode=\"{mode}\"}}");
    metric("running", "gauge", "Whether the run is under way.", &[(&mode, is_running)]);
    let started = i128::from(counts.started);
    metric("start_time_seconds", "gauge", "When the run started.", &[("", started)]);
    metric(
        "last_progress_time_seconds",
        "gauge",
        "When content last arrived.",
        &[("", counts.progressed.into())],
    );
    metric(
        "images",
        "gauge",
        "Images of the run by state.",
        &[
            ("{state=\"planned\"}", counts.planned.into()),
            ("{state=\"present\"}", counts.present.into()),
            ("{state=\"copied\"}", counts.copied.into()),
            ("{state=\"failed\"}", counts.failed.into()),
        ],
    );
    for (name, kind, help, value) in [
        ("blobs_planned", "gauge", "Blobs to transfer.", counts.blobs_planned),
        ("blobs_transferred_total", "counter", "Blobs that arrived.", counts.blobs),
        (
            "blob_failures_total",
            "counter",
            "Failed attempts to transfer a blob.",
            counts.failed_attempts,
        ),
        ("bytes_planned", "gauge", "Bytes to transfer.", counts.bytes_planned),
        ("bytes_transferred_total", "counter", "Bytes that arrived.", counts.bytes),
    ] {
        metric(name, kind, help, &[("", value.into())]);
    }
    if let Some((code, time)) = counts.ended {
        metric("exit_code", "gauge", "Exit code of the run.", &[("", code.into())]);
        metric("end_time_seconds", "gauge", "When the run ended.", &[("", time.into())]);
    }
    render_shards(&mut text, &counts.shards);
    text
}

/// Adds a metric to a text in the format of Prometheus.
pub(crate) fn metric(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    values: &[(&str, i128)],
) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "# HELP oc_mirror_{name} {help}\n# TYPE oc_mirror_{name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(text, "oc_mirror_{name}{labels} {value}");
    }
}

/// Adds the metrics of each shard, if there are any.
pub(crate) fn render_shards(text: &mut String, shards: &BTreeMap<u32, ShardCounts>) {
    if shards.is_empty() {
        return;
    }
    type Value = fn(&ShardCounts) -> i128;
    let metrics: [(&str, &str, &str, Value); 3] = [
        ("shard_running", "gauge", "Whether the shard is under way.", |counts| {
            counts.is_running.into()
        }),
        ("shard_attempts_total", "counter", "Processes or pods of the shard so far.", |counts| {
            counts.attempts.into()
        }),
        (
            "shard_last_progress_time_seconds",
            "gauge",
            "When content of the shard last arrived.",
            |counts| counts.progressed.into(),
        ),
    ];
    for (name, kind, help, value) in metrics {
        let labels: Vec<(String, i128)> = shards
            .iter()
            .map(|(shard, counts)| (format!("{{shard=\"{shard}\"}}"), value(counts)))
            .collect();
        let values: Vec<(&str, i128)> =
            labels.iter().map(|(labels, value)| (labels.as_str(), *value)).collect();
        metric(text, name, kind, help, &values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_text_that_prometheus_reads() {
        let mut counts = Counts { started: 5, progressed: 5, ..Counts::default() };
        counts.apply(&Event::Planned { images: 3, present: 1, blobs: 9, bytes: 100 }, 6);
        counts.apply(&Event::Moved { bytes: 40 }, 7);
        counts.apply(&Event::Warning { message: "x".into() }, 8);
        let text = render(&counts, "mirrorToMirror");
        for line in [
            "# TYPE oc_mirror_bytes_transferred_total counter",
            "oc_mirror_bytes_transferred_total 40",
            "oc_mirror_images{state=\"planned\"} 3",
            "oc_mirror_last_progress_time_seconds 7",
            "oc_mirror_running{mode=\"mirrorToMirror\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("exit_code") && text.ends_with('\n'));
        assert!(!text.contains("shard"), "a run without shards has no metrics of them");
        let activities =
            [ShardActivity::Started, ShardActivity::Progressed, ShardActivity::Started];
        for (time, activity) in (20..).zip(activities) {
            counts.apply(&Event::Shard { shard: 3, activity }, time);
        }
        let text = render(&counts, "mirrorToMirror");
        for line in [
            "oc_mirror_shard_running{shard=\"3\"} 1",
            "oc_mirror_shard_attempts_total{shard=\"3\"} 2",
            "oc_mirror_shard_last_progress_time_seconds{shard=\"3\"} 22",
            // A shard that starts is not content that arrives.
            "oc_mirror_last_progress_time_seconds 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        counts.ended = Some((8, 9));
        let text = render(&counts, "mirrorToMirror");
        assert!(
            text.contains("oc_mirror_exit_code 8\n")
                && text.contains("oc_mirror_running{mode=\"mirrorToMirror\"} 0\n")
        );
    }

    #[test]
    fn the_example_alerts_use_metrics_that_are_written() {
        let alerts = include_str!("../../../examples/stalled-run-alert.yaml");
        let words = alerts.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let names: Vec<&str> = words.filter_map(|word| word.strip_prefix("oc_mirror_")).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        let counts = Counts { ended: Some((8, 9)), ..Counts::default() };
        let mut text = render(&counts, "mirrorToMirror");
        let shard = ShardCounts { is_running: true, attempts: 1, progressed: 5 };
        render_shards(&mut text, &BTreeMap::from([(0, shard)]));
        for name in names {
            assert!(text.contains(&format!("# TYPE oc_mirror_{name} ")), "{name}\n{text}");
        }
    }
}
