//! Commands that the console started.

use maud::{Markup, html};

use super::parts::{pager, table, time};
use crate::jobs::{Exit, Job, JobState};
use crate::shell_line::ShellLine;
use crate::view::paging::Page;

/// The signal that the system sends to a process that it ends without asking.
const KILLED: i32 = 9;

/// A job and what it printed.
#[derive(Debug)]
pub(crate) struct JobDetail<'a> {
    pub(crate) job: &'a Job,
    pub(crate) output: &'a str,
    pub(crate) is_cut: bool,
}

fn state(state: JobState) -> Markup {
    let (class, text) = match state {
        JobState::Running => ("active", "Running".to_owned()),
        JobState::Ended(Exit::Code(0)) => ("good", "Succeeded".to_owned()),
        JobState::Ended(Exit::Code(code)) => ("bad", format!("Exit code {code}")),
        JobState::Ended(Exit::Signal(KILLED)) => ("bad", "Killed".to_owned()),
        JobState::Ended(Exit::Signal(signal)) => ("bad", format!("Ended by signal {signal}")),
        JobState::EndedUnseen => ("warn", "Ended".to_owned()),
    };
    html! { span .{ "badge " (class) } { (text) } }
}

pub(crate) fn list(page: &Page<Job>) -> Markup {
    let row = |job: &Job| {
        let line = ShellLine::oc_mirror(job.record.arguments.iter().cloned());
        html! {
            tr {
                th scope="row" { a href={ "/jobs/" (job.record.number) } { (job.record.number) } }
                td { (job.record.name) }
                td { (time(job.record.started)) }
                td { (state(job.state)) }
                td { code { (line) } }
            }
        }
    };
    html! {
        @if page.total == 0 { p { "Nothing was started from a console. Runs of terminals are on the page " a href="/runs" { "Runs" } "." } } @else {
            (table("Commands started from the console", &["Job", "What", "Started", "State", "Command"],
                &page.rows.iter().map(row).collect::<Vec<_>>()))
            (pager(page, "/jobs", &[]))
        }
    }
}

pub(crate) fn detail(detail: &JobDetail<'_>) -> Markup {
    let record = &detail.job.record;
    html! {
        section .live aria-labelledby="job-state" data-events={ "/jobs/" (record.number) "/events" } {
            h2 id="job-state" { "State" }
            div role="status" data-part="state" { (job_state(detail.job)) }
            div data-part="controls" { (controls(detail.job)) }
            h2 { "Output" }
            div data-part="output" { (output(detail)) }
        }
    }
}

pub(crate) fn job_state(job: &Job) -> Markup {
    let record = &job.record;
    let has = |flag: &str| record.arguments.iter().any(|word| word == flag);
    let (is_deletion, is_plan) = (has("--generate"), has("--dry-run"));
    html! {
        p { (state(job.state)) " " (record.name) ", process " (record.pid) ", started " (time(record.started)) }
        @if job.state == JobState::EndedUnseen {
            p .note { "It ended while no console was running. The output shows how." }
        }
        @if is_deletion && job.state != JobState::Running {
            p { a href="/deletion" { "Review the plan" } }
        } @else if is_plan && job.state != JobState::Running {
            p { a href="/plan" { "Review the plan" } }
        } @else {
            p { a href="/" { "Progress of the run" } }
        }
    }
}

pub(crate) fn controls(job: &Job) -> Markup {
    html! {
        @if job.state == JobState::Running {
            form .controls method="post" action={ "/jobs/" (job.record.number) "/stop" } {
                button type="submit" { "Stop" }
                p .note { "As Ctrl-C does. A stopped run continues when the same command runs again." }
            }
        }
    }
}

pub(crate) fn output(detail: &JobDetail<'_>) -> Markup {
    html! {
        @if detail.is_cut { p .note { "Only the end is shown." } }
        @if detail.output.is_empty() { p .note { "Nothing was printed yet." } } @else {
            pre tabindex="0" { code { (detail.output) } }
        }
    }
}
