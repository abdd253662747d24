//! The command line of `oc-mirror`: reads flags, starts logging, runs the
//! engine, shows its progress, renders its report and turns it into an exit
//! code. What is mirrored how is decided in the crates below.

mod archive_keys;
mod arguments;
mod carried_archives;
mod catalog_arguments;
#[cfg(feature = "cluster")]
mod cluster_survey;
mod configuration;
mod console;
mod console_command;
mod default_workspace;
mod delete_command;
mod gc_command;
mod go_syntax;
mod ignored;
mod init_command;
mod interrupt;
#[cfg(feature = "cluster")]
mod inventory_command;
#[cfg(feature = "cluster")]
mod job_command;
mod list_charts;
mod list_command;
mod list_format;
mod list_operators;
mod listener;
mod log;
mod lookup_arguments;
mod metrics;
mod migrate_command;
mod mirror_command;
mod object_store;
mod output_file;
mod pace_arguments;
mod pacing;
mod path_format;
mod policy_file;
mod problem;
mod progress;
mod reference;
mod refused;
mod registries_d;
mod release_sources;
mod repair_command;
mod report_text;
mod request;
mod retry_arguments;
mod route;
mod secret;
// Pods read what only `job` writes.
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "`job` needs a cluster"))]
mod segment_store;
mod serve_command;
mod shards;
mod side_arguments;
mod status_command;
mod upgrade_path_command;
mod upgrade_path_operator;
mod verify_command;
mod version;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use arguments::{Arguments, Command};
use command_line::{completion, quantity};
use console::Console;
use log::{Log, Verbosity};
use mirror_command::OfV2;

pub use release_sources::ReleaseVariables;
pub use request::ProcessEnvironment;
pub use secret::Secret;

/// The exit code of wrong usage and of commands that could not be started, as in oc-mirror v2; 2 means
/// that releases failed.
const USAGE: u8 = 1;

/// Threads that run tasks. Transfers wait most of the time, and each thread
/// costs memory; hashing and files have threads of their own.
const WORKER_THREADS: usize = 3;

/// Runs the program with this command line, the program's name first.
pub fn run(line: &[OsString], process: &ProcessEnvironment) -> ExitCode {
    let mut arguments = match Arguments::read(line.iter().cloned()) {
        Ok(arguments) => arguments,
        Err(error) => return command_line::end_parsing(&error, USAGE),
    };
    let console = Console::default();
    // A shard reports its progress to its run.
    let is_quiet = arguments.mirror.quiet || arguments.mirror.shards.shard_part.is_some();
    let verbosity = Verbosity::new(arguments.log_level, is_quiet);
    let log = Log::start(verbosity, console.clone());
    let reads_cache = matches!(arguments.command, None | Some(Command::Migrate(_)));
    let former = arguments.former.iter().cloned();
    for warning in former.chain(arguments.ignored.warnings(reads_cache)) {
        tracing::warn!("{warning}");
    }
    let state = process.state.as_deref();
    let chosen = match &mut arguments.command {
        None => arguments.mirror.choose_workspace(state, false),
        #[cfg(feature = "cluster")]
        Some(Command::Job(job)) if job.command.is_none() => {
            job.mirror.choose_workspace(state, true)
        }
        Some(_) => None,
    };
    if let Some(directory) = chosen {
        tracing::info!("the workspace is {}", directory.display());
    }
    let cache = arguments
        .ignored
        .cache(process.cache_variable.as_deref(), process.registries.home.as_deref());
    match &arguments.command {
        None => {
            let of_v2 = OfV2 { cache, migrate_from: None };
            mirror_command::mirror(&arguments.mirror, of_v2, line, process, &log, console)
        }
        Some(Command::Migrate(arguments)) => {
            migrate_command::migrate(arguments, cache, process, &log, console)
        }
        Some(Command::Delete(arguments)) => delete_command::delete(arguments, line, process, &log),
        Some(Command::Prune(arguments)) => delete_command::prune(arguments, line, process, &log),
        Some(Command::Serve(arguments)) => serve_command::serve(arguments),
        Some(Command::Console(arguments)) => console_command::console(arguments, process),
        Some(Command::Verify(arguments)) => verify_command::verify(arguments, process),
        Some(Command::Repair(arguments)) => {
            repair_command::repair(arguments, line, process, &log, &console)
        }
        Some(Command::Gc(arguments)) => {
            let line: Vec<String> =
                line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            gc_command::gc(arguments, &line)
        }
        Some(Command::Status(arguments)) => status_command::status(arguments),
        Some(Command::List(arguments)) => {
            print(list_command::list(arguments, process).map(String::into_bytes))
        }
        Some(Command::UpgradePath(arguments)) => {
            print(upgrade_path_command::upgrade_path(arguments, process).map(String::into_bytes))
        }
        Some(Command::Init(arguments)) => {
            print(init_command::init(arguments, process).map(String::into_bytes))
        }
        #[cfg(feature = "cluster")]
        Some(Command::Inventory(arguments)) => {
            print(inventory_command::inventory(arguments, process).map(String::into_bytes))
        }
        #[cfg(feature = "cluster")]
        Some(Command::Job(arguments)) => job_command::job(arguments, line, process, &console),
        Some(Command::Shard(arguments)) => shards::pod::run(arguments, process, &console),
        Some(Command::Version(arguments)) => {
            print(version::text(arguments).map(String::into_bytes))
        }
        Some(Command::Completion(arguments)) => {
            print(Ok(completion::script(arguments.shell, arguments::command())))
        }
        Some(Command::GenerateDocs { out }) => print(reference::write(out).map(|()| Vec::new())),
        Some(missing) => {
            let name = missing.missing().unwrap_or("this command");
            tracing::error!(
                "`{name}` is not part of this version; it has: mirroring, migrate, status, delete, prune, verify, repair, gc, list, upgrade-path, inventory, init, job, serve, console, version, completion"
            );
            ExitCode::FAILURE
        }
    }
}

/// Writes a result to standard output, or logs why there is none.
fn print(result: anyhow::Result<Vec<u8>>) -> ExitCode {
    match result.and_then(command_line::print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(WORKER_THREADS).enable_all().build()
}
