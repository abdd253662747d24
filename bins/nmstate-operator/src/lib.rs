//! The command line of `nmstate-operator`. One program, several parts:
//!
//! - `operator`, once per cluster: decides whether handlers run, deploys them, reports to the cluster.
//! - `coordinator`, once per cluster: grants slots and writes the status of policies.
//! - `handler`, once per node: applies policies and reports the node's network.
//! - `retry`: requests nodes on which a policy failed to retry it.
//! - `revert`: reverts a policy on some of its nodes.
//! - `take-over`, `give-back`: replace kubernetes-nmstate by this operator, and the reverse.
//! - `guest-access`: beside a hosted control plane, writes tokens of a service account of the guest.
//! - `gather`: collects the network of a node, for must-gather.
//! - `manifests`: writes the manifests that a release payload needs to install the operator.

mod arguments;
pub mod coordinator;
mod events;
mod gather;
mod guest_access;
pub mod handler;
mod leadership;
mod log;
mod manifests;
pub mod metrics;
mod metrics_port;
mod operator;
mod reference;
mod requests;
mod retry;
mod revert;
pub mod service_port;
mod stop;
mod take_over;
mod watch_cache;
mod watching;

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use command_line::{Ending, completion, print};

use arguments::{Arguments, Command};

/// Runs the program with this command line, the program's name first.
pub fn run(line: impl Iterator<Item = OsString>) -> ExitCode {
    command_line::run(line, |arguments: Arguments| {
        log::start(arguments.log_level);
        act(&arguments.command)
    })
}

fn act(command: &Command) -> Result<Ending> {
    match command {
        Command::Operator(arguments) => serve(operator::run(arguments))?,
        Command::Handler(arguments) => serve(handler::run(arguments))?,
        Command::Coordinator(arguments) => serve(coordinator::run(arguments))?,
        Command::Retry(arguments) => serve(retry::run(arguments))?,
        Command::Revert(arguments) => serve(revert::run(arguments))?,
        Command::TakeOver(arguments) => serve(take_over::take_over(arguments))?,
        Command::GiveBack(arguments) => serve(take_over::give_back(arguments))?,
        Command::GuestAccess(arguments) => serve(guest_access::run(arguments))?,
        Command::Manifests(arguments) => manifests::manifests(arguments)?,
        Command::Gather(arguments) => serve(gather::gather(arguments))?,
        Command::Version => print(format!("nmstate-operator {}\n", build_info::VERSION))?,
        Command::Completion { shell } => print(completion::script(*shell, arguments::command()))?,
        Command::GenerateDocs { out } => reference::write(out)?,
    }
    Ok(Ending::Good)
}

/// Runs a service to its end. One thread is sufficient: it waits for I/O most of the time.
fn serve(service: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(service)
}
