//! The command line of `brex-report`.
//!
//! ```text
//! report.json + flag ──▶ summary ──▶ annotation of the Node, event if it changed
//! ```
//!
//! It is a separate program: `brex-firstboot` runs before there is a network, must start within
//! milliseconds and has no TLS.

mod arguments;
mod node_files;
mod reference;
mod target;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use command_line::{Ending, print, print_message};
use first_boot::Summary;

use arguments::{Arguments, Command, Options};
use target::{Attempt, Target};

/// Between two attempts: the node joins minutes after its first boot.
const RETRY: Duration = Duration::from_secs(5);

/// Runs the program with this command line, the program's name first.
pub fn run(line: impl Iterator<Item = OsString>) -> ExitCode {
    command_line::run(line, |arguments: Arguments| match &arguments.command {
        Some(Command::GenerateDocs { out }) => reference::write(out).map(|()| Ending::Good),
        None => report(&arguments.options),
    })
}

fn report(options: &Options) -> Result<Ending> {
    let summary = node_files::summary(&options.root)?;
    let text = serde_json::to_string(&summary).context("encoding the summary")?;
    if options.dry_run {
        print(format!("{text}\n"))?;
        return Ok(Ending::Good);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting a runtime")?;
    runtime.block_on(send(options, &summary, &text))
}

/// Sends the summary, as soon as kubelet has credentials and the node has joined.
async fn send(options: &Options, summary: &Summary, text: &str) -> Result<Ending> {
    let deadline = Instant::now() + options.timeout;
    let mut last = String::new();
    loop {
        let attempt = match Target::connect(&options.kubeconfig).await {
            Ok(target) => target.report(summary, text).await,
            Err(error) => Attempt::Failed(error.to_string()),
        };
        let problem = match attempt {
            Attempt::Reported { node } => {
                print_message(&format!("reported {} on node {node}", summary.reason()));
                return Ok(Ending::Good);
            }
            Attempt::Unchanged { node } => {
                print_message(&format!("node {node} has this report already"));
                return Ok(Ending::Good);
            }
            Attempt::Refused(problem) => {
                print_message(&format!("error: {problem}"));
                return Ok(Ending::Findings);
            }
            Attempt::Failed(problem) => problem,
        };
        if Instant::now() + RETRY >= deadline {
            let limit = options.timeout.as_secs();
            print_message(&format!(
                "error: the report could not be sent within {limit} s: {problem}"
            ));
            return Ok(Ending::Findings);
        }
        if problem != last {
            print_message(&format!("retrying: {problem}"));
            last = problem;
        }
        tokio::time::sleep(RETRY).await;
    }
}
