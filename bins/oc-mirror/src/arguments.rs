//! The command line: what can be written, and where it is explained.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use command_line::completion::Shell;

use crate::console_command::ConsoleArguments;
use crate::delete_command::{DeleteArguments, PruneArguments};
use crate::gc_command::GcArguments;
use crate::go_syntax;
use crate::ignored::Ignored;
use crate::init_command::InitArguments;
#[cfg(feature = "cluster")]
use crate::inventory_command::InventoryArguments;
#[cfg(feature = "cluster")]
use crate::job_command::JobArguments;
use crate::list_command::ListArguments;
use crate::migrate_command::MigrateArguments;
use crate::object_store::StoreArguments;
use crate::pace_arguments::PaceArguments;
use crate::refused::Refused;
use crate::repair_command::RepairArguments;
use crate::retry_arguments::RetryArguments;
use crate::shards::arguments::ShardArguments;
use crate::shards::pod::PodArguments;
use crate::side_arguments::{DestinationArguments, SourceArguments};
use crate::status_command::StatusArguments;
use crate::upgrade_path_command::UpgradePathArguments;
use crate::verify_command::VerifyArguments;

const EXAMPLES: &str = "\
Examples:
  Mirror to disk, and write an archive to transfer:
    oc-mirror -c isc.yaml file:///data
  Push the transferred content to a registry:
    oc-mirror -c isc.yaml --from file:///data docker://reg.local:5000/ocp
  Mirror from registries to a registry directly:
    oc-mirror -c isc.yaml --workspace file:///data docker://reg.local:5000
  The same with four processes:
    oc-mirror -c isc.yaml --workspace file:///data --shards 4 docker://reg.local:5000
  The same with pods of a cluster:
    oc-mirror job -c isc.yaml --workspace file:///data --shards 16 --image REG/oc-mirror:TAG --submit --follow docker://reg.local:5000
  Review a plan, then execute exactly that plan:
    oc-mirror -c isc.yaml --dry-run file:///data
    oc-mirror --plan /data/working-dir/dry-run/plan.json file:///data
  List releases, and show the upgrade path from one to another:
    oc-mirror list releases --version 4.18
    oc-mirror upgrade-path release --from 4.16.3 --to 4.18.9
  Write the inventory of a cluster, and a configuration for its next upgrade:
    oc-mirror inventory --out cluster.json
    oc-mirror init --for cluster.json --out isc.yaml
  Show progress of a run, and missing content:
    oc-mirror status file:///data --follow
  Write a list of images to delete, then delete them:
    oc-mirror delete --generate -c disc.yaml --workspace file:///data docker://reg.local:5000/ocp
    oc-mirror delete --delete-yaml-file /data/working-dir/delete/delete-images.yaml docker://reg.local:5000/ocp
  Continue after oc-mirror v2, without downloading its content again:
    oc-mirror migrate file:///old-workspace file:///data
  Verify a workspace, and download what is damaged:
    oc-mirror verify file:///data
    oc-mirror repair file:///data
  Serve the workspace as a read-only registry:
    oc-mirror serve file:///data --listen 127.0.0.1:5000
  Open the workspace in a browser:
    oc-mirror console file:///data

Exit code: 0: success; 1: usage error or general failure; otherwise the sum of what failed:
2 releases, 4 operators, 8 additional images, 16 Helm charts. 32: stopped by --until; run again to continue. 64: damage found. 130: interrupted.";

/// Mirror releases, operator catalogs, Helm charts and images: registry to disk, disk to registry, registry to registry
#[derive(Debug, Parser)]
#[command(
    name = "oc-mirror",
    version = build_info::VERSION,
    disable_version_flag = true,
    after_help = EXAMPLES,
    override_usage = "oc-mirror -c FILE file://DIR\n       \
                      oc-mirror -c FILE --from file://DIR docker://REGISTRY[/NAMESPACE]\n       \
                      oc-mirror -c FILE --workspace file://DIR docker://REGISTRY[/NAMESPACE]\n       \
                      oc-mirror COMMAND",
    subcommand_value_name = "COMMAND"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) mirror: MirrorArguments,
    /// Log level: error, info, debug or trace
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "LEVEL",
        help_heading = OUTPUT
    )]
    pub(crate) log_level: LogLevel,
    /// Accepted, and not needed: this is version 2
    #[arg(long, global = true, hide = true)]
    pub(crate) v2: bool,
    #[command(flatten)]
    pub(crate) ignored: Ignored,
    /// Print the version and exit
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
    /// A warning about a former spelling in this command line
    #[arg(skip)]
    pub(crate) former: Option<String>,
}

const OUTPUT: &str = "Output";
const ARCHIVE: &str = "Archive";
const REGISTRIES: &str = "Registries, both sides";
const SPEED: &str = "Performance and retries";

/// How much is written to the console and the log file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    #[default]
    Info,
    Debug,
    Trace,
}

/// How the report is written to standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    #[default]
    Text,
    Json,
}

/// In which format archives are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArchiveFormatArgument {
    #[default]
    Landfall,
    OcMirrorV2,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MirrorArguments {
    /// Destination: file://DIR, docker://REGISTRY[/NAMESPACE], or s3://BUCKET[/PREFIX] for archives in an object store
    #[arg(value_name = "DESTINATION", num_args = 0..)]
    pub(crate) destinations: Vec<String>,
    /// The image set configuration
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Execute a stored plan (from working-dir/plans or from a dry run) instead of planning from a configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Disk to mirror: the transferred directory, with archives or a whole workspace, or s3://BUCKET[/PREFIX] with archives
    #[arg(long, value_name = "file://DIR")]
    pub(crate) from: Option<String>,
    /// Mirror to mirror: directory for manifests, plans and logs. With s3://: directory of the workspace and its archives
    #[arg(long, value_name = "file://DIR")]
    pub(crate) workspace: Option<String>,
    /// Mirror to mirror: also keep all content in the workspace, instead of copying it directly
    #[arg(long, requires = "workspace")]
    pub(crate) through_workspace: bool,
    /// Write the plan below working-dir/dry-run; change nothing else
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// As --dry-run, with a line in mapping.txt for each manifest of a manifest list
    #[arg(long)]
    pub(crate) dry_run_manifest_lists: bool,
    /// Fail if a dry run does not find an image
    #[arg(long)]
    pub(crate) strict_dry_run: bool,
    /// Do not mirror signatures, attestations, SBOMs and referrers
    #[arg(long)]
    pub(crate) remove_signatures: bool,
    /// Request signatures again for images that are already in the workspace
    #[arg(long)]
    pub(crate) refresh_signatures: bool,
    /// Mirror only images whose signatures satisfy the trust policy
    #[arg(long)]
    pub(crate) secure_policy: bool,
    /// The trust policy to enforce with --secure-policy [default: ~/.config/containers/policy.json, else /etc/containers/policy.json]
    #[arg(long, value_name = "FILE")]
    // Empty means none, as ever; a path must not be empty.
    pub(crate) policy: Option<OsString>,
    /// Mirror the release in platform.release even without a valid signature; recorded in the report and the audit log
    #[arg(long)]
    pub(crate) ignore_release_signature: bool,
    /// Maximum number of path components of a repository at the destination; further ones are joined with '-' (0: no limit)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_nested_paths: usize,
    /// Also write an ImageContentSourcePolicy, for clusters before 4.13
    #[arg(long)]
    pub(crate) icsp: bool,
    /// Omit bundles from mirrored catalogs if an image that they need is not available
    #[arg(long)]
    pub(crate) skip_broken_bundles: bool,
    /// Also render charts with this Helm program, and report images that only one of the two finds
    #[arg(long, value_name = "PATH")]
    pub(crate) helm_binary: Option<PathBuf>,
    /// Reject keys of the configuration that oc-mirror v2 does not know
    #[arg(long)]
    pub(crate) strict_compat: bool,

    /// Include in the archive all content since this date (yyyy-MM-dd) instead of since the last run
    #[arg(long, value_name = "DATE", help_heading = ARCHIVE)]
    pub(crate) since: Option<String>,
    /// Do not write an archive; only fill the workspace
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) no_archive: bool,
    /// Format of the archive: landfall, or oc-mirror-v2 if the disconnected side still runs oc-mirror v2
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT",
        help_heading = ARCHIVE
    )]
    pub(crate) archive_format: ArchiveFormatArgument,
    /// Sign the archive with this cosign private key (cosign.key; password in $COSIGN_PASSWORD); writes mirror_NNNNNN.tar.sig
    #[arg(long, value_name = "KEY", help_heading = ARCHIVE)]
    pub(crate) sign_archive: Option<PathBuf>,
    /// Disk to mirror: push only archives that are signed with this public key (cosign.pub)
    #[arg(long, value_name = "KEY", help_heading = ARCHIVE)]
    pub(crate) verify_archive: Option<PathBuf>,
    /// Remove archives of runs before this one, once the new archive is complete
    #[arg(long, value_name = "RUN", help_heading = ARCHIVE)]
    pub(crate) remove_archives_before: Option<u64>,
    /// If --until stops the run, write an archive of what was transferred; the disconnected side reads it with --allow-incomplete
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) archive_partial: bool,
    /// Push what is complete in archives of a paused or interrupted run
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) allow_incomplete: bool,
    /// Fail if a blob is larger than archiveSize; effective only with --archive-format oc-mirror-v2, as other archives split blobs
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) strict_archive: bool,

    /// Credentials file of podman or docker [default: $REGISTRY_AUTH_FILE, else the default files of podman and docker]
    #[arg(long, value_name = "FILE", help_heading = REGISTRIES)]
    pub(crate) authfile: Option<PathBuf>,
    /// Directory that configures lookaside servers for signatures; read with --secure-policy [default: ~/.config/containers/registries.d, else /etc/containers/registries.d]
    #[arg(long = "registries.d", value_name = "DIR", help_heading = REGISTRIES)]
    pub(crate) registries_d: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) destination: DestinationArguments,

    /// Images to copy at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_once, help_heading = SPEED)]
    pub(crate) parallel_images: u16,
    /// Layers to copy at the same time for each image
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_once, help_heading = SPEED)]
    pub(crate) parallel_layers: u16,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    #[command(flatten)]
    pub(crate) shards: ShardArguments,
    #[command(flatten)]
    pub(crate) retry: RetryArguments,
    #[command(flatten)]
    pub(crate) pace: PaceArguments,
    /// Maximum time for one blob or manifest, including retries [default: none; --stall-timeout ends stalled connections]
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = go_syntax::parse_duration,
        help_heading = SPEED
    )]
    pub(crate) image_timeout: Option<Duration>,

    /// If another process uses the workspace, wait for it instead of failing
    #[arg(long, help_heading = SPEED)]
    pub(crate) wait: bool,
    /// Print only errors and the report, no progress
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// Output format of the report: text or json
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT",
        help_heading = OUTPUT
    )]
    pub(crate) output: ReportFormat,

    /// Write metrics of the run to this file in the Prometheus text format, every 5 seconds
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) metrics_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) refused: Refused,
}

fn at_once(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a number from 1 to 65535".into()),
        Ok(number) => Ok(number),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Convert a workspace, cache and history of oc-mirror v2; the old files are not changed
    Migrate(MigrateArguments),
    /// Delete images from a registry, in two phases: write a plan, execute it
    Delete(Box<DeleteArguments>),
    /// Delete images that are no longer needed from a registry, after confirmation
    Prune(Box<PruneArguments>),
    /// Serve a workspace as a read-only registry, with the names that images have at a destination
    Serve(ServeArguments),
    /// Open a workspace in a browser: configurations, runs, progress, images, archives
    Console(ConsoleArguments),
    /// Show runs of a workspace, progress and missing content; pause, resume or stop a run
    Status(StatusArguments),
    /// Verify the digests and references of a workspace, archives or a registry
    Verify(Box<VerifyArguments>),
    /// Verify a workspace, and download what is damaged or missing
    Repair(Box<RepairArguments>),
    /// Remove content of a workspace that is no longer referenced
    Gc(GcArguments),
    /// List releases, operators, charts and images that can be mirrored
    List(ListArguments),
    /// Show the upgrade path from one version to another
    UpgradePath(UpgradePathArguments),
    /// Write a starting configuration, or one for the next upgrade of a cluster
    Init(InitArguments),
    /// Write the inventory of a cluster: release, channel, operators, catalogs, mirrors
    #[cfg(feature = "cluster")]
    Inventory(InventoryArguments),
    /// Mirror with pods of a cluster: write or create Jobs; follow, inspect and cancel them
    #[cfg(feature = "cluster")]
    Job(Box<JobArguments>),
    /// Work as a pod of a run in a cluster
    #[command(hide = true)]
    Shard(Box<PodArguments>),
    /// Print the version
    Version(VersionArguments),
    /// Print a completion script for a shell
    Completion(CompletionArguments),
    /// Write man pages and the command reference
    #[command(hide = true)]
    GenerateDocs {
        /// Directory to write man/ and reference/ into
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    #[command(hide = true, disable_help_flag = true)]
    Describe(Anything),
}

impl Command {
    /// The command's name, when it is known and not part of this version.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        match self {
            Self::Describe(_) => Some("describe"),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The workspace: file://DIR or DIR
    #[arg(value_name = "DIR")]
    pub(crate) dir: String,
    /// Address and port to listen on; by default only this machine can connect
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5000")]
    pub(crate) listen: String,
    /// Certificate chain (PEM), for HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// How the version is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionFormat {
    Json,
    Yaml,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArguments {
    /// Output format: json or yaml [default: one line of text]
    #[arg(short, long, value_enum, hide_possible_values = true, value_name = "FORMAT")]
    pub(crate) output: Option<VersionFormat>,
    /// Print only the version number
    #[arg(long)]
    pub(crate) short: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// Shell: bash, zsh, fish or powershell
    #[arg(hide_possible_values = true)]
    pub(crate) shell: Shell,
}

/// Arguments of a command that is not part of this version: none is checked.
#[derive(Debug, Args)]
pub(crate) struct Anything {
    #[arg(hide = true, num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// The command as it is parsed, completed and documented.
pub(crate) fn command() -> clap::Command {
    fn adapt(command: clap::Command) -> clap::Command {
        go_syntax::adapt(command).mut_subcommands(adapt)
    }
    adapt(Arguments::command()).mut_subcommands(|command| match command.get_name() {
        "migrate" => command,
        // Accepted, because scripts for oc-mirror v2 have it; without effect, so not in the help.
        _ => command.arg(
            clap::Arg::new("cache_dir").long("cache-dir").value_name("DIR").global(true).hide(true),
        ),
    })
}

impl Arguments {
    /// Reads the command line. The error is clap's: a message for the user, or
    /// the help or version text that was requested.
    pub(crate) fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let (arguments, former) = command_line::parse(command(), &line, reject_stray_flags)?;
        Ok(Self { former, ..arguments })
    }
}

/// Rejects flags of a mirror run before the name of a command.
fn reject_stray_flags(
    command: &mut clap::Command,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let Some((name, _)) = matches.subcommand() else { return Ok(()) };
    let stray = command.get_arguments().find(|arg| {
        !arg.is_global_set()
            && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    });
    let Some(arg) = stray else { return Ok(()) };
    let message = format!("{arg} has no meaning for the command `{name}`");
    Err(command.error(clap::error::ErrorKind::ArgumentConflict, message))
}

#[cfg(test)]
mod tests;
