//! `oc-mirror job status|logs|cancel`.

use anyhow::bail;
use cluster_connection::{Connection, KubeconfigPaths};
use mirror_job::{JobProgress, PodState, shard_states};

use super::arguments::{LogsArguments, RunArguments};
use super::follow::pods;
use super::jobs;
use crate::lookup_arguments::wait;
use crate::request::ProcessEnvironment;

async fn connect(
    run: &RunArguments,
    process: &ProcessEnvironment,
) -> anyhow::Result<(Connection, String)> {
    let paths =
        KubeconfigPaths { named: run.cluster.kubeconfig.as_deref(), default: &process.kubeconfigs };
    let cluster = Connection::connect(paths, run.cluster.context.as_deref()).await?;
    let namespace = run.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    Ok((cluster, namespace))
}

/// Prints how far each shard is.
pub(super) fn status(run: &RunArguments, process: &ProcessEnvironment) -> anyhow::Result<()> {
    let text = wait(async {
        let (cluster, namespace) = connect(run, process).await?;
        let mut text = String::new();
        for job in [run.name.blobs_job(), run.name.publish_job()] {
            let Some(object) = cluster.get(&jobs(&namespace), &job).await? else { continue };
            let progress = JobProgress::of(&object);
            let state = match &progress.ended {
                Some(ended) => match ended.message.is_empty() {
                    true => ended.kind.to_lowercase(),
                    false => format!("{}: {}", ended.kind.to_lowercase(), ended.message),
                },
                None if progress.is_suspended => "suspended".to_owned(),
                None => format!("{} active", progress.active),
            };
            text += &format!(
                "{job}: {} of {} done, {state}\n",
                progress.succeeded, progress.completions
            );
            for shard in shard_states(&pods(&cluster, &namespace, &job).await?) {
                let state = match shard.state {
                    PodState::Waiting => "waiting",
                    PodState::Running => "running",
                    PodState::Failed => "failed",
                    PodState::Succeeded => "done",
                };
                let attempts = match shard.attempts {
                    1 => String::new(),
                    attempts => format!(", attempt {attempts}"),
                };
                let reason = shard.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                text += &format!("  {:>4} {state}{attempts}{reason}\n", shard.index);
            }
        }
        if text.is_empty() {
            bail!("the namespace {namespace} has no run {}", run.name);
        }
        Ok(text)
    })?;
    Ok(command_line::write_result(text.as_bytes())?)
}

/// Prints the logs of pods.
pub(super) fn logs(arguments: &LogsArguments, process: &ProcessEnvironment) -> anyhow::Result<()> {
    let run = &arguments.run;
    let text = wait(async {
        let (cluster, namespace) = connect(run, process).await?;
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let mut text = String::new();
        let jobs = [(run.name.blobs_job(), "shard "), (run.name.publish_job(), "publish ")];
        for (job, kind) in jobs.into_iter().take(if arguments.shard.is_some() { 1 } else { 2 }) {
            for shard in shard_states(&pods(&cluster, &namespace, &job).await?) {
                if arguments.shard.is_some_and(|wanted| wanted != shard.index) {
                    continue;
                }
                let log = match cluster.logs(&path, &shard.pod).await {
                    Ok(log) => log,
                    Err(error) => format!("{error}\n"),
                };
                for line in log.lines() {
                    text += &format!("{kind}{}: {line}\n", shard.index);
                }
            }
        }
        if text.is_empty() {
            bail!("the namespace {namespace} has no pods of the run {}", run.name);
        }
        Ok(text)
    })?;
    Ok(command_line::write_result(text.as_bytes())?)
}

/// Deletes the Jobs of a run.
pub(super) fn cancel(run: &RunArguments, process: &ProcessEnvironment) -> anyhow::Result<()> {
    wait(async {
        let (cluster, namespace) = connect(run, process).await?;
        let mut is_deleted = false;
        // The second first: it must not publish what the first leaves.
        for job in [run.name.publish_job(), run.name.blobs_job()] {
            is_deleted |= cluster.delete(&jobs(&namespace), &job).await?;
        }
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        is_deleted |= cluster.delete(&accounts, run.name.as_str()).await?;
        if !is_deleted {
            bail!("the namespace {namespace} has no run {}", run.name);
        }
        tracing::info!("run {} is cancelled", run.name);
        Ok(())
    })
}
