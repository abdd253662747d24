//! The command line of `oc-brex`: reads flags and files, prints what the crates
//! below find in them, and turns that into an exit code. One module per command.

mod adopt;
mod arguments;
mod check;
mod cluster;
mod decode;
mod doctor;
mod findings;
mod hosts;
mod import;
mod init;
mod inputs;
mod machines;
mod migrate;
mod plan;
mod reading;
mod reference;
mod render;
mod scale_out;
mod schema;
mod show;
mod status;
mod topology;
mod writing;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use command_line::{Ending, completion, print};

use arguments::{Arguments, Command};

/// Runs the program with this command line, the program's name first.
pub fn run(line: impl Iterator<Item = OsString>) -> ExitCode {
    command_line::run(line, |arguments: Arguments| act(&arguments.command))
}

fn act(command: &Command) -> Result<Ending> {
    match command {
        Command::Check(arguments) => return check::check(arguments),
        Command::Render(arguments) => return render::render(arguments),
        Command::Decode(arguments) => return decode::decode(arguments),
        Command::Topology(arguments) => return topology::topology(arguments),
        Command::ScaleOut(arguments) => return scale_out::scale_out(arguments),
        Command::Doctor(arguments) => return doctor::doctor(arguments),
        Command::Status(arguments) => return status::status(arguments),
        Command::Plan(arguments) => return plan::plan(arguments),
        Command::Adopt(arguments) => return adopt::adopt(arguments),
        Command::Init(arguments) => return init::init(arguments),
        Command::Hosts(arguments) => return hosts::hosts(arguments),
        Command::Import(arguments) => return import::import(arguments),
        Command::Show(arguments) => return show::show(arguments),
        Command::Schema => print(schema::text()?)?,
        Command::Migrate(arguments) => return migrate::migrate(arguments),
        Command::Version => print(format!("oc-brex {}\n", build_info::VERSION))?,
        Command::Completion { shell } => print(completion::script(*shell, arguments::command()))?,
        Command::GenerateDocs { out } => reference::write(out)?,
    }
    Ok(Ending::Good)
}
