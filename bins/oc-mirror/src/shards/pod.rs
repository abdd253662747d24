//! `oc-mirror shard`: what the pods of a run do. Users do not call it; `oc-mirror job` writes Jobs
//! that do.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use mirror::{
    Event, Files, Observer, Outcome, Remedy, Report, RunStore, ShardEnding, ShardReport,
    ShardRunner, ShardSettings, ShardWatch, StoredPart, transfer_shard,
};
use mirror_job::{LogProgress, RunName, exit};
use mirror_plan::{RunIdentity, ShardPart};
use oci::{Digest, ImageRef};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

use super::process::program;
use super::segment_pod;
use super::target_claim::{ClaimError, TargetClaim};
use crate::arguments::MirrorArguments;
use crate::carried_archives::{CarriedArchives, CarriedError};
use crate::console::Console;
use crate::interrupt::{self, Ended};
use crate::mirror_command::{self, View};
use crate::pace_arguments::Pace;
use crate::pacing;
use crate::problem::{Problem, chain};
use crate::progress::Display;
use crate::report_text::{self, ReportContext};
use crate::request::{self, ProcessEnvironment};
use crate::route;

/// The time between two checks whether shards have ended.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// The time between two lines about the progress of a shard. `job status` reads them.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Where the plan is written in the workspace of a pod.
const PLAN_FILE: &str = "run-plan.json";
/// Names of the files of a result.
pub(crate) const REPORT_JSON: &str = "report.json";
pub(crate) const REPORT_TEXT: &str = "report.txt";
pub(crate) const EXIT_CODE: &str = "exit-code";
pub(crate) const RESOURCES: &str = "cluster-resources/";

#[derive(Debug, Args)]
pub(crate) struct PodArguments {
    /// The run: docker://REGISTRY/REPOSITORY@DIGEST, s3://BUCKET/PREFIX@DIGEST or file://DIR@DIGEST
    #[arg(long, value_name = "RUN")]
    pub(super) run: String,
    /// Publish the run once all shards have ended, instead of transferring the blobs of one
    #[arg(long)]
    publish: bool,
    /// Number of the shard, from 0 [default: $JOB_COMPLETION_INDEX]
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Pods at the same time, which share the rates
    #[arg(long, value_name = "N", default_value = "1")]
    sharing: NonZeroU32,
    #[command(flatten)]
    pub(super) mirror: MirrorArguments,
}

/// Why a pod fails.
pub(super) struct Failure {
    pub(super) message: String,
    /// Whether another pod may succeed.
    pub(super) may_pass: bool,
}

impl Failure {
    pub(super) fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), may_pass: false }
    }

    fn of_store(error: &mirror::RunStoreError) -> Self {
        Self { message: chain(error), may_pass: error.may_pass() }
    }

    pub(super) fn of_claim(error: &ClaimError) -> Self {
        Self { message: chain(error), may_pass: error.may_pass() }
    }

    fn of_archives(error: &CarriedError) -> Self {
        Self { message: chain(error), may_pass: error.may_pass() }
    }

    pub(super) fn of(problems: &[Problem]) -> Self {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Self::permanent(lines.join("\n"))
    }
}

/// Does what a pod does, to its exit code.
pub(crate) fn run(
    arguments: &PodArguments,
    process: &ProcessEnvironment,
    console: &Console,
) -> ExitCode {
    let runtime =
        crate::runtime().map_err(|error| Failure::permanent(format!("starting threads: {error}")));
    let ended = runtime.and_then(|runtime| {
        let is_archive =
            ["s3://", "file://"].iter().any(|scheme| arguments.run.starts_with(scheme));
        let code = match (is_archive, arguments.publish) {
            (true, false) => runtime.block_on(segment_pod::write(arguments, process)),
            (true, true) => runtime.block_on(segment_pod::publish(arguments, process)),
            (false, false) => prepare(arguments, process)
                .and_then(|pod| runtime.block_on(transfer(&pod, arguments, process))),
            (false, true) => prepare(arguments, process)
                .and_then(|pod| publish(&runtime, &pod, arguments, process, console)),
        };
        runtime.shutdown_background();
        code
    });
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            tracing::error!("{}", failure.message);
            ExitCode::from(if failure.may_pass { exit::RETRY } else { exit::PERMANENT })
        }
    }
}

/// What both phases need.
struct Pod {
    run: ImageRef,
    /// What is read instead of source registries.
    archives: Option<CarriedArchives>,
    store: RunStore,
    links: Links,
}

/// The workspace of a pod, and how it reaches registries.
pub(super) struct Links {
    pub(super) directory: PathBuf,
    source: registry::Settings,
    destination: registry::Settings,
    pace: Pace,
    /// Whether an earlier pod worked on the same part.
    pub(super) is_repeated: bool,
}

impl Links {
    pub(super) fn of(
        arguments: &PodArguments,
        process: &ProcessEnvironment,
    ) -> Result<Self, Failure> {
        let workspace = arguments.mirror.workspace.as_deref().unwrap_or_default();
        let directory = route::directory("--workspace", workspace)
            .map_err(|problem| Failure::of(&[problem]))?;
        let pace = arguments.mirror.pace.pace(None, Timestamp::now());
        let pace = pace.map_err(|problem| Failure::of(&[problem]))?;
        let limiters = pace.source.iter().chain(&pace.destination);
        limiters.for_each(|limiter| limiter.share(arguments.sharing));
        let mirror = (&arguments.mirror, arguments.sharing);
        let (source, destination) = request::registries(mirror, process, &pace)
            .map_err(|problems| Failure::of(&problems))?;
        let is_repeated = process.is_repeated_pod;
        Ok(Self { directory, source, destination, pace, is_repeated })
    }
}

/// The number of the shard that this pod is.
pub(super) fn shard_index(
    arguments: &PodArguments,
    process: &ProcessEnvironment,
) -> Result<u32, Failure> {
    arguments.index.or(process.completion_index).ok_or_else(|| {
        Failure::permanent("expected the number of the shard in $JOB_COMPLETION_INDEX or --index")
    })
}

fn prepare(arguments: &PodArguments, process: &ProcessEnvironment) -> Result<Pod, Failure> {
    let text = arguments.run.strip_prefix("docker://").unwrap_or(&arguments.run);
    let run: ImageRef = text.parse().map_err(|error| {
        Failure::permanent(format!("invalid value for --run: {}", chain(&error)))
    })?;
    if run.digest.is_none() {
        return Err(Failure::permanent(format!(
            "invalid value for --run: expected docker://REGISTRY/REPOSITORY@DIGEST, found {:?}",
            arguments.run
        )));
    }
    let archives = arguments.mirror.from.as_deref().map(CarriedArchives::parse).transpose();
    let archives = archives.map_err(|problem| Failure::of(&[problem]))?;
    let links = Links::of(arguments, process)?;
    let store = RunStore::of_run(&run, &links.destination).map_err(|e| Failure::of_store(&e))?;
    Ok(Pod { run, archives, store, links })
}

/// Transfers the blobs of one shard. The pod that publishes has no access to the cluster, and would
/// wait for this shard forever: it reads of a failure that lasts, and that no other pod of this shard
/// follows.
async fn transfer(
    pod: &Pod,
    arguments: &PodArguments,
    process: &ProcessEnvironment,
) -> Result<u8, Failure> {
    let index = shard_index(arguments, process)?;
    if process.is_last_pod {
        // This pod may be killed at any moment.
        note_unless_done(pod, index, ShardEnding::LastAttempt, None).await;
    }
    let ended = transfer_part(pod, arguments, index, pod.links.is_repeated).await;
    if let Err(failure) = &ended
        && (!failure.may_pass || process.is_last_pod)
    {
        note_unless_done(pod, index, ShardEnding::Failed, Some(&failure.message)).await;
    }
    ended
}

/// Stores how a shard is, unless another copy of it has done the part. What cannot be stored is
/// logged: the pod has another error to report.
async fn note_unless_done(pod: &Pod, index: u32, ending: ShardEnding, failure: Option<&str>) {
    let note = async {
        let plan = pod.store.plan_digest(&pod.run).await?;
        let (name, shards) = (RunName::of(&plan), pod.store.shards(&pod.run).await?);
        let run = (name.as_str(), shards);
        let known = pod.store.shard_report(run, index).await?;
        if known.is_some_and(|known| known.run == plan && known.ending.is_done()) {
            return Ok(());
        }
        let mut report = ShardReport::without_transfers(plan, index, ending);
        report.failure = failure.map(str::to_owned);
        pod.store.store_shard_report(run, &report).await
    };
    let noted: Result<(), mirror::RunStoreError> = note.await;
    let _ = noted.inspect_err(|error| tracing::warn!("{}", chain(error)));
}

async fn transfer_part(
    pod: &Pod,
    arguments: &PodArguments,
    index: u32,
    is_repeated: bool,
) -> Result<u8, Failure> {
    let part = pod.store.part(&pod.run, index).await.map_err(|e| Failure::of_store(&e))?;
    let expected = RunIdentity { plan: part.run.plan, program: program() };
    part.check(&expected, index).map_err(|error| Failure::permanent(chain(&error)))?;
    let name = RunName::of(&part.run.plan);
    tracing::info!(
        "shard {index} of run {name}: {} in {} blobs",
        crate::quantity::bytes(part.bytes()),
        part.blobs.len()
    );
    if let Some(archives) = &pod.archives {
        let provided = archives.provide_part(&arguments.mirror.store, &part, &pod.links.directory);
        provided.await.map_err(|error| Failure::of_archives(&error))?;
    }
    let moved = move_blobs(&pod.links, arguments, &part, is_repeated).await?;
    let Moved::Report(report) = moved else {
        return Ok(interrupt::EXIT_CODE);
    };
    match report.ending {
        ShardEnding::Interrupted => return Ok(interrupt::EXIT_CODE),
        ShardEnding::Incomplete if may_pass(&report) => {
            let reason = report.unfinished.first().map(|need| need.reason.to_string());
            let message = format!("blobs were not transferred: {}", reason.unwrap_or_default());
            return Err(Failure { message, may_pass: true });
        }
        // What the source does not have fails the images that need it, when they are published.
        ShardEnding::Incomplete
        | ShardEnding::Complete
        | ShardEnding::LastAttempt
        | ShardEnding::Failed => {}
    }
    let stored = pod.store.store_shard_report((name.as_str(), part.shards), &report).await;
    stored.map_err(|error| Failure::of_store(&error))?;
    Ok(exit::DONE)
}

/// Whether what a shard left undone may succeed later.
pub(super) fn may_pass(report: &ShardReport) -> bool {
    report
        .unfinished
        .iter()
        .any(|need| matches!(need.reason.remedy, Remedy::RunAgain | Remedy::CheckConnection))
}

/// How moving blobs ended.
pub(super) enum Moved {
    Report(ShardReport),
    /// A second signal ended it.
    Abandoned,
}

/// Moves the blobs of a part, and logs how far it is.
pub(super) async fn move_blobs(
    links: &Links,
    arguments: &PodArguments,
    part: &ShardPart,
    is_repeated: bool,
) -> Result<Moved, Failure> {
    let index = part.shard;
    let settings = ShardSettings {
        directory: links.directory.clone(),
        source: links.source.clone(),
        destination: links.destination.clone(),
        parallel_images: request::at_least_one(arguments.mirror.parallel_images.into()),
        parallel_layers: request::at_least_one(arguments.mirror.parallel_layers.into()),
        transfer_timeout: arguments.mirror.image_timeout.filter(|limit| !limit.is_zero()),
        cache: None,
        is_repeated,
    };
    let counting = Arc::new(Counting::default());
    let work = |cancel: CancellationToken| {
        let (_, held) = watch::channel(false);
        let observer = Arc::clone(&counting) as Arc<dyn Observer>;
        let watch = ShardWatch { observer, cancel, held };
        transfer_shard(settings, part, watch)
    };
    let ended = tokio::select! {
        ended = interrupt::until_ended(work) => ended,
        () = pacing::follow(links.pace.schedule.as_ref()) => unreachable!("a timetable never ends"),
        () = counting.follow(index, part.bytes()) => unreachable!("following never ends"),
    };
    let report = match ended {
        Ok(Ended::Result(Ok(report))) => report,
        Ok(Ended::Result(Err(failure))) => return Err(Failure::permanent(failure.message)),
        Ok(Ended::Abandoned) => return Ok(Moved::Abandoned),
        Err(error) => return Err(Failure::permanent(format!("waiting for signals: {error}"))),
    };
    for need in &report.unfinished {
        tracing::warn!("{}", need.reason);
    }
    tracing::info!(
        "shard {index}: {} blobs, {} transferred, {} mounted",
        report.blobs,
        crate::quantity::bytes(report.bytes),
        report.blobs_mounted
    );
    Ok(Moved::Report(report))
}

/// Counts what arrives, for the log of the pod.
#[derive(Debug, Default)]
struct Counting {
    moved: AtomicU64,
}

impl Counting {
    /// Logs periodically how far the shard is. Never ends.
    async fn follow(&self, index: u32, bytes: u64) {
        loop {
            tokio::time::sleep(LOG_INTERVAL).await;
            let moved = self.moved.load(Ordering::Relaxed);
            let progress = LogProgress::new((moved, bytes), crate::quantity::bytes);
            tracing::info!("{}", progress.line(index));
        }
    }
}

impl Observer for Counting {
    fn notice(&self, event: Event) {
        match event {
            Event::Moved { bytes } => _ = self.moved.fetch_add(bytes, Ordering::Relaxed),
            Event::Warning { message } => tracing::warn!("{message}"),
            Event::BlobFailed { digest, error } => tracing::debug!("moving blob {digest}: {error}"),
            _ => {}
        }
    }
}

/// Shards that ran as pods before.
#[derive(Debug)]
struct EndedShards(NonZeroU32);

impl ShardRunner for EndedShards {
    fn shards(&self) -> NonZeroU32 {
        self.0
    }

    fn program(&self) -> String {
        program()
    }

    /// Leaves it to the run to find out what is at the target.
    fn run<'a>(
        &'a self,
        parts: &'a [StoredPart],
        _: ShardWatch,
    ) -> Pin<Box<dyn Future<Output = Vec<Option<ShardReport>>> + Send + 'a>> {
        Box::pin(std::future::ready(vec![None; parts.len()]))
    }
}

/// Claims the target for a run, unless another run mirrors to it.
async fn claim(pod: &Pod) -> Result<TargetClaim, Failure> {
    let failed = |error: mirror::RunStoreError| Failure::of_store(&error);
    let plan = pod.store.plan_digest(&pod.run).await.map_err(failed)?;
    let claim = TargetClaim::of_pod(&pod.run, &pod.links.destination, &RunName::of(&plan));
    claim.take().await.map_err(|error| Failure::of_claim(&error))?;
    Ok(claim)
}

/// Publishes a run that has the target for itself.
fn publish(
    runtime: &tokio::runtime::Runtime,
    pod: &Pod,
    arguments: &PodArguments,
    process: &ProcessEnvironment,
    console: &Console,
) -> Result<u8, Failure> {
    let claim = runtime.block_on(claim(pod))?;
    let ended = publish_claimed((runtime, &claim), pod, arguments, process, console);
    let is_repeated = match &ended {
        Ok(code) => [exit::RETRY, interrupt::EXIT_CODE].contains(code),
        Err(failure) => failure.may_pass,
    };
    // The next pod of the run continues with its claim.
    if !is_repeated {
        claim.end();
    }
    ended
}

/// Waits for all shards, then publishes the run and stores its result.
fn publish_claimed(
    (runtime, claim): (&tokio::runtime::Runtime, &TargetClaim),
    pod: &Pod,
    arguments: &PodArguments,
    process: &ProcessEnvironment,
    console: &Console,
) -> Result<u8, Failure> {
    let prepared = runtime.block_on(async {
        interrupt::until_ended(|cancel| async move {
            tokio::select! {
                prepared = gather(pod, arguments) => Some(prepared),
                () = cancel.cancelled() => None,
                () = claim.keep() => unreachable!("a claim is kept until the run ends"),
            }
        })
        .await
    });
    let (plan, shards) = match prepared {
        Ok(Ended::Result(Some(prepared))) => prepared?,
        Ok(_) => return Ok(interrupt::EXIT_CODE),
        Err(error) => return Err(Failure::permanent(format!("waiting for signals: {error}"))),
    };
    // Another run may have taken the target over while no pod of this one was running.
    runtime.block_on(claim.take()).map_err(|error| Failure::of_claim(&error))?;
    let name = RunName::of(&Digest::of(plan.as_bytes()));
    let path = pod.links.directory.join(PLAN_FILE);
    fs::create_dir_all(&pod.links.directory)
        .and_then(|()| fs::write(&path, &plan))
        .map_err(|error| Failure::permanent(format!("writing {}: {error}", path.display())))?;
    let mut mirror = MirrorArguments { config: None, plan: Some(path), ..arguments.mirror.clone() };
    if pod.archives.is_some() {
        // They are in the workspace by now.
        mirror.from = mirror.workspace.take();
    }
    let (mut settings, pace) =
        mirror_command::settings(&mirror, &[], process).map_err(|refusal| {
            refusal.tell(console);
            Failure::permanent("the run cannot be published")
        })?;
    let count = NonZeroU32::new(u32::try_from(shards.len()).unwrap_or(u32::MAX));
    settings.shards = Some(Arc::new(EndedShards(count.unwrap_or(NonZeroU32::MIN))));
    let config = settings.configuration.path.clone();
    let view = View {
        display: Display::Nothing,
        console: console.clone(),
        metrics: arguments.mirror.metrics_file.clone(),
        claim: Some(claim.clone()),
    };
    let mut report = match mirror_command::execute(settings, &pace, view) {
        Ok(report) => report,
        Err(_) => return Ok(interrupt::EXIT_CODE),
    };
    add(&mut report, &shards);
    let code = report.exit_code();
    let chunk_sizes = &Default::default();
    let surround = ReportContext { log: None, chunk_sizes, config: &config, stored_in: None };
    let text = report_text::render(&report, &surround);
    // For the log of the pod; the report is stored too.
    let _ = command_line::write_result(text.as_bytes());
    let files = result(&report, code, &text, &pod.links.directory)?;
    let stored = runtime.block_on(pod.store.store_result(name.as_str(), &files));
    stored.map_err(|error| Failure::of_store(&error))?;
    let may_pass = report.images.iter().any(|image| match &image.outcome {
        Outcome::Failed { error } => {
            matches!(error.remedy, Remedy::RunAgain | Remedy::CheckConnection)
        }
        _ => false,
    });
    Ok(match code {
        0 => exit::DONE,
        interrupt::EXIT_CODE => code,
        _ if may_pass => exit::RETRY,
        _ => exit::PERMANENT,
    })
}

/// Waits until all shards have done their parts; then reads the plan. A part whose last pod was
/// started is done here, once all others are done: that pod may have been killed, and copies of a
/// shard do not disturb each other.
async fn gather(
    pod: &Pod,
    arguments: &PodArguments,
) -> Result<(String, Vec<ShardReport>), Failure> {
    let failed = |error: mirror::RunStoreError| Failure::of_store(&error);
    let plan = pod.store.plan(&pod.run, &pod.links.directory).await.map_err(failed)?;
    let digest = Digest::of(plan.as_bytes());
    let name = RunName::of(&digest);
    let shards = pod.store.shards(&pod.run).await.map_err(failed)?;
    let run = (name.as_str(), shards);
    let mut reports: Vec<Option<ShardReport>> = vec![None; shards as usize];
    let mut logged = usize::MAX;
    loop {
        for (shard, report) in (0..).zip(&mut reports) {
            if !report.as_ref().is_some_and(|report| report.ending.is_done()) {
                let known = pod.store.shard_report(run, shard).await.map_err(failed)?;
                *report = known.filter(|known| {
                    known.run == digest && known.ending != ShardEnding::Interrupted
                });
            }
        }
        for report in reports.iter().flatten() {
            if report.ending == ShardEnding::Failed && !is_there(pod, report.shard).await? {
                let reason = report.failure.as_deref().unwrap_or_default();
                return Err(Failure::permanent(of_shard(report.shard, reason)));
            }
        }
        let left = reports.iter().filter(|report| report.is_none()).count();
        if left == 0 {
            let is_left = |report: &&ShardReport| !report.ending.is_done();
            let left: Vec<u32> =
                reports.iter().flatten().filter(is_left).map(|report| report.shard).collect();
            if left.is_empty() {
                if let Some(archives) = &pod.archives {
                    let store = &arguments.mirror.store;
                    let provided = archives.provide_descriptions(store, &pod.links.directory).await;
                    provided.map_err(|error| Failure::of_archives(&error))?;
                }
                return Ok((plan, reports.into_iter().flatten().collect()));
            }
            for shard in left {
                take_over(pod, arguments, shard).await?;
            }
            continue;
        }
        if std::mem::replace(&mut logged, left) != left {
            tracing::info!("waiting for {left} of {shards} shards");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn of_shard(shard: u32, reason: &str) -> String {
    format!("shard {shard} failed, and nothing is published: {reason}")
}

/// Whether the content of a shard that reported a failure is at the target: another copy of the shard
/// may have brought it.
async fn is_there(pod: &Pod, shard: u32) -> Result<bool, Failure> {
    // A part that cannot be read is what failed the shard.
    let Ok(part) = pod.store.part(&pod.run, shard).await else { return Ok(false) };
    pod.store.has_part(&part).await.map_err(|error| Failure::of_store(&error))
}

/// Does what a shard left undone, and stores the report for it.
async fn take_over(pod: &Pod, arguments: &PodArguments, shard: u32) -> Result<(), Failure> {
    tracing::info!(
        "shard {shard}: no other pod follows its last one; transferring what is missing"
    );
    let ended = Box::pin(transfer_part(pod, arguments, shard, true)).await;
    let Failure { message, may_pass } = match ended {
        Ok(exit::DONE) => return Ok(()),
        Ok(_) => Failure { message: "interrupted".to_owned(), may_pass: true },
        Err(failure) => failure,
    };
    Err(Failure { message: of_shard(shard, &message), may_pass })
}

/// Adds what shards transferred to the report of the run.
fn add(report: &mut Report, shards: &[ShardReport]) {
    for shard in shards {
        report.totals.blobs += shard.blobs;
        report.totals.bytes += shard.bytes;
        report.totals.blobs_mounted += shard.blobs_mounted;
        report.totals.source_requests += shard.source_requests;
        report.totals.destination_requests += shard.destination_requests;
        report.totals.retries += shard.retries;
    }
}

/// The files of a result: report, exit code and cluster resources.
fn result(report: &Report, code: u8, text: &str, directory: &Path) -> Result<Files, Failure> {
    let failed = |error: std::io::Error| Failure::permanent(format!("reading the result: {error}"));
    let json = mirror_command::json(report, code, None).map_err(failed)?;
    let mut files = Files::from([
        (REPORT_JSON.to_owned(), json.into_bytes()),
        (REPORT_TEXT.to_owned(), text.as_bytes().to_vec()),
        (EXIT_CODE.to_owned(), code.to_string().into_bytes()),
    ]);
    let resources = Workspace::open(directory).cluster_resources();
    let entries = match fs::read_dir(&resources) {
        Ok(entries) => entries,
        // A run without images at the target writes none.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A hidden file remembers which files were generated here; it is of no use elsewhere.
        if entry.file_type().map_err(failed)?.is_file() && !name.starts_with('.') {
            files.insert(format!("{RESOURCES}{name}"), fs::read(entry.path()).map_err(failed)?);
        }
    }
    Ok(files)
}
