//! `oc-mirror repair`: replaces damaged and missing content of a workspace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use mirror::{NotRepaired, Repaired, repair_workspace};
use mirror_plan::Mode;
use oci::Digest;
use registry::{Client, Side};
use timetable::BytesPerSecond;
use workspace::{Need, RecordedFile, Verification, Workspace};

use crate::arguments::Arguments;
use crate::console::Console;
use crate::log::Log;
use crate::lookup_arguments::{all, wait};
use crate::mirror_command::{self, OfV2};
use crate::pace_arguments::{limiter, parse_rate};
use crate::quantity;
use crate::request::ProcessEnvironment;
use crate::retry_arguments::RetryArguments;
use crate::route;
use crate::side_arguments::SourceArguments;
use crate::verify_command::{DAMAGED, Progress};

/// Checks a workspace, and fetches only what is damaged or missing
#[derive(Debug, Args)]
pub(crate) struct RepairArguments {
    /// The workspace
    #[arg(value_name = "file://DIR")]
    dir: String,
    /// The image set configuration to replay when content must be collected again [default: those of the recorded runs]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Credentials file of podman or docker [default: $REGISTRY_AUTH_FILE, else the default files of podman and docker]
    #[arg(long, value_name = "FILE")]
    authfile: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArguments,
    /// Most bytes per second of all transfers together, such as 20MiB, 500kB or 10Mbit [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    limit_rate: Option<BytesPerSecond>,
    #[command(flatten)]
    retry: RetryArguments,
}

/// Repairs a workspace. Content that can be fetched by its digest is; what only a run can build
/// again, such as a filtered catalog, makes its configuration run again, without an archive.
pub(crate) fn repair(
    arguments: &RepairArguments,
    command_line: &[OsString],
    process: &ProcessEnvironment,
    log: &Log,
    console: &Console,
) -> ExitCode {
    match try_repair(arguments, command_line, process, log, console) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_repair(
    arguments: &RepairArguments,
    command_line: &[OsString],
    process: &ProcessEnvironment,
    log: &Log,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let directory =
        route::served_directory(&arguments.dir).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let workspace = Workspace::open(&directory);
    anyhow::ensure!(
        workspace.exists(),
        "{} is not a workspace: expected blobs, images and working-dir in it",
        directory.display()
    );
    let client = client(arguments, process)?;
    let line: Vec<String> =
        command_line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let lock = workspace.lock(&line)?;
    tracing::info!("checking {}", directory.display());
    let progress = Progress::default();
    let Verification { damaged, records, archives, .. } =
        workspace.verify(&|done, of| progress.tell(done, of))?;
    for (path, why) in &records {
        tracing::warn!("removing the record {}: {why}", path.display());
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", path.display()));
            }
            _ => {}
        }
    }
    let found = damaged.len();
    let repaired = wait(async {
        let report_replaced = |digest: &Digest| tracing::info!("replacing {digest}");
        Ok(repair_workspace(&client, &workspace, &lock, damaged, &report_replaced).await)
    })?;
    drop(lock);
    let mut text = summary(found, &repaired);
    for finding in &archives {
        let _ = writeln!(text, "archive: {finding}");
    }
    command_line::write_result(text.as_bytes())?;
    if repaired.failed.is_empty() && records.is_empty() {
        return Ok(if archives.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) });
    }
    let a_run_may_help = repaired.failed.iter().any(|failed| failed.a_run_may_help);
    if !a_run_may_help && records.is_empty() {
        tracing::error!(
            "{} could not be fetched: check the network, the proxy and your credentials, then run \
             the same command again",
            quantity::count(repaired.failed.len(), "blob")
        );
        return Ok(ExitCode::from(DAMAGED));
    }
    replay(arguments, &workspace, process, log, console)?;
    let progress = Progress::default();
    let rest = workspace.verify(&|done, of| progress.tell(done, of))?;
    if rest.is_sound() {
        command_line::write_result(b"the workspace is complete\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    for blob in &rest.damaged {
        let needs: Vec<String> = blob.needed_by.iter().map(Need::to_string).collect();
        tracing::error!("{} is still {}, needed by {}", blob.digest, blob.damage, needs.join(", "));
    }
    Ok(ExitCode::from(DAMAGED))
}

fn client(arguments: &RepairArguments, process: &ProcessEnvironment) -> anyhow::Result<Client> {
    let authfile = arguments.authfile.as_ref().filter(|path| !path.as_os_str().is_empty());
    let side = arguments.source.side(authfile).map_err(|problems| all(&problems))?;
    Ok(Client::open(registry::Settings {
        retry: arguments.retry.retry(),
        timeouts: arguments.retry.timeouts(),
        limits: arguments.limit_rate.iter().map(limiter).collect(),
        ..side.settings(Side::Source, process)
    })?)
}

fn summary(found: usize, repaired: &Repaired) -> String {
    let mut text = String::new();
    for NotRepaired { blob, reasons, .. } in &repaired.failed {
        let _ = writeln!(text, "not replaced: {} ({})", blob.digest, blob.damage);
        for reason in reasons {
            let _ = writeln!(text, "  {reason}");
        }
    }
    let _ = writeln!(
        text,
        "{} damaged or missing: {} replaced ({}), {} removed because nothing needs them, {} left",
        quantity::count(found, "blob"),
        repaired.blobs,
        quantity::bytes(repaired.bytes),
        repaired.removed,
        repaired.failed.len(),
    );
    text
}

/// Runs configurations again, without an archive: existing content is not fetched again.
fn replay(
    arguments: &RepairArguments,
    workspace: &Workspace,
    process: &ProcessEnvironment,
    log: &Log,
    console: &Console,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("creating a directory for configurations")?;
    let configurations = match &arguments.config {
        Some(file) => vec![file.clone()],
        None => recorded(workspace, folder.path())?,
    };
    anyhow::ensure!(
        !configurations.is_empty(),
        "no run of this workspace recorded a configuration: name one with -c FILE"
    );
    for file in configurations {
        tracing::info!("replaying {}", file.display());
        let line: Vec<OsString> = vec![
            "oc-mirror".into(),
            "-c".into(),
            file.into(),
            "--no-archive".into(),
            format!("file://{}", workspace.root().display()).into(),
        ];
        let mut parsed = Arguments::read(line.iter().cloned())?;
        parsed.mirror.source = arguments.source.clone();
        parsed.mirror.authfile = arguments.authfile.clone();
        parsed.mirror.retry = arguments.retry.clone();
        parsed.mirror.pace.limit_rate = arguments.limit_rate;
        // Its report lists what failed; what is left is found by the next check.
        mirror_command::mirror(
            &parsed.mirror,
            OfV2::default(),
            &line,
            process,
            log,
            console.clone(),
        );
    }
    Ok(())
}

/// The newest configuration of each name that filled the workspace. A file that has not changed
/// since is used in place; others are written from the record.
fn recorded(workspace: &Workspace, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut newest: BTreeMap<String, RecordedFile> = BTreeMap::new();
    for run in workspace.runs()? {
        if let (Mode::MirrorToDisk, Some(file)) = (run.mode, run.configuration) {
            newest.insert(file.name.clone(), file);
        }
    }
    let mut files = Vec::new();
    for (position, (name, file)) in newest.into_iter().enumerate() {
        let is_same = fs::read(&name).is_ok_and(|text| Digest::of(&text) == file.digest);
        if is_same {
            files.push(PathBuf::from(name));
            continue;
        }
        let path = folder.join(format!("recorded-{position}.yaml"));
        fs::write(&path, &file.text).with_context(|| format!("writing {}", path.display()))?;
        files.push(path);
    }
    Ok(files)
}
