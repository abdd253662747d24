//! `oc-mirror delete` and `oc-mirror prune`: delete what is no longer needed from a target registry.
//! Deleting takes two commands, a plan and its execution; pruning is both after a confirmation.

mod arguments;
mod configurations;
mod files;
mod find_workspace;
mod run;
mod text;

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use mirror::{Configuration, DeleteRequest, DeleteScope, Failure, PlannedDeletion};
use mirror_plan::Target;

use crate::USAGE;
use crate::log::Log;
use crate::problem::Problem;
use crate::request::ProcessEnvironment;
use files::DeleteFiles;
use run::Runner;

pub(crate) use arguments::{DeleteArguments, PruneArguments};
pub(crate) use find_workspace::remember;

/// Why a command ends without a report.
pub(crate) enum Refusal {
    Usage(Vec<Problem>),
    /// What the engine found before anything was changed, with its exit bits.
    Failures(Vec<Failure>),
    Interrupted,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Usage(vec![problem])
    }
}

impl Refusal {
    /// Reports it; the exit code.
    fn tell(&self) -> u8 {
        match self {
            Self::Usage(problems) => {
                problems.iter().for_each(|problem| tracing::error!("{problem}"));
                USAGE
            }
            Self::Failures(failures) => {
                tell(failures);
                failures.iter().fold(0, |all, failure| all | failure.exit.0)
            }
            Self::Interrupted => {
                tracing::error!("interrupted: nothing was changed");
                crate::interrupt::EXIT_CODE
            }
        }
    }
}

fn tell(failures: &[Failure]) {
    for failure in failures {
        match &failure.hint {
            Some(hint) => tracing::error!("{}\n  hint: {hint}", failure.message),
            None => tracing::error!("{}", failure.message),
        }
    }
}

/// Runs `oc-mirror delete` to its exit code.
pub(crate) fn delete(
    arguments: &DeleteArguments,
    line: &[OsString],
    process: &ProcessEnvironment,
    log: &Log,
) -> ExitCode {
    let code = match arguments.generate {
        true => generate(arguments, line, process),
        false => delete_listed(arguments, line, process, log),
    };
    ExitCode::from(code.unwrap_or_else(|refusal| refusal.tell()))
}

/// Phase 1: writes what would be deleted.
fn generate(
    arguments: &DeleteArguments,
    line: &[OsString],
    process: &ProcessEnvironment,
) -> Result<u8, Refusal> {
    let target = arguments.check_generate()?;
    let config = arguments.config.clone().unwrap_or_default();
    let workspace = find_workspace::find(arguments.workspace.as_deref(), None, &target, process)?;
    let configuration = configurations::delete(&config)?;
    let runner = Runner::new(&arguments.common, line, process, &workspace, &target)?;
    let planned = runner.plan(DeleteRequest {
        settings: runner.settings(),
        target: target.clone(),
        what: DeleteScope::Selected(Box::new(configuration.clone())),
        keep: configurations::keep(&arguments.keep)?,
        superseded: arguments.keep.clone(),
        ignored: arguments.ignore_configuration.clone(),
        all: arguments.all,
        signatures: arguments.delete_signatures,
        version_1_names: arguments.delete_v1_images,
    })?;
    let files = DeleteFiles::new(&workspace, arguments.delete_id.as_deref())?;
    files.write(&planned, &configuration.text)?;
    let next =
        format!("oc-mirror delete --delete-yaml-file {} docker://{target}", files.list.display());
    let report = text::planned(&planned, &files, &next);
    written(&arguments.common.output(&planned, &report)?)?;
    tell(&planned.failures);
    Ok(planned.failures.iter().fold(0, |all, failure| all | failure.exit.0))
}

/// Phase 2: deletes what a list names.
fn delete_listed(
    arguments: &DeleteArguments,
    line: &[OsString],
    process: &ProcessEnvironment,
    log: &Log,
) -> Result<u8, Refusal> {
    let (target, list) = arguments.check_execute()?;
    let workspace =
        find_workspace::find(arguments.workspace.as_deref(), Some(&list), &target, process)?;
    let runner = Runner::new(&arguments.common, line, process, &workspace, &target)?;
    let listed = files::read(&list, &target, runner.max_nested_paths())?;
    runner.execute(listed, arguments.options(), log)
}

/// Runs `oc-mirror prune` to its exit code.
pub(crate) fn prune(
    arguments: &PruneArguments,
    line: &[OsString],
    process: &ProcessEnvironment,
    log: &Log,
) -> ExitCode {
    let code = prune_now(arguments, line, process, log);
    ExitCode::from(code.unwrap_or_else(|refusal| refusal.tell()))
}

fn prune_now(
    arguments: &PruneArguments,
    line: &[OsString],
    process: &ProcessEnvironment,
    log: &Log,
) -> Result<u8, Refusal> {
    let target = arguments.check()?;
    let workspace = find_workspace::find(arguments.workspace.as_deref(), None, &target, process)?;
    let mut keep = configurations::keep(&arguments.keep)?;
    let mut replaced = arguments.keep.clone();
    let (what, text) = match &arguments.config {
        Some(path) => {
            let file = configurations::prune(path)?;
            keep.extend(file.mirror);
            replaced.push(path.clone());
            let text = file.prune.text.clone();
            (DeleteScope::Selected(Box::new(file.prune)), text)
        }
        None => (DeleteScope::Unused, kept_files(&keep)),
    };
    let runner = Runner::new(&arguments.common, line, process, &workspace, &target)?;
    let planned = runner.plan(DeleteRequest {
        settings: runner.settings(),
        target: target.clone(),
        what,
        keep,
        superseded: replaced,
        ignored: arguments.ignore_configuration.clone(),
        all: arguments.all,
        signatures: false,
        version_1_names: false,
    })?;
    let files = DeleteFiles::new(&workspace, Some("prune"))?;
    files.write(&planned, &text)?;
    let next = "confirm to delete, or run `oc-mirror delete` with the list";
    let report = text::planned(&planned, &files, next);
    if !planned.failures.is_empty() {
        tell(&planned.failures);
        return Ok(planned.failures.iter().fold(0, |all, failure| all | failure.exit.0));
    }
    if planned.choice.items.is_empty() || !arguments.dry_run {
        // The report of a machine is one document: that of the deletion.
        if !arguments.common.is_json() || planned.choice.items.is_empty() {
            written(&arguments.common.output(&planned, &report)?)?;
        }
    }
    if planned.choice.items.is_empty() {
        return Ok(0);
    }
    if !arguments.dry_run && !arguments.yes && !confirmed(&planned, &target)? {
        return Err(Problem::new("not confirmed: nothing was deleted")
            .with_hint("enter y, or use --yes in scripts")
            .into());
    }
    let listed = files::read(&files.list, &target, runner.max_nested_paths())?;
    runner.execute(listed, arguments.options(), log)
}

fn kept_files(keep: &[Configuration]) -> String {
    keep.iter().map(|kept| format!("# kept by {}\n", kept.path.display())).collect()
}

fn confirmed(planned: &PlannedDeletion, target: &Target) -> Result<bool, Refusal> {
    let images = crate::quantity::count(planned.choice.items.len(), "image");
    let mut error = io::stderr().lock();
    // If the reader closed the pipe, it cannot confirm either.
    let _ = write!(error, "Delete {images} from {target}? [y/N] ");
    let _ = error.flush();
    drop(error);
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    if !io::stdin().is_terminal() {
        let _ = writeln!(io::stderr());
    }
    read.map_err(|error| Problem::new(format!("reading the confirmation: {error}")))?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn written(text: &str) -> Result<(), Refusal> {
    command_line::write_result(text.as_bytes())
        .map_err(|error| Problem::new(format!("writing to standard output: {error}")).into())
}
