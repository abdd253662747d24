//! `oc-mirror job … s3://BUCKET`, or `file://DIR` with a volume: pods write the archive, each the
//! files with the content it owns. An archive is not complete for its readers before all files are
//! there.
//!
//! With `--follow`, the command plans, waits, writes the file with manifests and documents, and stores
//! it last. Without, it writes this file first, and a last pod makes all files an archive; the next
//! command in the workspace records it.

use std::fmt;
use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use archive_store::ArchiveLocation;
use cluster_connection::{Connection, KubeconfigPaths, ObjectError};
use mirror::{
    Completion, Ending, OwnSegment, SegmentIndex, SegmentRunner, Settings, ShardReport, ShardWatch,
};
use mirror_job::{ARCHIVES, JobProgress, Manifest, PodSettings, Run, RunName, manifests};
use mirror_plan::ShardPart;

use super::follow::known_runs;
use super::shard_watch::{Watch, WatchSettings, states};
use super::{JobArguments, USAGE, collection, jobs};
use crate::arguments::ReportFormat;
use crate::console::Console;
use crate::mirror_command::{self, View};
use crate::object_store::StoreArguments;
use crate::pace_arguments::Pace;
use crate::problem::chain;
use crate::progress::Display;
use crate::report_text::{self, ReportContext};
use crate::request::ProcessEnvironment;
use crate::segment_store::{SegmentRun, SegmentStore, SegmentStoreError, unpublished};
use crate::shards::process::program;
use crate::shards::target_claim::TargetClaim;

const INTERVAL: Duration = Duration::from_secs(2);
/// How long a Job may take to go after it was deleted.
const REMOVAL: Duration = Duration::from_secs(60);
/// Object stores copy files of up to 5 GiB without transferring them.
const LARGEST_FILE: u64 = 4 << 30;

/// Runs pods that write an archive.
struct PodSegments {
    archives: ArchiveLocation,
    claim: TargetClaim,
    store: StoreArguments,
    pods: PodSettings,
    shards: NonZeroU32,
    namespace: Option<String>,
    kubeconfig: Option<PathBuf>,
    kubeconfigs: Vec<PathBuf>,
    context: Option<String>,
    watch: WatchSettings,
    /// Where manifests are written.
    out: Option<PathBuf>,
    submits: bool,
    completion: Completion,
    /// The run that was handed over.
    handed_over: Mutex<Option<RunName>>,
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
    let store = &arguments.mirror.store;
    let claim = TargetClaim::of_archives(&archives, store, settings.workflow.directory());
    settings.claim = Some(Arc::new(claim.clone()));
    let segments = Arc::new(PodSegments {
        out: arguments.out.clone(),
        submits: arguments.submit,
        completion: match arguments.follow {
            true => Completion::ByRun,
            false => Completion::ByShards,
        },
        handed_over: Mutex::default(),
        claim: claim.clone(),
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
    });
    settings.segments = Some(Arc::clone(&segments) as Arc<dyn SegmentRunner>);
    let directory = settings.workflow.directory().to_owned();
    let config = settings.configuration.path.clone();
    let view = View {
        display: Display::choose(arguments.mirror.quiet, io::stderr().is_terminal()),
        console: console.clone(),
        metrics: arguments.mirror.metrics_file.clone(),
        claim: Some(claim.clone()),
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
        && let Err(problem) = store.store(&archives, &directory, Some(&claim))
    {
        tracing::error!("{problem}");
        code |= USAGE;
    }
    claim.end();
    let name = segments.handed_over.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(name) = name {
        command_line::write_result(format!("{name}\n").as_bytes())?;
        return Ok(code);
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

    fn completion(&self) -> Completion {
        self.completion
    }

    fn is_complete<'a>(
        &'a self,
        index: SegmentIndex<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<bool, String>> + Send + 'a>> {
        Box::pin(async move {
            let left = async {
                let archives = self.store.open(&self.archives)?;
                unpublished(&segment_run(&index), index.length, &archives).await
            };
            match left.await {
                Ok(left) => Ok(left.is_empty()),
                // Its numbers are not used again.
                Err(SegmentStoreError::Occupied(_)) => Ok(false),
                Err(error) => Err(chain(&error)),
            }
        })
    }

    fn run<'a>(
        &'a self,
        parts: &'a [ShardPart],
        index: SegmentIndex<'a>,
        own: &'a [OwnSegment],
        watch: ShardWatch,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<ShardReport>, String>> + Send + 'a>> {
        Box::pin(async move {
            let done = tokio::select! {
                done = self.execute(parts, index, own) => done,
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
        own: &[OwnSegment],
    ) -> anyhow::Result<Vec<ShardReport>> {
        let name = RunName::of(&index.digest);
        let store = SegmentStore::of_run(&self.archives, name.as_str(), &self.store)?;
        let archives = self.store.open(&self.archives)?;
        let stored = segment_run(&index);
        // Before pods spend time on files that have no place.
        unpublished(&stored, index.length, &archives).await?;
        let plan = store.store(parts, index, own).await?;
        let plan = match &self.archives {
            ArchiveLocation::Bucket { .. } => plan,
            // Pods have the directory elsewhere.
            ArchiveLocation::Directory(_) => {
                let rest = plan.strip_prefix(&self.archives.to_string()).unwrap_or_default();
                format!("file://{ARCHIVES}{rest}")
            }
        };
        let shards = u32::try_from(parts.len())?;
        let shards = NonZeroU32::new(shards).context("there is nothing to write")?;
        let target = self.archives.to_string();
        let has_publish_job = self.completion == Completion::ByShards;
        let run = Run { name, plan, target, shards, has_publish_job };
        if let Some(out) = &self.out {
            if !self.submits {
                store.withdraw_failures(shards.get()).await?;
            }
            super::write(out, &manifests(&run, &self.pods))?;
            tracing::info!(
                "manifests written to {}; create them with `oc apply -f {0}`",
                out.display()
            );
        }
        if self.completion == Completion::ByShards {
            // The pod that completes the archive claims its place.
            self.claim.end_here().await;
        }
        if self.submits {
            let (cluster, namespace) = self.submit(&store, &run).await?;
            tracing::info!("run {} started in the namespace {namespace}", run.name);
            if self.completion == Completion::ByRun {
                return self
                    .conclude((&cluster, &namespace), &run, &store, &stored, index.length)
                    .await;
            }
        }
        let name = run.name;
        *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        Ok(Vec::new())
    }

    /// Creates the Jobs, unless another run writes to the same place.
    async fn submit(
        &self,
        store: &SegmentStore,
        run: &Run,
    ) -> anyhow::Result<(Connection, String)> {
        let paths =
            KubeconfigPaths { named: self.kubeconfig.as_deref(), default: &self.kubeconfigs };
        let cluster = Connection::connect(paths, self.context.as_deref()).await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
        if let Some(other) = known_runs(&cluster, &namespace, run).await?.other {
            bail!(
                "the run {other} writes to {} already: wait for its end, or end it with `oc-mirror job cancel {other} -n {namespace}`",
                run.target
            );
        }
        self.create(&cluster, &namespace, store, run).await?;
        Ok((cluster, namespace))
    }

    /// Waits for the pods, and makes their files archives.
    async fn conclude(
        &self,
        (cluster, namespace): (&Connection, &str),
        run: &Run,
        store: &SegmentStore,
        stored: &SegmentRun,
        index_length: u64,
    ) -> anyhow::Result<Vec<ShardReport>> {
        let mut watch = Watch::new(run.name.clone(), namespace, self.watch.clone());
        follow(cluster, namespace, run, &mut watch).await?;
        let mut reports = Vec::new();
        for shard in 0..run.shards.get() {
            let report = store.report(shard).await?.filter(|report| report.ending.is_done());
            reports.push(report.with_context(|| format!("shard {shard} left no report"))?);
        }
        self.claim.check().await?;
        store.publish(stored, index_length, &self.store.open(&self.archives)?).await?;
        if let Err(error) = store.remove().await {
            tracing::warn!("removing what the run {} left: {error}", run.name);
        }
        Ok(reports)
    }

    /// Creates the Jobs, or takes over those that an earlier command left.
    async fn create(
        &self,
        cluster: &Connection,
        namespace: &str,
        store: &SegmentStore,
        run: &Run,
    ) -> anyhow::Result<()> {
        let job = run.name.blobs_job();
        let known = cluster.get(&jobs(namespace), &job).await?;
        let is_new = match known {
            Some(known) if JobProgress::of(&known).has_failed() => {
                // The second first: it must not end because of the first.
                cluster.delete(&jobs(namespace), &run.name.publish_job()).await?;
                cluster.delete(&jobs(namespace), &job).await?;
                true
            }
            Some(_) => false,
            None => true,
        };
        if is_new {
            store.withdraw_failures(run.shards.get()).await?;
        }
        for Manifest { object, .. } in manifests(run, &self.pods) {
            let deadline = tokio::time::Instant::now() + REMOVAL;
            loop {
                match cluster.create(&collection(namespace, &object), &object).await {
                    Ok(_) => break,
                    Err(ObjectError::Exists { .. }) if object["kind"] == "ServiceAccount" => break,
                    Err(error @ ObjectError::Exists { .. }) => {
                        let name = object["metadata"]["name"].as_str().unwrap_or(&job);
                        let known = cluster.get(&jobs(namespace), name).await?;
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

/// The files that shards write.
fn segment_run(index: &SegmentIndex<'_>) -> SegmentRun {
    let files = index.files.to_vec();
    SegmentRun { index: index.digest, parts: Vec::new(), files, own: Vec::new() }
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
