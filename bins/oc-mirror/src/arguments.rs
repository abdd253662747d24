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
  Registries to disk, with an archive to transfer:
    oc-mirror -c isc.yaml file:///data
  From the archive into a registry:
    oc-mirror -c isc.yaml --from file:///data docker://reg.local:5000/ocp
  From registries straight into a registry:
    oc-mirror -c isc.yaml --workspace file:///data docker://reg.local:5000
  The same with four processes:
    oc-mirror -c isc.yaml --workspace file:///data --shards 4 docker://reg.local:5000
  The same with pods of a cluster:
    oc-mirror job -c isc.yaml --workspace file:///data --shards 16 --image REG/oc-mirror:TAG --submit --follow docker://reg.local:5000
  Review a plan, then execute exactly that plan:
    oc-mirror -c isc.yaml --dry-run file:///data
    oc-mirror --plan /data/working-dir/dry-run/plan.json file:///data
  Available releases, and the update path from one to another:
    oc-mirror list releases --version 4.18
    oc-mirror upgrade-path release --from 4.16.3 --to 4.18.9
  What a cluster has, and a configuration for what it needs next:
    oc-mirror inventory --out cluster.json
    oc-mirror init --for cluster.json --out isc.yaml
  What a run is doing, and what is missing:
    oc-mirror status file:///data --follow
  Delete what is no longer needed, first as a plan:
    oc-mirror delete --generate -c disc.yaml --workspace file:///data docker://reg.local:5000/ocp
    oc-mirror delete --delete-yaml-file /data/working-dir/delete/delete-images.yaml docker://reg.local:5000/ocp
  Continue after oc-mirror v2, without downloading its content again:
    oc-mirror migrate file:///old-workspace file:///data
  Check a workspace, and fetch what is damaged:
    oc-mirror verify file:///data
    oc-mirror repair file:///data
  The workspace itself as a read-only registry:
    oc-mirror serve file:///data --listen 127.0.0.1:5000
  The workspace in a browser:
    oc-mirror console file:///data

Exit code: 0 done; 1 wrong usage or a general failure; else the sum of what failed:
2 releases, 4 operators, 8 additional images, 16 Helm charts. 32: stopped by --until; run again to continue. 64: damage found. 130: interrupted.";

/// Mirrors container images across an air gap: registry to disk, disk to registry, registry to registry
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
    /// Level of the log: error, info, debug or trace
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
const SPEED: &str = "Speed and retries";

/// How much the console and the log file say.
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
    /// Where to: file://DIR, docker://REGISTRY[/NAMESPACE], or s3://BUCKET[/PREFIX] for archives in an object store
    #[arg(value_name = "DESTINATION", num_args = 0..)]
    pub(crate) destinations: Vec<String>,
    /// The image set configuration
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Execute a stored plan, of working-dir/plans or of a dry run, instead of making one from a configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Disk to mirror: the transferred directory, with archives or a whole workspace, or s3://BUCKET[/PREFIX] with archives
    #[arg(long, value_name = "file://DIR")]
    pub(crate) from: Option<String>,
    /// Mirror to mirror: the directory that keeps manifests, plan and log; with s3://, the directory of the workspace and its archives
    #[arg(long, value_name = "file://DIR")]
    pub(crate) workspace: Option<String>,
    /// Mirror to mirror: keep all content in the workspace too, instead of copying it directly
    #[arg(long, requires = "workspace")]
    pub(crate) through_workspace: bool,
    /// Write what would be done below working-dir/dry-run; change nothing else
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The same, with a mapping line for each manifest of a list
    #[arg(long)]
    pub(crate) dry_run_manifest_lists: bool,
    /// Exit with a failure when a dry run cannot find an image
    #[arg(long)]
    pub(crate) strict_dry_run: bool,
    /// Leave signatures, attestations, SBOMs and referrers behind
    #[arg(long)]
    pub(crate) remove_signatures: bool,
    /// Request signatures again for images that are present already
    #[arg(long)]
    pub(crate) refresh_signatures: bool,
    /// Mirror only images that a trust policy accepts, by their signatures
    #[arg(long)]
    pub(crate) secure_policy: bool,
    /// The trust policy to enforce with --secure-policy [default: ~/.config/containers/policy.json, else /etc/containers/policy.json]
    #[arg(long, value_name = "FILE")]
    // Empty means none, as ever; a path must not be empty.
    pub(crate) policy: Option<OsString>,
    /// Mirror the release named by platform.release without a valid signature; noted in report and audit log
    #[arg(long)]
    pub(crate) ignore_release_signature: bool,
    /// Longest path of a repository at the destination; further parts are joined by '-' (0: no limit)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_nested_paths: usize,
    /// Also write an ImageContentSourcePolicy, for clusters before 4.13
    #[arg(long)]
    pub(crate) icsp: bool,
    /// Leave bundles out of mirrored catalogs when an image that they need is unavailable
    #[arg(long)]
    pub(crate) skip_broken_bundles: bool,
    /// Also render charts with this Helm program, and report images that only one of both finds
    #[arg(long, value_name = "PATH")]
    pub(crate) helm_binary: Option<PathBuf>,
    /// Reject keys of the configuration that other readers of these files do not support
    #[arg(long)]
    pub(crate) strict_compat: bool,

    /// Build the archive on the last run before this day (yyyy-MM-dd) instead of on the last run
    #[arg(long, value_name = "DATE", help_heading = ARCHIVE)]
    pub(crate) since: Option<String>,
    /// Write no archive, only the workspace
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) no_archive: bool,
    /// Who reads the archive: landfall, or oc-mirror-v2 for sites that still run oc-mirror v2 on the other side
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT",
        help_heading = ARCHIVE
    )]
    pub(crate) archive_format: ArchiveFormatArgument,
    /// Sign the archive with this private key of cosign (cosign.key; password in $COSIGN_PASSWORD): writes mirror_NNNNNN.tar.sig
    #[arg(long, value_name = "KEY", help_heading = ARCHIVE)]
    pub(crate) sign_archive: Option<PathBuf>,
    /// Disk to mirror: push only archives that are signed with this public key (cosign.pub)
    #[arg(long, value_name = "KEY", help_heading = ARCHIVE)]
    pub(crate) verify_archive: Option<PathBuf>,
    /// Remove archives of runs before this one, once the new archive is complete
    #[arg(long, value_name = "RUN", help_heading = ARCHIVE)]
    pub(crate) remove_archives_before: Option<u64>,
    /// Write an archive of what has arrived when --until stops the run; the other side reads it with --allow-incomplete
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) archive_partial: bool,
    /// Push archives of a paused or interrupted run as far as they go
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) allow_incomplete: bool,
    /// Fail if a blob is larger than archiveSize; has an effect only with --archive-format oc-mirror-v2, as other archives split blobs
    #[arg(long, help_heading = ARCHIVE)]
    pub(crate) strict_archive: bool,

    /// Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]
    #[arg(long, value_name = "FILE", help_heading = REGISTRIES)]
    pub(crate) authfile: Option<PathBuf>,
    /// Directory with the addresses of lookaside servers for signatures; read with --secure-policy [default: ~/.config/containers/registries.d, else /etc/containers/registries.d]
    #[arg(long = "registries.d", value_name = "DIR", help_heading = REGISTRIES)]
    pub(crate) registries_d: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) destination: DestinationArguments,

    /// Images copied at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = at_once, help_heading = SPEED)]
    pub(crate) parallel_images: u16,
    /// Layers copied at once, of each image
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
    /// Longest time for one blob or manifest, retries included [default: none; a stalled connection ends by itself]
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = go_syntax::parse_duration,
        help_heading = SPEED
    )]
    pub(crate) image_timeout: Option<Duration>,

    /// Wait while another process uses the workspace, instead of ending with an error
    #[arg(long, help_heading = SPEED)]
    pub(crate) wait: bool,
    /// No progress; only errors and the report
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// How the report is written to standard output: text or json
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

    /// Keep metrics of the run in this file, in the text format of Prometheus; it is rewritten every 5 seconds
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
    /// Convert a workspace, cache and history of oc-mirror v2; the old files are only read
    Migrate(MigrateArguments),
    /// Delete images from a registry: first a plan, then its execution
    Delete(Box<DeleteArguments>),
    /// Delete what is no longer needed from a registry, after a confirmation
    Prune(Box<PruneArguments>),
    /// Serve a workspace as a read-only registry, under the names a target would have
    Serve(ServeArguments),
    /// Work with a workspace in a browser: configurations, runs and their progress, images, archives
    Console(ConsoleArguments),
    /// Show the runs of a workspace, live progress, and what is missing; pause, resume or stop a run
    Status(StatusArguments),
    /// Check a workspace, archives or a registry: every byte against its digest, every reference
    Verify(Box<VerifyArguments>),
    /// Check a workspace, and fetch only what is damaged or missing
    Repair(Box<RepairArguments>),
    /// Free content of a workspace that nothing needs any more
    Gc(GcArguments),
    /// List what there is to mirror
    List(ListArguments),
    /// Show how a cluster gets from one version to another
    UpgradePath(UpgradePathArguments),
    /// Write a configuration to start from, or one for what a cluster needs next
    Init(InitArguments),
    /// Write an inventory of a cluster: release, channel, operators, catalogs, mirrors
    #[cfg(feature = "cluster")]
    Inventory(InventoryArguments),
    /// Mirror with pods of a cluster: write or create Jobs, follow, inspect and cancel them
    #[cfg(feature = "cluster")]
    Job(Box<JobArguments>),
    /// Work as a pod of a run in a cluster
    #[command(hide = true)]
    Shard(Box<PodArguments>),
    /// Print the version
    Version(VersionArguments),
    /// Print a completion script for a shell
    Completion(CompletionArguments),
    /// Write man pages and the reference of flags
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
    /// Address and port to listen on; by default only this machine
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
    /// json or yaml, instead of a line of text
    #[arg(short, long, value_enum, hide_possible_values = true, value_name = "FORMAT")]
    pub(crate) output: Option<VersionFormat>,
    /// Only the number
    #[arg(long)]
    pub(crate) short: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// bash, zsh, fish or powershell
    #[arg(hide_possible_values = true)]
    pub(crate) shell: Shell,
}

/// Arguments of a command that is not part of this version: none is looked at.
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
    /// the help or version text that was asked for.
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
