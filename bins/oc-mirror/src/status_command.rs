//! `oc-mirror status`: the runs of a workspace, the one in progress, and what is missing. Pauses,
//! resumes and stops a run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use mirror_plan::Plan;
use serde::Serialize;
use workspace::{
    AuditedOutcome, ControlRequest, ControlState, FailedImage, Holder, JournalEvent, JournalLine,
    JournalReader, RunProgress, RunRecord, RunStatus, Workspace,
};

use crate::list_format::{ListFormat, rendered};
use crate::quantity;
use crate::route;

/// How often a run is checked with `--follow`.
const INTERVAL: Duration = Duration::from_secs(1);
/// Images that are listed one by one.
const SHOWN: usize = 10;

/// Shows the runs of a workspace, live progress, and what is missing and why
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// The workspace
    #[arg(value_name = "file://DIR")]
    dir: String,
    /// Output format: text, json or yaml
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    output: ListFormat,
    /// Print the progress of the run until it ends
    #[arg(long)]
    follow: bool,
    /// Pause the run: all transfers wait until it is resumed
    #[arg(long, group = "request")]
    pause: bool,
    /// Resume a paused run
    #[arg(long, group = "request")]
    resume: bool,
    /// Stop the run as Ctrl-C does; the next run continues
    #[arg(long, group = "request")]
    stop: bool,
}

/// What a workspace is doing and what it has done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    workspace: String,
    /// The process that uses the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Holder>,
    /// The newest run with its progress, or with its result if it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<RunProgress>,
    bytes_left: u64,
    /// Newest first.
    runs: Vec<RunRecord>,
    /// What the newest run could not mirror.
    missing: Vec<FailedImage>,
    /// Images that the newest run did not reach before it ended.
    not_reached: Vec<String>,
}

/// Shows the status, or sends a request to the run.
pub(crate) fn status(arguments: &StatusArguments) -> ExitCode {
    match try_status(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn try_status(arguments: &StatusArguments) -> anyhow::Result<()> {
    let dir =
        route::served_directory(&arguments.dir).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let workspace = Workspace::open(&dir);
    if !workspace.working_dir().is_dir() {
        bail!("{} is not a workspace: it has no folder working-dir", dir.display());
    }
    let request = match (arguments.pause, arguments.resume, arguments.stop) {
        (true, ..) => Some(ControlRequest::Pause),
        (_, true, _) => Some(ControlRequest::Resume),
        (.., true) => Some(ControlRequest::Stop),
        _ => None,
    };
    if let Some(request) = request {
        let text = match workspace.control(request)? {
            ControlState::Running => "the run continues\n",
            ControlState::Paused => "the run is paused; resume it with --resume\n",
            ControlState::Stopping => "the run is stopping; the same command continues it\n",
        };
        command_line::write_result(text.as_bytes())?;
    } else if !arguments.follow {
        let status = read(&workspace, &dir)?;
        let text = rendered(arguments.output, &status, || status_text(&status))?;
        command_line::write_result(text.as_bytes())?;
    }
    if arguments.follow {
        follow(&workspace, &dir, arguments.output)?;
    }
    Ok(())
}

fn read(workspace: &Workspace, dir: &Path) -> anyhow::Result<Status> {
    let reading = || format!("reading the workspace {}", dir.display());
    let mut runs = workspace.runs().with_context(reading)?;
    runs.reverse();
    let mut not_reached = Vec::new();
    let newest = match runs.first() {
        Some(run) => {
            let mut progress = RunProgress { run: run.number, ..RunProgress::default() };
            let mut journal = JournalReader::new(&workspace.journal_path(run.number));
            let lines = journal.read()?;
            lines.iter().for_each(|line| progress.apply(line));
            if matches!(run.status, RunStatus::Interrupted | RunStatus::Paused) {
                not_reached = unreached(workspace, run, &lines);
            }
            Some(progress)
        }
        None => None,
    };
    let is_complete = runs.first().is_none_or(|run| run.status == RunStatus::Complete);
    let bytes_left = newest.as_ref().filter(|_| !is_complete).map_or(0, RunProgress::bytes_left);
    Ok(Status {
        workspace: dir.display().to_string(),
        holder: workspace.holder().with_context(reading)?,
        newest,
        bytes_left,
        missing: runs.first().map(|run| run.failures.clone()).unwrap_or_default(),
        not_reached,
        runs,
    })
}

/// The images of the plan of a run that its journal has no outcome of. A run that ended before it
/// had a plan reached nothing that could be named.
fn unreached(workspace: &Workspace, run: &RunRecord, lines: &[JournalLine]) -> Vec<String> {
    let plan = run.plan.and_then(|digest| {
        let text = std::fs::read_to_string(workspace.plan_path(&digest)).ok()?;
        Plan::from_json(&text).ok()
    });
    let ended: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| match &line.event {
            JournalEvent::Image(image) if image.outcome != AuditedOutcome::NotReached => {
                Some(image.source.as_str())
            }
            _ => None,
        })
        .collect();
    let images = plan.into_iter().flat_map(|plan| plan.images);
    let origins: BTreeSet<String> = images.map(|image| image.origin.to_string()).collect();
    origins.into_iter().filter(|origin| !ended.contains(origin.as_str())).collect()
}

/// Prints a line whenever the run has got further, until it ends.
fn follow(workspace: &Workspace, dir: &Path, format: ListFormat) -> anyhow::Result<()> {
    let status = read(workspace, dir)?;
    let (Some(_), Some(run)) = (&status.holder, status.runs.first()) else {
        bail!("no run is in progress in {}", dir.display());
    };
    let mut journal = JournalReader::new(&workspace.journal_path(run.number));
    let mut progress = RunProgress { run: run.number, ..RunProgress::default() };
    let mut printed = None;
    loop {
        let is_running = workspace.is_locked()?;
        journal.read()?.iter().for_each(|line| progress.apply(line));
        if printed.as_ref() != Some(&progress) {
            let text = match format {
                ListFormat::Text => format!("{}\n", progress_text(&progress)),
                ListFormat::Json | ListFormat::Yaml => {
                    format!("{}\n", serde_json::to_string(&progress)?)
                }
            };
            command_line::write_result(text.as_bytes())?;
            printed = Some(progress.clone());
        }
        if progress.status.is_some() || !is_running {
            return Ok(());
        }
        std::thread::sleep(INTERVAL);
    }
}

fn status_text(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let is_running = status.runs.first().is_some_and(|run| run.status == RunStatus::Running);
    match (&status.holder, &status.newest) {
        (Some(holder), Some(progress)) if is_running => {
            let _ = writeln!(
                text,
                "Run {} is in progress: process {} on {} since {}",
                progress.run, holder.pid, holder.host, holder.started
            );
            let _ = writeln!(text, "  {}", progress_text(progress));
        }
        (Some(holder), _) => {
            let _ = writeln!(
                text,
                "In use by process {} on {} since {}: {}",
                holder.pid, holder.host, holder.started, holder.command
            );
        }
        (None, _) => text.push_str("No run is in progress.\n"),
    }
    let Some(last) = status.runs.first() else {
        text.push_str("No run is recorded.\n");
        return text;
    };
    let _ = writeln!(text, "\nRUN     MODE            STARTED               STATUS       TARGET");
    for run in &status.runs {
        let _ = writeln!(
            text,
            "{:<7} {:<15} {:<21} {:<12} {}",
            run.number,
            name(&run.mode),
            format!("{:.0}", run.started),
            name(&run.status),
            run.target.as_deref().unwrap_or("-")
        );
    }
    let stopped = match last.status {
        RunStatus::Interrupted => Some("was interrupted"),
        RunStatus::Paused => Some("was paused by --until"),
        _ => None,
    };
    if let (None, Some(stopped)) = (&status.holder, stopped) {
        let left = quantity::bytes(status.bytes_left);
        let _ = writeln!(
            text,
            "\nRun {} {stopped}, with {left} left: the same command continues it.",
            last.number
        );
    }
    if !status.missing.is_empty() {
        let _ = writeln!(text, "\nMissing after run {}:", last.number);
        for image in &status.missing {
            let _ = writeln!(text, "  {}: {}", image.origin, image.error);
        }
    }
    if !status.not_reached.is_empty() {
        let _ = writeln!(text, "\nNot reached by run {}:", last.number);
        for image in status.not_reached.iter().take(SHOWN) {
            let _ = writeln!(text, "  {image}");
        }
        if let Some(more) = status.not_reached.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more; -o json lists all");
        }
    }
    text
}

fn progress_text(progress: &RunProgress) -> String {
    let by_timetable = progress.pace.as_ref().filter(|_| progress.is_paused_by_timetable);
    let mut text = match (&progress.stage, progress.is_paused) {
        (_, false) if by_timetable.is_some() => by_timetable.cloned().unwrap_or_default(),
        (_, true) => "paused".to_owned(),
        (Some(stage), false) => stage.clone(),
        (None, false) => "starting".to_owned(),
    };
    if let Some(status) = &progress.status {
        text = name(status);
    }
    let done = progress.copied + progress.present + progress.failed;
    let _ = write!(text, ": {done} of {} images", progress.images.max(done));
    if progress.failed > 0 {
        let _ = write!(text, ", {} failed", progress.failed);
    }
    let _ = write!(
        text,
        ", {} of {}",
        quantity::bytes(progress.bytes_moved),
        quantity::bytes(progress.bytes_planned.max(progress.bytes_moved))
    );
    let is_waiting = progress.is_paused || progress.is_paused_by_timetable;
    if let (Some(rate), None, false) =
        (progress.rate().filter(|rate| *rate > 0), progress.status, is_waiting)
    {
        let left = Duration::from_secs(progress.bytes_left() / rate);
        let _ = write!(text, ", {}/s, {} left", quantity::bytes(rate), quantity::time(left));
    }
    text
}

/// The name of a variant, as JSON has it.
fn name(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
