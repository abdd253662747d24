//! Follows a run to its end.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cluster_connection::{Connection, Listing};
use mirror::{Files, RunStore};
use mirror_job::{JobProgress, RUN_LABEL, Run, ShardState, TARGET_ANNOTATION, shard_states};
use serde_json::Value;
use workspace::Workspace;
use workspace::atomic_file::{self, Durability};

use super::jobs;
use crate::arguments::ReportFormat;
use crate::shards::pod::{EXIT_CODE, REPORT_JSON, REPORT_TEXT, RESOURCES};

const INTERVAL: Duration = Duration::from_secs(2);

/// Another run that mirrors to the same target and has not ended.
pub(super) async fn other_run(
    cluster: &Connection,
    namespace: &str,
    run: &Run,
) -> anyhow::Result<Option<String>> {
    let mut other = None;
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
            if metadata["annotations"][TARGET_ANNOTATION] == run.target.as_str()
                && name != run.name.as_str()
                && JobProgress::of(&job).ended.is_none()
            {
                other = Some(name.to_owned());
            }
        })
        .await
        .with_context(|| format!("listing Jobs in the namespace {namespace}"))?;
    Ok(other)
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

/// Why shards do not go on.
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
) -> anyhow::Result<u8> {
    let (blobs, publish) = (run.name.blobs_job(), run.name.publish_job());
    let mut told = (String::new(), Vec::new());
    loop {
        for (job, what) in [(&blobs, "shards"), (&publish, "publishing")] {
            let Some(object) = cluster.get(&jobs(namespace), job).await? else {
                bail!("the Job {job} does not exist any more: the run was cancelled");
            };
            let progress = JobProgress::of(&object);
            if job == &blobs {
                let shards = shard_states(&pods(cluster, namespace, job).await?);
                let text = summary(&progress);
                let why = reasons(&shards);
                if told != (text.clone(), why.clone()) {
                    tracing::info!("{what}: {text}");
                    why.iter().for_each(|line| tracing::warn!("{line}"));
                    told = (text, why.clone());
                }
                if progress.has_failed() {
                    // The second Job would wait for the first forever.
                    cluster.delete(&jobs(namespace), &publish).await?;
                    let condition =
                        progress.ended.map(|ended| format!("{}: {}", ended.reason, ended.message));
                    bail!(
                        "the Job {job} failed ({}); nothing was published\n{}",
                        condition.unwrap_or_default(),
                        why.join("\n")
                    );
                }
            } else if progress.ended.is_some() {
                return match store.result(run.name.as_str()).await? {
                    Some(files) => conclude(&files, directory, format),
                    None => {
                        let shards = shard_states(&pods(cluster, namespace, job).await?);
                        bail!(
                            "the Job {job} failed and left no report\n{}",
                            reasons(&shards).join("\n")
                        )
                    }
                };
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

pub(super) fn summary(progress: &JobProgress) -> String {
    let JobProgress { completions, active, succeeded, .. } = progress;
    let mut text = format!("{succeeded} of {completions} done, {active} active");
    if progress.failed_pods > 0 {
        text += &format!(", {} pods failed and were repeated", progress.failed_pods);
    }
    if progress.is_suspended {
        text += ", suspended";
    }
    text
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
