//! The command line of `brex-firstboot`: br-ex by NMState at a node's first boot.
//!
//! ```text
//! candidates ─▶ choice ─▶ check ─▶ stage ─▶ (nmstate) ─▶ confirm ─▶ report
//! ```
//!
//! Decisions are in the `first-boot` crate; here are the disk, NetworkManager and the order of
//! changes. The order makes a crash harmless: the attempt is on the disk before the first change,
//! the flag after the last one, and everything in between can be rolled back.

mod api_server;
mod apply;
mod arguments;
mod confirm;
#[cfg(test)]
mod crash_tests;
mod disk;
mod facts_of_boot;
mod gather;
mod journal;
mod layout;
mod node;
mod prepare;
mod recover;
mod reference;
mod report_file;
mod rollback;
mod saved;
mod stage;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use command_line::{Ending as Exit, print_message};
use first_boot::Event;
use first_boot::report::{self, Ending, Entry};
use jiff::Timestamp;

use arguments::{Arguments, Choosing, Command, RootArguments, Waiting};
use disk::Disk;
use node::{Node as _, ThisNode};
use prepare::Rules;

/// Runs the program with this command line, the program's name first.
pub fn run(line: impl Iterator<Item = OsString>) -> ExitCode {
    command_line::run(line, |arguments: Arguments| act(&arguments.command))
}

fn act(command: &Command) -> Result<Exit> {
    use report::Command as Name;
    match command {
        Command::Stage(arguments) => {
            let rules = rules(&arguments.choosing);
            report_on(Name::Stage, (&arguments.choosing).into(), |disk, node, boot, entry| {
                stage::stage(disk, node, boot, &rules, entry)
            })
        }
        Command::Confirm(arguments) => {
            let waiting = &arguments.waiting;
            report_on(Name::Confirm, (&arguments.place).into(), |disk, node, boot, entry| {
                confirm::confirm(disk, node, boot, &awaited(waiting), entry)
            })
        }
        Command::Apply(arguments) => {
            let rules = rules(&arguments.choosing);
            let waiting = &arguments.waiting;
            report_on(Name::Apply, (&arguments.choosing).into(), |disk, node, boot, entry| {
                apply::apply(disk, node, boot, &rules, &awaited(waiting), entry)
            })
        }
        Command::Recover(place) => {
            report_on(Name::Recover, place.into(), |disk, _, boot, entry| {
                recover::recover(disk, boot, entry)
            })
        }
        Command::Gather(arguments) => gather::gather(arguments).map(|()| Exit::Good),
        Command::GenerateDocs { out } => reference::write(out).map(|()| Exit::Good),
    }
}

fn rules(choosing: &Choosing) -> Rules {
    Rules {
        required: choosing.required,
        hostname: choosing.hostname.clone(),
        hostname_timeout: choosing.hostname_timeout,
        tries: choosing.tries,
    }
}

fn awaited(waiting: &Waiting) -> confirm::Waiting {
    confirm::Waiting { patience: waiting.patience, api_server: waiting.api_server.clone() }
}

/// Where a command works, and the name in its reports.
#[derive(Clone, Copy)]
struct Subject<'a> {
    root: &'a Path,
    hostname: Option<&'a str>,
}

impl<'a> From<&'a RootArguments> for Subject<'a> {
    fn from(place: &'a RootArguments) -> Self {
        Self { root: &place.root, hostname: None }
    }
}

impl<'a> From<&'a Choosing> for Subject<'a> {
    fn from(choosing: &'a Choosing) -> Self {
        Self { hostname: choosing.hostname.as_deref(), ..Self::from(&choosing.place) }
    }
}

/// Runs a command and reports its result: a report on the disk, an event in the journal, a
/// line on standard error, and the exit code.
fn report_on(
    command: report::Command,
    subject: Subject<'_>,
    work: impl FnOnce(&Disk, &ThisNode, &str, &mut Entry) -> Result<()>,
) -> Result<Exit> {
    let disk = Disk::new(subject.root);
    let node = ThisNode::new()?;
    let boot_id = facts_of_boot::boot_id(&disk)?;
    let mut entry = Entry::new(command, Timestamp::now().to_string());
    if let Err(error) = work(&disk, &node, &boot_id, &mut entry) {
        entry.result = Ending::Failed;
        entry.message = format!("{error:#}").into();
    }
    entry.at = Timestamp::now().to_string();
    announce(&entry);
    let (result, failed) = (entry.result, entry.result.is_failure());
    let hostname = subject.hostname.map_or_else(|| node.hostname(), str::to_owned);
    // A boot in which there was nothing to do needs no report.
    if result != Ending::NothingToDo
        && let Err(error) = report_file::add(&disk, &boot_id, &hostname, entry)
    {
        print_message(&format!("warning: the report could not be written: {error:#}"));
    }
    Ok(if failed { Exit::Findings } else { Exit::Good })
}

fn announce(entry: &Entry) {
    let prefix = if entry.result.is_failure() { "error: " } else { "" };
    print_message(&format!("{prefix}{}", entry.message));
    for note in &entry.notes {
        print_message(&format!("note: {note}"));
    }
    if let Some(restored) = &entry.restored {
        for profile in &restored.not_in_use {
            print_message(&format!("warning: profile {profile} was in use before and is not now"));
        }
        if let Some(problem) = &restored.problem {
            print_message(&format!("warning: {problem}"));
        }
    }
    let Some(event) = Event::of(entry.result) else { return };
    let result = serde_json::to_value(entry.result).unwrap_or_default();
    let mut fields = vec![
        ("BREX_COMMAND", entry.command.name()),
        ("BREX_RESULT", result.as_str().unwrap_or("")),
    ];
    if let Some(document) = &entry.document {
        fields.push(("BREX_DOCUMENT", &document.file));
        fields.push(("BREX_SHA256", document.sha256.as_str()));
    }
    journal::send(event, entry.message.as_str(), &fields);
}
