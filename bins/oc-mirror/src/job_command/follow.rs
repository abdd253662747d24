//! Follows a run to its end.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cluster_connection::{Connection, Listing};
use mirror::{Claimant, Files, RunStore};
use mirror_job::{JobProgress, RUN_LABEL, Run, ShardState, TARGET_ANNOTATION};
use serde_json::Value;
use workspace::Workspace;
use workspace::atomic_file::{self, Durability};

use super::jobs;
use super::shard_watch::{Watch, WatchSettings, states};
use crate::arguments::ReportFormat;
use crate::problem::chain;
use crate::shards::pod::{EXIT_CODE, REPORT_JSON, REPORT_TEXT, RESOURCES};

const INTERVAL: Duration = Duration::from_secs(2);

/// What is known of the Jobs of a namespace.
#[derive(Debug, Default)]
pub(super) struct KnownRuns {
    /// Another run that mirrors to the same target and has not ended.
    pub(super) other: Option<String>,
    /// Whether the run has Jobs, which may have ended.
    pub(super) has_this: bool,
}

/// Reads which runs a namespace has.
pub(super) async fn known_runs(
    cluster: &Connection,
    namespace: &str,
    run: &Run,
) -> anyhow::Result<KnownRuns> {
    let mut known = KnownRuns::default();
    let selector = "app.kubernetes.io/name=oc-mirror";
    let path = jobs(namespace);
    let listing = Listing {
        path: &path,
        label_selector: Some(selector),
        page_size: 100,
        first_page_only: false,
    };
    cluster
        .list(listing, |job| {
            let metadata = &job["metadata"];
            let name = metadata["labels"][RUN_LABEL].as_str().unwrap_or_default();
            if name == run.name.as_str() {
                known.has_this = true;
            } else if metadata["annotations"][TARGET_ANNOTATION] == run.target.as_str()
                && JobProgress::of(&job).ended.is_none()
            {
                known.other = Some(name.to_owned());
            }
        })
        .await
        .with_context(|| format!("listing Jobs in the namespace {namespace}"))?;
    Ok(known)
}

/// The pods of a Job.
pub(super) async fn pods(
    cluster: &Connection,
    namespace: &str,
    job: &str,
) -> anyhow::Result<Vec<Value>> {
    let mut pods = Vec::new();
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let selector = format!("batch.kubernetes.io/job-name={job}");
    let listing = Listing {
        path: &path,
        label_selector: Some(&selector),
        page_size: 500,
        first_page_only: false,
    };
    cluster
        .list(listing, |pod| pods.push(pod))
        .await
        .with_context(|| format!("listing Pods in the namespace {namespace}"))?;
    Ok(pods)
}

/// Why shards wait or have failed.
pub(super) fn reasons(shards: &[ShardState]) -> Vec<String> {
    let with_reason = shards.iter().filter_map(|shard| {
        let reason = shard.reason.as_ref()?;
        Some(format!("shard {}: {reason}", shard.index))
    });
    with_reason.collect()
}

/// Waits for the end of a run. Prints its report and returns its exit code.
pub(super) async fn follow(
    cluster: &Connection,
    namespace: &str,
    run: &Run,
    store: &RunStore,
    (directory, format): (&Path, ReportFormat),
    settings: WatchSettings,
) -> anyhow::Result<u8> {
    let mut watch = Watch::new(run.name.clone(), namespace, settings);
    let ended = until_ended(cluster, namespace, run, store, &mut watch).await;
    let ended = ended.and_then(|files| conclude(&files, directory, format));
    watch.end(*ended.as_ref().unwrap_or(&super::USAGE));
    ended
}

/// Waits for the end of a run. Returns the files of its result.
async fn until_ended(
    cluster: &Connection,
    namespace: &str,
    run: &Run,
    store: &RunStore,
    watch: &mut Watch,
) -> anyhow::Result<Files> {
    let (blobs, publish) = (run.name.blobs_job(), run.name.publish_job());
    let existing = async |job: &str| {
        let object = cluster.get(&jobs(namespace), job).await?;
        let object = object.with_context(|| {
            format!("the Job {job} does not exist any more: the run was cancelled")
        })?;
        anyhow::Ok(JobProgress::of(&object))
    };
    loop {
        let progress = existing(&blobs).await?;
        let shards = states(cluster, namespace, &blobs).await?;
        let why = watch.observe(cluster, &progress, &shards).await?;
        if progress.has_failed() {
            // The second Job would wait for the first forever.
            cluster.delete(&jobs(namespace), &publish).await?;
            let claimant = Claimant { run: run.name.to_string(), owner: None };
            if let Err(error) = store.end_claim(&claimant).await {
                tracing::debug!("ending the claim: {}", chain(&error));
            }
            let condition =
                progress.ended.map(|ended| format!("{}: {}", ended.reason, ended.message));
            bail!(
                "the Job {blobs} failed ({}); nothing was published\n{}",
                condition.unwrap_or_default(),
                why.join("\n")
            );
        }
        if existing(&publish).await?.ended.is_some() {
            if let Some(files) = store.result(run.name.as_str()).await? {
                return Ok(files);
            }
            let shards = states(cluster, namespace, &publish).await?;
            // The pod publishes once all shards have ended.
            let visible = match progress.succeeded < progress.completions {
                true => "; nothing was published",
                false => "",
            };
            let reasons = reasons(&shards).join("\n");
            bail!("the Job {publish} failed and left no report{visible}\n{reasons}");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Writes the cluster resources into the workspace, and the report to standard output.
fn conclude(files: &Files, directory: &Path, format: ReportFormat) -> anyhow::Result<u8> {
    let resources = Workspace::open(directory).cluster_resources();
    for (name, bytes) in files {
        let Some(name) = name.strip_prefix(RESOURCES) else { continue };
        // The names come from a registry.
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            bail!("the result of the run has a file of the name {name:?}");
        }
        atomic_file::write(&resources.join(name), bytes, Durability::Later)?;
    }
    let report = match format {
        ReportFormat::Text => REPORT_TEXT,
        ReportFormat::Json => REPORT_JSON,
    };
    let report = files.get(report).context("the result of the run has no report")?;
    command_line::write_result(report)?;
    let code = files.get(EXIT_CODE).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    code.context("the result of the run has no exit code")
}
