//! `oc-brex hosts`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use br_ex::hosts::Reader;
use br_ex::{ClusterFacts, Severity};
use br_ex_authoring::host_table::{HostFile, Table, TableProblem, host_files, problem_of_line};
use clap::Args;
use command_line::{Ending, print, print_message};

use crate::machines::{self, Named};
use crate::{reading, writing};

const EXAMPLES: &str = "\
Example, hosts.csv:
  host,role,address,mac
  worker-0,worker,192.0.2.20,52:54:00:00:00:20
  worker-1,worker,192.0.2.21,52:54:00:00:00:21
The template is a document with ${address}, ${mac} … where the hosts differ; `oc-brex topology` writes
a document to start from:
  oc-brex hosts --table hosts.csv --template bond.yml --out hosts
  oc-brex render --hosts hosts --out manifests";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Table (CSV) with a row per host: column `host`, perhaps `role`, and one for each ${name} of
    /// the template
    #[arg(long, value_name = "FILE")]
    table: PathBuf,
    /// Document with ${name} where hosts differ
    #[arg(long, value_name = "FILE")]
    template: PathBuf,
    /// Folder to write <role>/<host>.yml or <host>.yml to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// Writes a document for every row, or nothing.
pub(crate) fn hosts(arguments: &Arguments) -> Result<Ending> {
    let table = reading::text(&arguments.table)?;
    let template = String::from_utf8(reading::document(&arguments.template)?)
        .with_context(|| format!("reading {}: not UTF-8", arguments.template.display()))?;
    let made = Table::parse(&table)
        .and_then(|table| host_files(&table, &template, &ClusterFacts::default()));
    let files = match made {
        Ok(files) => files,
        Err(problems) => return Ok(refused(arguments, &problems)),
    };
    let problems = machine_problems(&files, &template);
    if !problems.is_empty() {
        return Ok(refused(arguments, &problems));
    }
    for warning in files.iter().flat_map(|file| &file.warnings) {
        print_message(warning);
    }
    let files: Vec<(String, String)> =
        files.into_iter().map(|HostFile { path, text, .. }| (path, text)).collect();
    for path in writing::files(&arguments.out, &files, arguments.force)? {
        print(format!("{}\n", path.display()))?;
    }
    Ok(Ending::Good)
}

/// Machines that `brex-match` lines cannot name, or name for two hosts.
fn machine_problems(files: &[HostFile], template: &str) -> Vec<TableProblem> {
    let named = |file: &HostFile| {
        let host = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".yml"));
        Named::read(host, Reader::default(), file.text.as_bytes())
    };
    let named: Vec<Named> = files.iter().map(named).collect();
    let found = machines::check(&named, &[]).into_iter();
    found
        .filter(|(_, finding)| finding.severity == Severity::Error)
        .map(|(number, finding)| {
            problem_of_line(files[number].row, template, finding.at.line, &finding.message)
        })
        .collect()
}

fn refused(arguments: &Arguments, problems: &[TableProblem]) -> Ending {
    for problem in problems {
        print_message(&format!("{}: {problem}", arguments.table.display()));
    }
    print_message("Nothing was written. Correct the table or the template.");
    Ending::Findings
}
