//! `oc-mirror -c FILE … DESTINATION`: checks, runs the engine, shows and
//! reports. The only place that knows them all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use image_set::ShortName;
use jiff::Timestamp;
use mirror::{
    CacheChoice, Configuration, DryRun, Ending, Failure, ImageLine, Lookaside, Outcome,
    ReleaseSources, Report, Settings, SignatureCheck, StoredPlan, StoredPlanError, Workflow,
};
use mirror_plan::{Exit, Kind};
use registry::ShortNames;
use serde::Serialize;
use workspace::Workspace;

use crate::USAGE;
use crate::archive_keys;
use crate::arguments::{MirrorArguments, ReportFormat};
use crate::configuration::{self, Checked, Compatibility, ConfigurationError};
use crate::console::Console;
use crate::interrupt::{self, Ended};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::object_store::Transfer;
use crate::pace_arguments::Pace;
use crate::pacing;
use crate::policy_file::{self, PolicyChoice};
use crate::problem::{Problem, chain};
use crate::progress::{Display, PLAIN_INTERVAL, Progress};
use crate::registries_d;
use crate::release_sources::ReleaseVariables;
use crate::report_text::{self, ReportContext};
use crate::request::{ProcessEnvironment, SelectionFile, request};
use crate::shards::target_claim::TargetClaim;
use crate::shards::{self, LocalShards};

/// What oc-mirror v2 left on this machine.
#[derive(Debug, Default)]
pub(crate) struct OfV2 {
    pub(crate) cache: Option<CacheChoice>,
    /// A workspace to convert instead of mirroring.
    pub(crate) migrate_from: Option<PathBuf>,
}

/// Runs a mirror command to its exit code.
pub(crate) fn mirror(
    arguments: &MirrorArguments,
    of_v2: OfV2,
    command_line: &[OsString],
    process: &ProcessEnvironment,
    log: &Log,
    console: Console,
) -> ExitCode {
    let transfer = match begin_transfer(arguments) {
        Ok(transfer) => transfer,
        Err(problem) => {
            tracing::error!("{problem}");
            return ExitCode::from(USAGE);
        }
    };
    let (mut settings, pace) = match settings(arguments, command_line, process) {
        Ok(settings) => settings,
        Err(refusal) => {
            refusal.tell(&console);
            return ExitCode::from(USAGE);
        }
    };
    settings.cache = of_v2.cache;
    settings.migrate_from = of_v2.migrate_from;
    if let Some(part) = &arguments.shards.shard_part {
        return shards::process::run(&arguments.shards, part, settings, &pace);
    }
    let mode = settings.workflow.name();
    let log_path = match settings.dry_run {
        DryRun::No => {
            let workspace = Workspace::open(settings.workflow.directory());
            let wanted = workspace.log_file(Timestamp::now());
            match log.keep_copy(&wanted) {
                Ok(path) => Some(path),
                Err(error) => {
                    tracing::error!("writing the log {}: {error}", wanted.display());
                    let hint = "every run keeps its log below working-dir: use a directory that can be written to; archives on a read-only medium are copied there first";
                    tracing::error!("hint: {hint}");
                    return ExitCode::from(USAGE);
                }
            }
        }
        // A dry run writes below dry-run alone.
        DryRun::Plan | DryRun::PlanWithLists => None,
    };
    let claim = TargetClaim::of_run(&settings, transfer.as_ref(), &arguments.store);
    settings.claim = claim.clone().map(|claim| Arc::new(claim) as Arc<dyn mirror::RunClaim>);
    // The run starts here: what kept it from starting went to standard error.
    if arguments.output == ReportFormat::Text {
        console.use_standard_output();
    }
    tracing::info!("oc-mirror {}", crate::version::NUMBER);
    if settings.migrate_from.is_none() {
        tracing::info!("workflow mode: {mode}");
    }
    if let Some(trust) = &settings.trust {
        tracing::info!("enforcing the trust policy {}", trust.path.display());
    }

    let config = settings.configuration.path.clone();
    // What a policy rejects, or what is not in the archives, does not become available later.
    let lenient = settings.dry_run != DryRun::No
        && !arguments.strict_dry_run
        && settings.trust.is_none()
        && !matches!(settings.workflow, Workflow::DiskToMirror { .. });
    let pins = settings.dry_run == DryRun::No
        && !matches!(settings.workflow, Workflow::DiskToMirror { .. });
    let directory = settings.workflow.directory().to_owned();
    let working_dir = Workspace::open(&directory).working_dir();
    let pushed_to = match &settings.workflow {
        Workflow::DiskToMirror { dir, target } | Workflow::MirrorToMirror { dir, target }
            if settings.dry_run == DryRun::No =>
        {
            Some((dir.clone(), target.registry.clone()))
        }
        _ => None,
    };
    let view = View {
        display: Display::choose(arguments.quiet, io::stderr().is_terminal()),
        console,
        metrics: arguments.metrics_file.clone(),
        claim: claim.clone(),
    };
    let report = match execute(settings, &pace, view) {
        Ok(report) => report,
        Err(stopped) => return stopped,
    };
    if let Some((dir, registry)) = pushed_to {
        crate::delete_command::remember(process, &dir, &registry);
    }
    tell_failures(&report);
    if pins && matches!(report.ending, Ending::Complete | Ending::Partial) {
        tell_pinned(&report, &working_dir);
    }
    let mut code = if lenient { lenient_exit_code(&report) } else { report.exit_code() };
    let mut stored_in = None;
    if let Some(Transfer::Store(place)) = &transfer
        && matches!(report.ending, Ending::Complete | Ending::Partial)
    {
        match arguments.store.store(place, &directory, claim.as_ref()) {
            Ok(()) => stored_in = Some(place.to_string()),
            Err(problem) => {
                tracing::error!("{problem}");
                code |= USAGE;
            }
        }
    }
    if let Some(claim) = claim {
        claim.end();
    }
    let chunk_sizes = chunk_sizes(&report);
    let surround = ReportContext {
        log: log_path.as_deref(),
        chunk_sizes: &chunk_sizes,
        config: &config,
        stored_in,
    };
    let text = report_text::render(&report, &surround);
    log.append(&text);
    let written = match arguments.output {
        ReportFormat::Text => command_line::write_result(text.as_bytes()),
        ReportFormat::Json => json(&report, code, log_path.as_deref())
            .and_then(|json| command_line::write_result(json.as_bytes())),
    };
    match written {
        Ok(()) => ExitCode::from(code),
        Err(error) => {
            tracing::error!("writing the report to standard output: {error}");
            ExitCode::from(code | USAGE)
        }
    }
}

/// Fetches archives from an object store before the run that reads them, and checks one that
/// archives are stored in after the run.
fn begin_transfer(arguments: &MirrorArguments) -> Result<Option<Transfer>, Problem> {
    // The run of a shard did this.
    if arguments.shards.shard_part.is_some() {
        return Ok(None);
    }
    // Wrong flags are reported by the run.
    let transfer = request(arguments).ok().and_then(|request| request.transfer);
    match &transfer {
        Some(Transfer::Fetch(place)) => {
            let workspace = arguments.workspace.as_deref().unwrap_or_default();
            arguments.store.fetch(place, workspace)?;
        }
        Some(Transfer::Store(place)) => arguments.store.check(place)?,
        None => {}
    }
    Ok(transfer)
}

/// Why a run does not start.
pub(crate) enum Refusal {
    Usage(Vec<Problem>),
    Configuration(ConfigurationError),
}

impl Refusal {
    pub(crate) fn tell(&self, console: &Console) {
        match self {
            Self::Usage(problems) => {
                for problem in problems {
                    tracing::error!("{problem}");
                }
            }
            // Findings start with file:line:column, where editors look for it.
            Self::Configuration(ConfigurationError::Invalid(findings)) => {
                console.line(&findings.to_string());
                tracing::error!(
                    "invalid configuration: {} in {}",
                    crate::quantity::count(findings.iter().count(), "problem"),
                    findings.file()
                );
            }
            Self::Configuration(ConfigurationError::NotYet(sections)) => {
                console.line(&sections.to_string());
                tracing::error!(
                    "invalid configuration: {} of it not supported by this version",
                    crate::quantity::count(sections.count(), "section")
                );
            }
            Self::Configuration(ConfigurationError::Extended(extended)) => {
                console.line(&extended.to_string());
                tracing::error!(
                    "invalid configuration: {} used together with --strict-compat",
                    crate::quantity::count(extended.count(), "extension")
                );
            }
            Self::Configuration(error) => tracing::error!("{}", chain(error)),
        }
    }
}

pub(crate) fn settings(
    arguments: &MirrorArguments,
    command_line: &[OsString],
    process: &ProcessEnvironment,
) -> Result<(Settings, Pace), Refusal> {
    let request = request(arguments).map_err(Refusal::Usage)?;
    // Nothing must be made in a place that was only mistyped.
    if let Workflow::DiskToMirror { dir, .. } = &request.workflow
        && !dir.is_dir()
    {
        let problem = Problem::new(format!(
            "no tar archives matching \"mirror_[0-9]{{6}}\\\\.tar\" found: \
             --from names {}, which is not a directory",
            dir.display()
        ));
        return Err(Refusal::Usage(vec![problem]));
    }
    let named = request.registries_d.as_deref();
    // Without a policy, only what was named is read: it must not be wrong unnoticed.
    let directory = match &request.policy {
        PolicyChoice::None => named.map(Path::to_owned),
        _ => registries_d::directory(named, &process.registries),
    };
    let lookaside = match directory {
        Some(dir) => registries_d::read(&dir, named.is_some()).map_err(Refusal::Usage)?,
        None => Lookaside::default(),
    };
    let trust = policy_file::open(&request.policy, &process.registries, lookaside)
        .map_err(|problem| Refusal::Usage(vec![problem]))?;
    for warning in &request.warnings {
        tracing::warn!("{warning}");
    }
    let compatibility = match arguments.strict_compat {
        true => Compatibility::Strict,
        false => Compatibility::Extended,
    };
    let (Checked { configuration, warnings }, plan) = match &request.selection {
        SelectionFile::Configuration(path) => {
            (configuration::read(path, compatibility).map_err(Refusal::Configuration)?, None)
        }
        SelectionFile::Plan(path) => {
            let plan = stored_plan(path, &request.workflow)
                .map_err(|problem| Refusal::Usage(vec![problem]))?;
            let (name, text) = plan.configuration();
            let checked = configuration::check(name, text.to_owned(), compatibility);
            (checked.map_err(Refusal::Configuration)?, Some(Arc::new(plan)))
        }
    };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    // The disconnected side finds images in archives, by their completed names.
    if !matches!(request.workflow, Workflow::DiskToMirror { .. }) {
        check_short_names(&configuration, process)?;
    }
    let releases = release_sources(arguments, process, &configuration)?;
    let times = configuration.set.transfer_times.as_ref();
    let pace = arguments.pace.pace(times, Timestamp::now());
    let pace = pace.map_err(|problem| Refusal::Usage(vec![problem]))?;
    let keys =
        archive_keys::read(arguments, process).map_err(|problem| Refusal::Usage(vec![problem]))?;
    let line = command_line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let checks = (releases, trust);
    let selected = (configuration, plan);
    let mut settings = request.settings(arguments, process, selected, checks, &pace, line);
    settings.archiving.signing_key = keys.signing;
    settings.archive_key = keys.verifying;
    if let Some(count) = arguments.shards.shards {
        let shards = LocalShards::new(count, command_line).map_err(|error| {
            let text = format!("finding the file of this program, to start shards: {error}");
            Refusal::Usage(vec![Problem::new(text)])
        })?;
        settings.shards = Some(Arc::new(shards));
    }
    Ok((settings, pace))
}

/// Rejects names without a registry that registries.conf resolves in another way.
fn check_short_names(
    configuration: &Configuration,
    process: &ProcessEnvironment,
) -> Result<(), Refusal> {
    let names = image_set::short_names(&configuration.text);
    if names.is_empty() {
        return Ok(());
    }
    let conf = ShortNames::open(&process.registries)
        .map_err(|error| Refusal::Usage(vec![Problem::new(chain(&error))]))?;
    let file = configuration.path.display();
    let ambiguous = |short: &ShortName| {
        let error = conf.check(&short.name, &short.image).err()?;
        let hint = format!("write {} to mirror that image", short.image);
        Some(Problem::new(format!("{file}:{}: {error}", short.at)).with_hint(hint))
    };
    let problems: Vec<Problem> = names.iter().filter_map(ambiguous).collect();
    if problems.is_empty() { Ok(()) } else { Err(Refusal::Usage(problems)) }
}

/// Reads a plan that is for this mode and target.
fn stored_plan(path: &Path, workflow: &Workflow) -> Result<StoredPlan, Problem> {
    let read = StoredPlan::read(path).and_then(|plan| plan.check(workflow).map(|()| plan));
    read.map_err(|error| {
        let hint = match &error {
            StoredPlanError::Seal { .. } => {
                "a plan is executed as it was written: change the configuration and make another plan with --dry-run"
            }
            StoredPlanError::Mode { .. } | StoredPlanError::Target { .. } => {
                "use the destination and directory that the plan was made with, or make another plan with --dry-run"
            }
            _ => "plans are in working-dir/plans and, of a dry run, in working-dir/dry-run/plan.json",
        };
        Problem::new(chain(&error)).with_hint(hint)
    })
}

/// Where releases come from. Variables that nothing uses are not checked.
fn release_sources(
    arguments: &MirrorArguments,
    process: &ProcessEnvironment,
    configuration: &Configuration,
) -> Result<ReleaseSources, Refusal> {
    let platform = configuration.set.mirror.platform.as_ref();
    let by_name = platform.is_some_and(|platform| platform.release.is_some());
    let check = match arguments.ignore_release_signature {
        false => SignatureCheck::Enforce,
        true if by_name => SignatureCheck::IgnoreForNamedRelease,
        true => {
            let problem = Problem::new(
                "--ignore-release-signature has a meaning for mirror.platform.release only: \
                 releases of channels are always verified",
            );
            return Err(Refusal::Usage(vec![problem]));
        }
    };
    let variables = match platform {
        Some(_) => process.releases.clone(),
        None => ReleaseVariables::default(),
    };
    variables.sources(check).map_err(Refusal::Usage)
}

/// How progress of a run is displayed.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) display: Display,
    pub(crate) console: Console,
    /// The file of `--metrics-file`.
    pub(crate) metrics: Option<PathBuf>,
    /// Is renewed while the run is under way.
    pub(crate) claim: Option<TargetClaim>,
}

/// Runs the engine, with progress, until it ends or a signal ends it.
pub(crate) fn execute(settings: Settings, pace: &Pace, view: View) -> Result<Report, ExitCode> {
    let runtime = crate::runtime().map_err(|error| {
        tracing::error!("starting threads: {error}");
        ExitCode::from(USAGE)
    })?;
    let View { display, console, metrics, claim } = view;
    let progress = Arc::new(Progress::new(display, console));
    let mode = settings.workflow.name();
    let metrics = metrics.map(|path| {
        let progress = Arc::clone(&progress) as Arc<dyn mirror::Observer>;
        Arc::new(Metrics::new(path, mode, progress))
    });
    let ended = runtime.block_on(async {
        let watch = async {
            let mut interval = tokio::time::interval(PLAIN_INTERVAL);
            interval.tick().await;
            loop {
                interval.tick().await;
                progress.tick();
            }
        };
        let observer = match &metrics {
            Some(metrics) => Arc::clone(metrics) as Arc<dyn mirror::Observer>,
            None => Arc::clone(&progress) as Arc<dyn mirror::Observer>,
        };
        let measure = async {
            match &metrics {
                Some(metrics) => metrics.follow().await,
                None => std::future::pending().await,
            }
        };
        let keep_claim = async {
            match &claim {
                Some(claim) => claim.keep().await,
                None => std::future::pending().await,
            }
        };
        let run = interrupt::until_ended(|cancel| mirror::run(settings, observer, cancel));
        tokio::select! {
            ended = run => ended,
            () = keep_claim => unreachable!("a claim is kept until the run ends"),
            () = watch => unreachable!("watching never ends"),
            () = measure => unreachable!("measuring never ends"),
            () = pacing::follow(pace.schedule.as_ref()) => unreachable!("a timetable never ends"),
        }
    });
    progress.finish();
    // Blocking threads may still wait for a slow disk; their work is not needed any more.
    runtime.shutdown_background();
    if let Some(metrics) = metrics {
        metrics.end(match &ended {
            Ok(Ended::Result(report)) => report.exit_code(),
            Ok(Ended::Abandoned) => interrupt::EXIT_CODE,
            Err(_) => USAGE,
        });
    }
    match ended {
        Ok(Ended::Result(report)) => Ok(report),
        Ok(Ended::Abandoned) => {
            tracing::error!("interrupted: run the same command again to continue");
            Err(ExitCode::from(interrupt::EXIT_CODE))
        }
        Err(error) => {
            tracing::error!("waiting for signals: {error}");
            Err(ExitCode::from(USAGE))
        }
    }
}

/// A dry run shows a plan. An additional image that cannot be found now may exist when the run takes
/// place, so it is reported and does not fail the dry run: oc-mirror v2 does not request it.
/// Everything else counts.
fn lenient_exit_code(report: &Report) -> u8 {
    if report.ending != Ending::Planned {
        return report.exit_code();
    }
    let failed = |image: &&ImageLine| {
        matches!(image.outcome, Outcome::Failed { .. }) && image.kind != Kind::Additional
    };
    let images = report.images.iter().filter(failed).map(|image| image.kind.exit().0);
    images.chain(report.errors.iter().map(|error| error.exit.0)).fold(0, |all, bit| all | bit)
}

/// Logs what went wrong, for those who read or search lines and not the report.
pub(crate) fn tell_failures(report: &Report) {
    for line in failure_lines(report) {
        tracing::error!("{line}");
    }
}

/// Scripts search these lines for texts of oc-mirror v2: `collection error`,
/// `no release images found`, `some errors occurred during the mirroring`.
fn failure_lines(report: &Report) -> Vec<String> {
    let no_release = !report.images.iter().any(|image| image.kind.exit() == Exit::RELEASE);
    let line = |error: &Failure| match error.exit {
        Exit::GENERIC => error.message.clone(),
        Exit::RELEASE if no_release => {
            format!("collection error: no release images found: {}", error.message)
        }
        _ => format!("collection error: {}", error.message),
    };
    let mut lines: Vec<String> = report.errors.iter().map(line).collect();
    // An image without a digest was never resolved: it failed while content was collected.
    lines.extend(report.images.iter().filter_map(|image| match &image.outcome {
        Outcome::Failed { error } if image.digest.is_none() => {
            Some(format!("collection error: {}: {error}", image.origin))
        }
        _ => None,
    }));
    let failed = |image: &&ImageLine| matches!(image.outcome, Outcome::Failed { .. });
    match report.images.iter().filter(failed).count() {
        0 => {}
        failed => lines.push(format!(
            "some errors occurred during the mirroring: {} failed",
            crate::quantity::count(failed, "image")
        )),
    }
    lines
}

/// Logs where the pinned configurations are, in the words of oc-mirror v2.
fn tell_pinned(report: &Report, directory: &Path) {
    let lines = pinned_lines(&report.files, directory);
    if !lines.is_empty() {
        tracing::info!("Generating pinned configurations");
    }
    for line in lines {
        tracing::info!("{line}");
    }
}

/// Names the files of this run or, where nothing has changed since, those of
/// the run that wrote them: a script that reads the path finds one every time.
fn pinned_lines(written: &[PathBuf], directory: &Path) -> Vec<String> {
    let earlier: Vec<PathBuf> = std::fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    let newest = |prefix: &str| {
        let named = |path: &&PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        // The names end in times, so the last by name is the newest.
        written.iter().find(named).or_else(|| earlier.iter().filter(named).max())
    };
    [("isc_pinned_", "ISC"), ("disc_pinned_", "DISC")]
        .into_iter()
        .filter_map(|(prefix, name)| Some((name, newest(prefix)?)))
        .map(|(name, path)| format!("Pinned {name} written to: {}", path.display()))
        .collect()
}

fn chunk_sizes(report: &Report) -> BTreeMap<PathBuf, u64> {
    let chunks = report.archive.iter().flat_map(|archive| &archive.chunks);
    chunks.filter_map(|path| Some((path.clone(), path.metadata().ok()?.len()))).collect()
}

/// The report for machines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'a Path>,
}

pub(crate) fn json(report: &Report, exit_code: u8, log: Option<&Path>) -> io::Result<String> {
    let document = Document { report, exit_code, log };
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}
