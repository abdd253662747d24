//! `oc-mirror job … s3://BUCKET`, or `file://DIR` with a volume: pods write the archive, each the
//! files with the content it owns.
//! The command plans, waits, writes the file with manifests and documents, and stores it last: an
//! archive without it is not complete for its readers.

use std::fmt;
use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use archive_store::ArchiveLocation;
use cluster_connection::{Connection, KubeconfigPaths, ObjectError};
use mirror::{Ending, SegmentIndex, SegmentRunner, Settings, ShardReport, ShardWatch};
use mirror_job::{ARCHIVES, JobProgress, Manifest, PodSettings, Run, RunName, manifests};
use mirror_plan::ShardPart;

use super::follow::other_run;
use super::shard_watch::{Watch, WatchSettings, states};
use super::{JobArguments, USAGE, collection, jobs};
use crate::arguments::ReportFormat;
use crate::console::Console;
use crate::mirror_command::{self, View};
use crate::object_store::StoreArguments;
use crate::pace_arguments::Pace;
use crate::progress::Display;
use crate::report_text::{self, ReportContext};
use crate::request::ProcessEnvironment;
use crate::segment_store::{SegmentRun, SegmentStore};
use crate::shards::process::program;

const INTERVAL: Duration = Duration::from_secs(2);
/// How long a Job may take to go after it was deleted.
const REMOVAL: Duration = Duration::from_secs(60);
/// Object stores copy files of up to 5 GiB without transferring them.
const LARGEST_FILE: u64 = 4 << 30;

/// Runs pods that write an archive.
struct PodSegments {
    archives: ArchiveLocation,
    store: StoreArguments,
    pods: PodSettings,
    shards: NonZeroU32,
    namespace: Option<String>,
    kubeconfig: Option<PathBuf>,
    kubeconfigs: Vec<PathBuf>,
    context: Option<String>,
    watch: WatchSettings,
}

// A kubeconfig may have secrets in its name.
impl fmt::Debug for PodSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodSegments").field("archives", &self.archives).finish_non_exhaustive()
    }
}

/// Mirrors to an archive that pods write.
pub(super) fn start(
    arguments: &JobArguments,
    (mut settings, pace): (Settings, &Pace),
    (archives, pods): (ArchiveLocation, PodSettings),
    process: &ProcessEnvironment,
    console: &Console,
) -> anyhow::Result<u8> {
    if let Err(problem) = arguments.mirror.store.check(&archives) {
        tracing::error!("{problem}");
        return Ok(USAGE);
    }
    settings.shards = None;
    settings.segments = Some(Arc::new(PodSegments {
        archives: archives.clone(),
        store: arguments.mirror.store.clone(),
        shards: arguments.mirror.shards.shards.unwrap_or(NonZeroU32::MIN),
        pods,
        namespace: arguments.namespace.clone(),
        kubeconfig: arguments.cluster.kubeconfig.clone(),
        kubeconfigs: process.kubeconfigs.clone(),
        context: arguments.cluster.context.clone(),
        watch: WatchSettings {
            start_timeout: arguments.start_timeout,
            // The run itself writes the metrics.
            metrics: None,
        },
    }));
    let directory = settings.workflow.directory().to_owned();
    let config = settings.configuration.path.clone();
    let view = View {
        display: Display::choose(arguments.mirror.quiet, io::stderr().is_terminal()),
        console: console.clone(),
        metrics: arguments.mirror.metrics_file.clone(),
        claim: None,
    };
    let report = match mirror_command::execute(settings, pace, view) {
        Ok(report) => report,
        Err(_) => return Ok(crate::interrupt::EXIT_CODE),
    };
    mirror_command::tell_failures(&report);
    let mut code = report.exit_code();
    if matches!(report.ending, Ending::Complete | Ending::Partial)
        && report.archive.is_some()
        // What this command wrote is in its place already where that is a directory.
        && matches!(archives, ArchiveLocation::Bucket { .. })
        && let Err(problem) = arguments.mirror.store.store(&archives, &directory)
    {
        tracing::error!("{problem}");
        code |= USAGE;
    }
    let stored_in = (code == 0).then(|| archives.to_string());
    let chunk_sizes = &Default::default();
    let surround = ReportContext { log: None, chunk_sizes, config: &config, stored_in };
    let text = match arguments.mirror.output {
        ReportFormat::Text => report_text::render(&report, &surround),
        ReportFormat::Json => mirror_command::json(&report, code, None)?,
    };
    command_line::write_result(text.as_bytes())?;
    Ok(code)
}

impl SegmentRunner for PodSegments {
    fn shards(&self) -> NonZeroU32 {
        self.shards
    }

    fn program(&self) -> String {
        program()
    }

    fn limit(&self) -> u64 {
        LARGEST_FILE
    }

    fn run<'a>(
        &'a self,
        parts: &'a [ShardPart],
        index: SegmentIndex<'a>,
        watch: ShardWatch,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<ShardReport>, String>> + Send + 'a>> {
        Box::pin(async move {
            let done = tokio::select! {
                done = self.execute(parts, index) => done,
                () = watch.cancel.cancelled() => Err(anyhow::anyhow!("interrupted; the pods continue")),
            };
            done.map_err(|error| format!("{error:#}"))
        })
    }
}

impl PodSegments {
    async fn execute(
        &self,
        parts: &[ShardPart],
        index: SegmentIndex<'_>,
    ) -> anyhow::Result<Vec<ShardReport>> {
        let name = RunName::of(&index.digest);
        let store = SegmentStore::of_run(&self.archives, name.as_str(), &self.store)?;
        let plan = store.store(parts, (index.text, index.digest), index.files).await?;
        let plan = match &self.archives {
            ArchiveLocation::Bucket { .. } => plan,
            // Pods have the directory elsewhere.
            ArchiveLocation::Directory(_) => {
                let rest = plan.strip_prefix(&self.archives.to_string()).unwrap_or_default();
                format!("file://{ARCHIVES}{rest}")
            }
        };
        let (shards, has_publish_job) = (u32::try_from(parts.len())?, false);
        let shards = NonZeroU32::new(shards).context("there is nothing to write")?;
        let target = self.archives.to_string();
        let run = Run { name, plan, target, shards, has_publish_job };
        let paths =
            KubeconfigPaths { named: self.kubeconfig.as_deref(), default: &self.kubeconfigs };
        let cluster = Connection::connect(paths, self.context.as_deref()).await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
        if let Some(other) = other_run(&cluster, &namespace, &run).await? {
            bail!(
                "the run {other} writes to {} already: wait for its end, or end it with `oc-mirror job cancel {other} -n {namespace}`",
                run.target
            );
        }
        self.create(&cluster, &namespace, &run).await?;
        tracing::info!("run {} started in the namespace {namespace}", run.name);
        let mut watch = Watch::new(run.name.clone(), &namespace, self.watch.clone());
        follow(&cluster, &namespace, &run, &mut watch).await?;
        let mut reports = Vec::new();
        for shard in 0..shards.get() {
            let report = store.report(shard).await?;
            reports.push(report.with_context(|| format!("shard {shard} left no report"))?);
        }
        let stored =
            SegmentRun { index: index.digest, parts: Vec::new(), files: index.files.to_vec() };
        store.publish(&stored, &self.store.open(&self.archives)?).await?;
        if let Err(error) = store.remove().await {
            tracing::warn!("removing what the run {} left: {error}", run.name);
        }
        Ok(reports)
    }

    /// Creates the Job, or takes over the one that an earlier command left.
    async fn create(&self, cluster: &Connection, namespace: &str, run: &Run) -> anyhow::Result<()> {
        let job = run.name.blobs_job();
        let known = cluster.get(&jobs(namespace), &job).await?;
        if known.is_some_and(|known| JobProgress::of(&known).has_failed()) {
            cluster.delete(&jobs(namespace), &job).await?;
        }
        for Manifest { object, .. } in manifests(run, &self.pods) {
            let deadline = tokio::time::Instant::now() + REMOVAL;
            loop {
                match cluster.create(&collection(namespace, &object), &object).await {
                    Ok(_) => break,
                    Err(ObjectError::Exists { .. }) if object["kind"] == "ServiceAccount" => break,
                    Err(error @ ObjectError::Exists { .. }) => {
                        let known = cluster.get(&jobs(namespace), &job).await?;
                        let is_going = known
                            .as_ref()
                            .is_none_or(|known| !known["metadata"]["deletionTimestamp"].is_null());
                        if !is_going {
                            break;
                        }
                        if tokio::time::Instant::now() > deadline {
                            return Err(error.into());
                        }
                        tokio::time::sleep(INTERVAL / 4).await;
                    }
                    Err(error @ ObjectError::Forbidden { .. }) => bail!(
                        "{error}; the account of the kubeconfig needs the right to create ServiceAccounts and Jobs in the namespace {namespace}: nothing was started"
                    ),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

/// Waits for the end of the Job.
async fn follow(
    cluster: &Connection,
    namespace: &str,
    run: &Run,
    watch: &mut Watch,
) -> anyhow::Result<()> {
    let job = run.name.blobs_job();
    loop {
        let Some(object) = cluster.get(&jobs(namespace), &job).await? else {
            bail!("the Job {job} does not exist any more: the run was cancelled");
        };
        let progress = JobProgress::of(&object);
        let shards = states(cluster, namespace, &job).await?;
        let why = watch.observe(cluster, &progress, &shards).await?;
        if let Some(ended) = &progress.ended {
            if progress.has_failed() {
                bail!(
                    "the Job {job} failed ({}: {}); nothing was added to the archives\n{}",
                    ended.reason,
                    ended.message,
                    why.join("\n")
                );
            }
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
