//! `oc-mirror job status|logs|cancel`.

use anyhow::{Context as _, bail};
use cluster_connection::{Connection, KubeconfigPaths, Listing};
use mirror_job::{JobProgress, LogProgress, PodState, RunName, ShardState, TARGET_ANNOTATION};
use serde_json::Value;

use super::arguments::{ClusterArguments, LogsArguments, RunArguments, StatusArguments};
use super::jobs;
use super::shard_watch::{logged, states, summary};
use crate::lookup_arguments::wait;
use crate::request::ProcessEnvironment;

async fn connect(
    cluster: &ClusterArguments,
    namespace: Option<&String>,
    process: &ProcessEnvironment,
) -> anyhow::Result<(Connection, String)> {
    let paths =
        KubeconfigPaths { named: cluster.kubeconfig.as_deref(), default: &process.kubeconfigs };
    let connection = Connection::connect(paths, cluster.context.as_deref()).await?;
    let namespace = namespace.cloned().unwrap_or_else(|| connection.namespace().to_owned());
    Ok((connection, namespace))
}

/// Prints how far each shard of a run is, or the runs of a namespace.
pub(super) fn status(
    arguments: &StatusArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<()> {
    let text = wait(async {
        let given = arguments.namespace.as_ref();
        let (cluster, namespace) = connect(&arguments.cluster, given, process).await?;
        match &arguments.name {
            Some(name) => status_of(&cluster, &namespace, name).await,
            None => runs(&cluster, &namespace).await,
        }
    })?;
    Ok(command_line::write_result(text.as_bytes())?)
}

async fn status_of(
    cluster: &Connection,
    namespace: &str,
    name: &RunName,
) -> anyhow::Result<String> {
    let mut text = String::new();
    for job in [name.blobs_job(), name.publish_job()] {
        let Some(object) = cluster.get(&jobs(namespace), &job).await? else { continue };
        if text.is_empty() {
            let target = object["metadata"]["annotations"][TARGET_ANNOTATION].as_str();
            text += &format!("{name} mirrors to {}\n", target.unwrap_or("an unknown target"));
        }
        let progress = JobProgress::of(&object);
        text += &format!("{job}: {}\n", state(&progress));
        let shards = states(cluster, namespace, &job).await?;
        let logged = logged(cluster, namespace, &shards).await;
        for shard in shards {
            text += &line(&shard, logged.get(&shard.index));
        }
    }
    if text.is_empty() {
        bail!(
            "the namespace {namespace} has no run {name}; \
             `oc-mirror job status -n {namespace}` lists its runs"
        );
    }
    Ok(text)
}

/// The runs of a namespace, a line each.
async fn runs(cluster: &Connection, namespace: &str) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    let path = jobs(namespace);
    let listing = Listing {
        path: &path,
        label_selector: Some("app.kubernetes.io/name=oc-mirror"),
        page_size: 100,
        first_page_only: false,
    };
    let listed = cluster.list(listing, |job| {
        let metadata = &job["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        lines.push((
            text(&metadata["creationTimestamp"]),
            text(&metadata["name"]),
            format!(
                "{} {}: {}, to {}\n",
                text(&metadata["creationTimestamp"]),
                text(&metadata["name"]),
                state(&JobProgress::of(&job)),
                text(&metadata["annotations"][TARGET_ANNOTATION]),
            ),
        ));
    });
    listed.await.with_context(|| format!("listing Jobs in the namespace {namespace}"))?;
    lines.sort();
    Ok(match lines.is_empty() {
        true => format!("no runs in the namespace {namespace}\n"),
        false => lines.into_iter().map(|(_, _, line)| line).collect(),
    })
}

/// `3 of 16 done, 13 active`, or how the Job ended.
fn state(progress: &JobProgress) -> String {
    let done = format!("{} of {} done", progress.succeeded, progress.completions);
    match &progress.ended {
        Some(ended) if ended.kind == "Complete" => format!("{done}, complete"),
        Some(ended) => {
            let reason = format!("{}: {}", ended.reason, ended.message);
            format!("{done}, failed ({})", reason.trim_end_matches([':', ' ']))
        }
        None => summary(progress),
    }
}

/// `   3  running, 31 %, 1.2 GB of 4.0 GB, attempt 2`
fn line(shard: &ShardState, progress: Option<&LogProgress>) -> String {
    let mut text = match shard.state {
        PodState::Waiting => "waiting",
        PodState::Running => "running",
        PodState::Failed => "failed",
        PodState::Succeeded => "done",
    }
    .to_owned();
    if let Some(LogProgress { percent, amount }) = progress {
        text += &format!(", {percent} %, {amount}");
    }
    if shard.attempts > 1 {
        text += &format!(", attempt {}", shard.attempts);
    }
    if let Some(reason) = &shard.reason {
        text += &format!(": {reason}");
    }
    format!("  {:>4} {text}\n", shard.index)
}

/// Prints the logs of pods.
pub(super) fn logs(arguments: &LogsArguments, process: &ProcessEnvironment) -> anyhow::Result<()> {
    let run = &arguments.run;
    let text = wait(async {
        let (cluster, namespace) = connect(&run.cluster, run.namespace.as_ref(), process).await?;
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let mut text = String::new();
        let jobs = [(run.name.blobs_job(), "shard "), (run.name.publish_job(), "publish ")];
        for (job, kind) in jobs.into_iter().take(if arguments.shard.is_some() { 1 } else { 2 }) {
            for shard in states(&cluster, &namespace, &job).await? {
                if arguments.shard.is_some_and(|wanted| wanted != shard.index) {
                    continue;
                }
                let log = match cluster.logs(&path, &shard.pod, None).await {
                    Ok(log) => log,
                    Err(error) => format!("{error}\n"),
                };
                for line in log.lines() {
                    text += &format!("{kind}{}: {line}\n", shard.index);
                }
            }
        }
        if text.is_empty() {
            let what = match arguments.shard {
                Some(shard) => format!("of shard {shard} of the run {}", run.name),
                None => format!("of the run {}", run.name),
            };
            bail!("the namespace {namespace} has no pods {what}");
        }
        Ok(text)
    })?;
    Ok(command_line::write_result(text.as_bytes())?)
}

/// Deletes the Jobs of a run.
pub(super) fn cancel(run: &RunArguments, process: &ProcessEnvironment) -> anyhow::Result<()> {
    wait(async {
        let (cluster, namespace) = connect(&run.cluster, run.namespace.as_ref(), process).await?;
        let mut is_deleted = false;
        // The second first: it must not publish what the first leaves.
        for job in [run.name.publish_job(), run.name.blobs_job()] {
            is_deleted |= cluster.delete(&jobs(&namespace), &job).await?;
        }
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        is_deleted |= cluster.delete(&accounts, run.name.as_str()).await?;
        if !is_deleted {
            bail!(
                "the namespace {namespace} has no run {}; \
                 `oc-mirror job status -n {namespace}` lists its runs",
                run.name
            );
        }
        tracing::info!(
            "run {} is cancelled; the same `oc-mirror job` command starts it again, and continues",
            run.name
        );
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_state_progress_attempts_and_reason() {
        let shard = ShardState {
            index: 3,
            pod: "p".into(),
            state: PodState::Running,
            attempts: 2,
            reason: None,
        };
        let progress = LogProgress { percent: 31, amount: "1 GB of 3 GB".into() };
        assert_eq!(
            line(&shard, Some(&progress)),
            "     3 running, 31 %, 1 GB of 3 GB, attempt 2\n"
        );
        let reason = Some("exit code 1: wrong version".to_owned());
        let failed = ShardState { state: PodState::Failed, attempts: 1, reason, ..shard };
        assert_eq!(line(&failed, None), "     3 failed: exit code 1: wrong version\n");
    }
}
