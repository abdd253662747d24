//! `oc-brex decode`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use command_line::{Ending, print, say};
use machine_config::{BR_EX_FOLDER, File, MachineConfig, Pool, Role, Text, parse_all};

use crate::{reading, writing};

const EXAMPLES: &str = "\
Examples:
  What is in it:
    oc-brex decode 10-br-ex-worker.yaml
  The documents as files, for `oc-brex render --hosts`:
    oc-brex decode 10-br-ex-worker.yaml 10-br-ex-master.yaml --out hosts
  What the nodes of a running cluster have, later MachineConfigs over earlier ones:
    oc get machineconfig -o yaml | oc-brex decode - --out hosts";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// MachineConfigs, as YAML or JSON, or lists of them; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the files to DIR/<role>/<host>.yml; without it they are printed
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    /// All files, not only br-ex documents; written to DIR/<role>/<path>
    #[arg(long)]
    all: bool,
}

/// Prints or writes the files of MachineConfigs.
pub(crate) fn decode(arguments: &Arguments) -> Result<Ending> {
    let configs = read(&arguments.files)?;
    let mut roles: Vec<Role> = configs.iter().filter_map(|it| it.role.clone()).collect();
    roles.sort();
    roles.dedup();
    let mut count = 0;
    for role in &roles {
        let pool = Pool::new(role, &configs);
        for lost in pool.overridden() {
            say(&format!(
                "note: pool {role}: {} of {} is replaced by that of {}",
                lost.path, lost.loser, lost.winner,
            ));
        }
        for rendered in pool.files().values() {
            let from = configs.iter().find(|config| config.name == *rendered.from);
            // Nodes of a pool of one's own have the workers' files; they are decoded once.
            let is_own = from.is_some_and(|config| config.role.as_ref() == Some(role));
            let is_document = rendered.file.path.is_within(BR_EX_FOLDER);
            if !is_own || !(arguments.all || is_document) {
                continue;
            }
            count += 1;
            match &arguments.out {
                Some(folder) => write(folder, role, rendered.file, arguments.all)?,
                None => show(role, rendered.file, rendered.from.as_str())?,
            }
        }
    }
    if count == 0 {
        bail!(
            "no MachineConfig of a role has files below {BR_EX_FOLDER}{}",
            if arguments.all { ", or any others" } else { "; --all shows others" },
        );
    }
    Ok(Ending::Good)
}

/// Reads every MachineConfig of these files.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<MachineConfig>> {
    let mut configs = Vec::new();
    for path in files {
        let reading = || format!("reading {}", path.display());
        let Text { machine_configs, skipped } =
            parse_all(&reading::text(path)?).with_context(reading)?;
        if machine_configs.is_empty() {
            let what = match skipped.first() {
                Some(other) if !other.kind.is_empty() => format!("it is a {}", other.kind),
                _ => "it has no `kind`, as objects of a cluster have".to_owned(),
            };
            bail!("reading {}: there is no MachineConfig in it; {what}", path.display());
        }
        for config in machine_configs {
            if config.is_rendered() {
                say(&format!("note: {} is what a pool made of the others; left out", config.name));
            } else if config.role.is_none() {
                say(&format!("note: {} has no role, so no node gets it; left out", config.name));
            } else {
                configs.push(config);
            }
        }
    }
    Ok(configs)
}

fn write(folder: &Path, role: &Role, file: &File, all: bool) -> Result<()> {
    let below = file.path.as_str().trim_start_matches('/');
    let name = match below.strip_prefix(BR_EX_FOLDER.trim_start_matches('/')) {
        Some(name) if !all => name.trim_start_matches('/'),
        _ => below,
    };
    let path = writing::file(folder, &format!("{role}/{name}"), file.contents.bytes())?;
    print(format!("{}\n", path.display()))
}

fn show(role: &Role, file: &File, from: &str) -> Result<()> {
    print(format!("# {from}, role {role}: {}\n", file.path))?;
    print(file.contents.bytes())?;
    if !file.contents.bytes().ends_with(b"\n") {
        print("\n")?;
    }
    Ok(())
}
