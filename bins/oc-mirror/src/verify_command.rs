//! `oc-mirror verify`: every byte against its digest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use mirror::{TargetProblem, verify_target};
use mirror_plan::Target;
use registry::{Client, Side};
use serde::Serialize;
use workspace::archive::{ArchiveFinding, ArchiveSeverity, Archives};
use workspace::{Need, Verification, Workspace};

use crate::lookup_arguments::{all, wait};
use crate::quantity;
use crate::request::ProcessEnvironment;
use crate::retry_arguments::RetryArguments;
use crate::route;
use crate::side_arguments::DestinationArguments;

/// Exit code when content is damaged or missing.
pub(crate) const DAMAGED: u8 = 64;
/// How often progress is printed.
const INTERVAL: Duration = Duration::from_secs(5);

/// Checks a workspace, archives or a registry: every byte against its digest, every reference
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// A workspace (file://DIR), archives (mirror_*.tar), or a registry (docker://REGISTRY[/NAMESPACE])
    #[arg(value_name = "WHAT", required = true, num_args = 1..)]
    what: Vec<String>,
    /// Output format of the result: text or json
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    output: crate::arguments::ReportFormat,
    /// Credentials file of podman or docker [default: $REGISTRY_AUTH_FILE, else the default files of podman and docker]
    #[arg(long, value_name = "FILE")]
    authfile: Option<PathBuf>,
    #[command(flatten)]
    destination: DestinationArguments,
    #[command(flatten)]
    retry: RetryArguments,
}

/// What was checked, and what is wrong with it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Result {
    sound: bool,
    images: usize,
    blobs: usize,
    bytes: u64,
    damaged: Vec<Damaged>,
    /// Records and archives that cannot be used, each with the reason.
    problems: Vec<String>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Damaged {
    what: String,
    problem: String,
    needed_by: Vec<String>,
}

pub(crate) fn verify(arguments: &VerifyArguments, process: &ProcessEnvironment) -> ExitCode {
    let written = try_verify(arguments, process).and_then(|result| {
        let text = match arguments.output {
            crate::arguments::ReportFormat::Text => render(&result),
            crate::arguments::ReportFormat::Json => {
                format!("{}\n", serde_json::to_string_pretty(&result)?)
            }
        };
        command_line::write_result(text.as_bytes())?;
        Ok(result.sound)
    });
    match written {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DAMAGED),
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_verify(arguments: &VerifyArguments, process: &ProcessEnvironment) -> anyhow::Result<Result> {
    let files: Vec<PathBuf> = arguments.what.iter().filter_map(|what| archive_file(what)).collect();
    if files.len() == arguments.what.len() {
        return verify_archives(files);
    }
    let [what] = &arguments.what[..] else {
        bail!("expected one workspace, one registry, or archive files only, found several of them");
    };
    if what.starts_with("docker://") {
        return verify_registry(arguments, process, what);
    }
    let directory =
        route::served_directory(what).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let progress = Progress::default();
    let found = Workspace::open(&directory).verify(&|done, of| progress.tell(done, of))?;
    Ok(of_workspace(&found))
}

/// A path that ends in `.tar`, with or without `file://`.
fn archive_file(what: &str) -> Option<PathBuf> {
    let path = PathBuf::from(what.strip_prefix("file://").unwrap_or(what));
    path.extension().is_some_and(|extension| extension == "tar").then_some(path)
}

fn of_workspace(found: &Verification) -> Result {
    let sound = found.is_sound();
    let damaged = found.damaged.iter().map(|blob| Damaged {
        what: format!("blob {}", blob.digest),
        problem: blob.damage.to_string(),
        needed_by: blob.needed_by.iter().map(Need::to_string).collect(),
    });
    let records = found.records.iter().map(|(path, why)| format!("{}: {why}", path.display()));
    let (problems, notes) = sorted(&found.archives);
    Result {
        sound,
        images: found.images,
        blobs: found.blobs,
        bytes: found.bytes,
        damaged: damaged.collect(),
        problems: records.chain(problems).collect(),
        notes,
    }
}

/// What is wrong, and what is only worth knowing.
fn sorted(findings: &[ArchiveFinding]) -> (Vec<String>, Vec<String>) {
    let (notes, problems): (Vec<&ArchiveFinding>, Vec<&ArchiveFinding>) =
        findings.iter().partition(|finding| finding.severity() == ArchiveSeverity::Note);
    let texts = |list: Vec<&ArchiveFinding>| list.into_iter().map(ToString::to_string).collect();
    (texts(problems), texts(notes))
}

fn verify_archives(files: Vec<PathBuf>) -> anyhow::Result<Result> {
    let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        // Before anything is read: a name that was mistyped is not a damaged archive.
        std::fs::metadata(&file).with_context(|| format!("reading {}", file.display()))?;
        let folder = file.parent().map(PathBuf::from).unwrap_or_default();
        folders.entry(folder).or_default().push(file);
    }
    let mut result = Result { sound: true, ..Result::default() };
    for (folder, files) in folders {
        let archives = Archives::of_files(&folder, files);
        let total = archives.bytes_to_verify();
        let progress = Progress::default();
        let mut findings = archives.findings().to_vec();
        findings.extend(archives.verify(&|done| progress.tell(done, total)));
        findings.sort();
        findings.dedup();
        let (problems, notes) = sorted(&findings);
        result.images += archives.images().count();
        result.blobs += archives.indexes().flat_map(|index| index.own_blobs()).count();
        result.bytes += total;
        result.problems.extend(problems);
        result.notes.extend(notes);
    }
    result.sound = result.problems.is_empty();
    Ok(result)
}

fn verify_registry(
    arguments: &VerifyArguments,
    process: &ProcessEnvironment,
    what: &str,
) -> anyhow::Result<Result> {
    let target: Target = what.parse()?;
    let authfile = arguments.authfile.as_ref().filter(|path| !path.as_os_str().is_empty());
    let side = arguments.destination.side(authfile).map_err(|problems| all(&problems))?;
    let client = Client::open(registry::Settings {
        retry: arguments.retry.retry(),
        timeouts: arguments.retry.timeouts(),
        ..side.settings(Side::Destination, process)
    })?;
    let progress = Progress::default();
    let found = wait(async {
        Ok(verify_target(&client, &target, &|done, of| progress.tell(done, of)).await?)
    })?;
    let mut damaged: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for TargetProblem { image, problem } in found.problems {
        damaged.entry(problem).or_default().push(image);
    }
    Ok(Result {
        sound: damaged.is_empty(),
        images: found.tags,
        blobs: found.blobs,
        bytes: found.bytes,
        damaged: damaged
            .into_iter()
            .map(|(problem, needed_by)| Damaged { what: target.to_string(), problem, needed_by })
            .collect(),
        ..Result::default()
    })
}

/// Prints its progress at intervals.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<Option<Instant>>);

impl Progress {
    pub(crate) fn tell(&self, done: u64, of: u64) {
        // Another thread is reporting.
        let Ok(mut last) = self.0.try_lock() else { return };
        let now = Instant::now();
        let begun = *last.get_or_insert(now);
        if now.duration_since(begun) >= INTERVAL {
            *last = Some(now);
            tracing::info!("{} of {} checked", quantity::bytes(done), quantity::bytes(of));
        }
    }
}

fn render(result: &Result) -> String {
    let mut text = String::new();
    for Damaged { what, problem, needed_by } in &result.damaged {
        let _ = writeln!(text, "damaged: {what}: {problem}");
        for image in needed_by {
            let _ = writeln!(text, "  needed by {image}");
        }
    }
    for problem in &result.problems {
        let _ = writeln!(text, "damaged: {problem}");
    }
    for note in &result.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(
        text,
        "{} in {} and {} checked: {}",
        quantity::bytes(result.bytes),
        quantity::count(result.blobs, "blob"),
        quantity::count(result.images, "image"),
        match result.damaged.len() + result.problems.len() {
            0 => "no damage found".to_owned(),
            found => format!("{} found", quantity::count(found, "problem")),
        }
    );
    if !result.damaged.is_empty() && io::stdout().is_terminal() {
        text.push_str("hint: `oc-mirror repair file://DIR` replaces damaged content\n");
    }
    text
}
