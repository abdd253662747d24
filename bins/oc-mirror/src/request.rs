//! The flags of a mirror run, checked together: every problem is found before
//! anything is read or written.

use std::ffi::{OsStr, OsString};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use mirror::{
    ArchiveFormat, Archiving, Attachments, BrokenBundles, Configuration, DryRun, ReleaseSources,
    Settings, StoredPlan, TrustPolicy, Workflow,
};
use registry::{RateLimiter, Side};

use crate::arguments::{ArchiveFormatArgument, MirrorArguments};
use crate::object_store::{Places, Transfer};
use crate::pace_arguments::Pace;
use crate::policy_file::PolicyChoice;
use crate::problem::Problem;
use crate::release_sources::ReleaseVariables;
use crate::route;
use crate::secret::Secret;
use crate::side_arguments::SideChoice;

/// What the process was started in, read once by `main`.
#[derive(Debug, Clone, Default)]
pub struct ProcessEnvironment {
    /// `OC_MIRROR_CACHE`
    pub cache_variable: Option<OsString>,
    /// `JOB_COMPLETION_INDEX`
    pub completion_index: Option<u32>,
    /// Whether an earlier pod of the same shard failed, by the variables of [`mirror_job::FAILURES`]
    pub is_repeated_pod: bool,
    /// Whether the shard fails if this pod does
    pub is_last_pod: bool,
    /// Whether `AWS_ENDPOINT_URL` names an object store
    pub has_store_endpoint: bool,
    /// `COSIGN_PASSWORD`
    pub cosign_password: Option<Secret>,
    pub registries: registry::Environment,
    pub releases: ReleaseVariables,
    /// Where state of the user is kept: `XDG_STATE_HOME`, or `~/.local/state`
    pub state: Option<PathBuf>,
    /// `KUBECONFIG`, or `~/.kube/config`
    #[cfg(feature = "cluster")]
    pub kubeconfigs: Vec<PathBuf>,
}

impl ProcessEnvironment {
    /// Those of this process. For `main` alone.
    pub fn of_process() -> Self {
        Self {
            cache_variable: std::env::var_os("OC_MIRROR_CACHE"),
            completion_index: std::env::var("JOB_COMPLETION_INDEX")
                .ok()
                .and_then(|index| index.parse().ok()),
            is_repeated_pod: mirror_job::FAILURES.iter().any(|(variable, _)| {
                std::env::var(variable).is_ok_and(|count| !matches!(count.as_str(), "" | "0"))
            }),
            is_last_pod: std::env::var(mirror_job::FAILURES[0].0)
                .ok()
                .and_then(|count| count.parse::<u32>().ok())
                .is_some_and(|count| count >= mirror_job::REPETITIONS),
            has_store_endpoint: std::env::var_os("AWS_ENDPOINT_URL").is_some(),
            cosign_password: std::env::var("COSIGN_PASSWORD").ok().map(Secret::new),
            registries: registry::Environment::from_process(),
            releases: ReleaseVariables::of_process(),
            state: state(
                std::env::var_os("XDG_STATE_HOME").as_deref(),
                std::env::var_os("HOME").as_deref(),
            ),
            #[cfg(feature = "cluster")]
            kubeconfigs: cluster_connection::default_paths(
                std::env::var_os("KUBECONFIG").as_deref(),
                std::env::var_os("HOME").as_deref(),
            ),
        }
    }
}

/// A relative path is ignored, as the XDG specification requires.
fn state(variable: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    let named = variable.map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| home.map(|home| Path::new(home).join(".local/state")))
}

/// What defines which images are mirrored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SelectionFile {
    Configuration(PathBuf),
    /// A stored plan, which has the configuration that it was made from.
    Plan(PathBuf),
}

/// A valid request for a mirror run.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) workflow: Workflow,
    pub(crate) selection: SelectionFile,
    pub(crate) registries_d: Option<PathBuf>,
    pub(crate) policy: PolicyChoice,
    /// Warnings, which do not keep the run from starting.
    pub(crate) warnings: Vec<String>,
    pub(crate) dry_run: DryRun,
    /// What is done with an object store.
    pub(crate) transfer: Option<Transfer>,
    source: SideChoice,
    destination: SideChoice,
    archiving: Archiving,
}

/// Checks the request. Reads nothing.
pub(crate) fn request(arguments: &MirrorArguments) -> Result<Request, Vec<Problem>> {
    let mut problems = arguments.refused.problems();
    let mut warnings = Vec::new();

    let config = arguments.config.clone().filter(|path| !path.as_os_str().is_empty());
    let plan = arguments.plan.clone().filter(|path| !path.as_os_str().is_empty());
    let selection = match (config, plan) {
        (None, None) => {
            problems.push(
                Problem::new("the --config flag is mandatory: no configuration was given")
                    .with_hint(
                        "-c FILE names an image set configuration, --plan FILE a stored plan",
                    ),
            );
            None
        }
        (Some(_), Some(_)) => {
            problems.push(Problem::new(
                "--config and --plan cannot be used together: a plan has the configuration that it was made from",
            ));
            None
        }
        (Some(config), None) => Some(SelectionFile::Configuration(config)),
        (None, Some(plan)) => {
            for (flag, given) in [
                ("--dry-run", arguments.dry_run || arguments.dry_run_manifest_lists),
                ("--max-nested-paths", arguments.max_nested_paths != 0),
                ("--refresh-signatures", arguments.refresh_signatures),
            ] {
                if given {
                    problems.push(Problem::new(format!(
                        "{flag} cannot be used together with --plan: the plan exists already"
                    )));
                }
            }
            Some(SelectionFile::Plan(plan))
        }
    };
    let places = keep(&mut problems, arguments.places());
    let transfer = places.as_ref().and_then(|places| places.transfer.clone());
    let mode = places.and_then(|Places { destinations, from, workspace, .. }| {
        keep(&mut problems, route::mode(&destinations, from.as_deref(), workspace.as_deref()))
    });
    if matches!(transfer, Some(Transfer::Store(_))) && arguments.no_archive {
        problems.push(Problem::new(
            "--no-archive cannot be used with a destination of s3://: archives are what is stored there",
        ));
    }
    let since = keep(&mut problems, since(arguments.since.as_deref()).map_err(|p| vec![p]));
    if since.flatten().is_some() && arguments.from.is_some() {
        warnings
            .push("--since has no effect together with --from: no archive is written".to_owned());
    }
    let dry_run = match (arguments.dry_run, arguments.dry_run_manifest_lists) {
        (true, true) => {
            problems.push(Problem::new(
                "--dry-run and --dry-run-manifest-lists cannot be used together: \
                 the second is the first with more lines",
            ));
            DryRun::No
        }
        (true, false) => DryRun::Plan,
        (false, true) => DryRun::PlanWithLists,
        (false, false) => DryRun::No,
    };
    if arguments.strict_dry_run && dry_run == DryRun::No {
        problems.push(Problem::new(
            "--strict-dry-run has an effect only together with --dry-run or --dry-run-manifest-lists",
        ));
    }
    let to_disk = matches!(mode, Some(Workflow::MirrorToDisk { .. }));
    if mode.is_some() && !to_disk {
        for (flag, given) in [
            ("--no-archive", arguments.no_archive),
            ("--sign-archive", arguments.sign_archive.is_some()),
            ("--archive-format", arguments.archive_format == ArchiveFormatArgument::OcMirrorV2),
            ("--archive-partial", arguments.archive_partial),
            ("--remove-archives-before", arguments.remove_archives_before.is_some()),
        ] {
            if given {
                problems.push(Problem::new(format!(
                    "{flag} has a meaning for mirror to disk only: no other run writes an archive"
                )));
            }
        }
    }
    if arguments.no_archive && arguments.remove_archives_before.is_some() {
        problems.push(Problem::new(
            "--no-archive and --remove-archives-before cannot be used together: \
             old archives are removed once a new one is complete",
        ));
    }
    if arguments.archive_partial && (!arguments.pace.has_deadline() || arguments.no_archive) {
        problems.push(Problem::new(
            "--archive-partial has an effect only together with --until and without --no-archive",
        ));
    }
    if arguments.allow_incomplete
        && matches!(mode, Some(Workflow::MirrorToDisk { .. } | Workflow::MirrorToMirror { .. }))
    {
        problems.push(Problem::new(
            "--allow-incomplete has a meaning for disk to mirror only: it concerns archives that are read",
        ));
    }
    if arguments.verify_archive.is_some()
        && matches!(mode, Some(Workflow::MirrorToDisk { .. } | Workflow::MirrorToMirror { .. }))
    {
        problems.push(Problem::new(
            "--verify-archive has a meaning for disk to mirror only: it concerns archives that are read",
        ));
    }
    if arguments.sign_archive.is_some()
        && (arguments.no_archive || arguments.archive_format == ArchiveFormatArgument::OcMirrorV2)
    {
        problems.push(Problem::new(
            "--sign-archive cannot be used with --no-archive or --archive-format oc-mirror-v2: \
             oc-mirror v2 does not verify signatures of archives",
        ));
    }
    if arguments.shards.shards.is_some() {
        for (flag, given) in [
            ("--through-workspace", arguments.through_workspace),
            ("--dry-run", dry_run != DryRun::No),
        ] {
            if given {
                problems.push(Problem::new(format!(
                    "--shards and {flag} cannot be used together: shards copy to the destination directly"
                )));
            }
        }
    }
    if arguments.remove_signatures && arguments.refresh_signatures {
        problems.push(Problem::new(
            "--remove-signatures and --refresh-signatures cannot be used together: \
             one excludes signatures, the other requests new ones",
        ));
    }
    let policy =
        PolicyChoice::of(arguments.secure_policy, arguments.policy.as_ref().map(Path::new));
    let policy = keep(&mut problems, policy.map_err(|problem| vec![problem]));
    let authfile = arguments.authfile.as_ref().filter(|path| !path.as_os_str().is_empty());
    let source = keep(&mut problems, arguments.source.side(authfile));
    let destination = keep(&mut problems, arguments.destination.side(authfile));

    let (Some(mode), Some(selection), Some(policy), Some(source), Some(destination)) =
        (mode, selection, policy, source, destination)
    else {
        return Err(problems);
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Request {
        workflow: mode,
        selection,
        registries_d: arguments.registries_d.clone().filter(|path| !path.as_os_str().is_empty()),
        policy,
        warnings,
        dry_run,
        transfer,
        source,
        destination,
        archiving: Archiving {
            write: !arguments.no_archive,
            since: since.flatten(),
            remove_before: arguments.remove_archives_before,
            partial: arguments.archive_partial,
            format: match arguments.archive_format {
                ArchiveFormatArgument::Landfall => ArchiveFormat::Own,
                ArchiveFormatArgument::OcMirrorV2 => ArchiveFormat::OcMirrorV2,
            },
            signing_key: None,
            is_strict: arguments.strict_archive,
        },
    })
}

fn keep<T>(problems: &mut Vec<Problem>, result: Result<T, Vec<Problem>>) -> Option<T> {
    result.map_err(|found| problems.extend(found)).ok()
}

fn since(text: Option<&str>) -> Result<Option<Date>, Problem> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    // A date must be written in full: "2026-1-2" would be read, and then sorts differently elsewhere.
    let in_full = text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    match Date::strptime("%Y-%m-%d", text) {
        Ok(date) if in_full => Ok(Some(date)),
        _ => Err(Problem::new(format!(
            "invalid value for --since: expected YYYY-MM-DD, found {text:?}"
        ))),
    }
}

impl Request {
    /// Everything the engine needs to know.
    pub(crate) fn settings(
        self,
        arguments: &MirrorArguments,
        process: &ProcessEnvironment,
        (configuration, plan): (Configuration, Option<Arc<StoredPlan>>),
        checks: (ReleaseSources, Option<TrustPolicy>),
        pace: &Pace,
        command_line: Vec<String>,
    ) -> Settings {
        let version = crate::version::NUMBER;
        let (releases, trust) = checks;
        // A shard is started with the command line of its run.
        let sharing = match &arguments.shards.shard_part {
            Some(_) => arguments.shards.shards.unwrap_or(NonZeroU32::MIN),
            None => NonZeroU32::MIN,
        };
        let side = |side, choice, limits| {
            side_settings((arguments, sharing), process, side, choice, limits)
        };
        Settings {
            source: side(Side::Source, self.source, &pace.source),
            destination: side(Side::Destination, self.destination, &pace.destination),
            until: pace.until,
            pace: pace.schedule.as_ref().map(|schedule| schedule.changes.subscribe()),
            workflow: self.workflow,
            configuration,
            parallel_images: at_least_one(arguments.parallel_images.into()),
            parallel_layers: at_least_one(arguments.parallel_layers.into()),
            attachments: if arguments.remove_signatures {
                Attachments::Remove
            } else {
                Attachments::Carry
            },
            refresh_attachments: arguments.refresh_signatures,
            releases,
            broken_bundles: match arguments.skip_broken_bundles {
                true => BrokenBundles::LeaveOut,
                false => BrokenBundles::Keep,
            },
            helm_program: arguments.helm_binary.clone(),
            trust,
            through_workspace: arguments.through_workspace,
            shards: None,
            segments: None,
            claim: None,
            max_nested_paths: match &plan {
                Some(plan) => plan.max_nested_paths(),
                None => NonZeroUsize::new(arguments.max_nested_paths),
            },
            plan,
            archiving: self.archiving,
            cache: None,
            archive_key: None,
            migrate_from: None,
            allow_incomplete: arguments.allow_incomplete,
            content_source_policy: arguments.icsp,
            transfer_timeout: arguments.image_timeout.filter(|limit| *limit > Duration::ZERO),
            dry_run: self.dry_run,
            wait_for_workspace: arguments.wait,
            arguments: command_line,
            version: version.to_owned(),
        }
    }
}

/// How the registries of both sides are connected to, by one of `sharing` processes. Reads nothing.
pub(crate) fn registries(
    (arguments, sharing): (&MirrorArguments, NonZeroU32),
    process: &ProcessEnvironment,
    pace: &Pace,
) -> Result<(registry::Settings, registry::Settings), Vec<Problem>> {
    let mut problems = Vec::new();
    let authfile = arguments.authfile.as_ref().filter(|path| !path.as_os_str().is_empty());
    let source = keep(&mut problems, arguments.source.side(authfile));
    let destination = keep(&mut problems, arguments.destination.side(authfile));
    let (Some(source), Some(destination)) = (source, destination) else { return Err(problems) };
    let side =
        |side, choice, limits| side_settings((arguments, sharing), process, side, choice, limits);
    Ok((
        side(Side::Source, source, &pace.source),
        side(Side::Destination, destination, &pace.destination),
    ))
}

fn side_settings(
    (arguments, sharing): (&MirrorArguments, NonZeroU32),
    process: &ProcessEnvironment,
    side: Side,
    choice: SideChoice,
    limits: &[RateLimiter],
) -> registry::Settings {
    let blobs_at_once =
        usize::from(arguments.parallel_images) * usize::from(arguments.parallel_layers);
    let budget = arguments.pace.requests(side).map(|budget| share(budget, sharing));
    registry::Settings {
        retry: arguments.retry.retry(),
        timeouts: arguments.retry.timeouts(),
        per_host: at_least_one(budget.map_or(blobs_at_once, |budget| budget.min(blobs_at_once))),
        limits: limits.to_vec(),
        ..choice.settings(side, process)
    }
}

/// The part of one of several processes that have a budget together.
fn share(budget: NonZeroUsize, processes: NonZeroU32) -> usize {
    let processes = usize::try_from(processes.get()).unwrap_or(usize::MAX);
    (budget.get() / processes).max(1)
}

/// The command line refuses 0 already.
pub(crate) fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests;
