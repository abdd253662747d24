//! `oc-brex decode`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use command_line::{Ending, print, print_message};
use machine_config::{BR_EX_FOLDER, File, MachineConfig, Pool, Role, Text, parse_all};

use crate::cluster::{ClusterSource, Kind};
use crate::{reading, writing};

const EXAMPLES: &str = "\
Examples:
  What is in it:
    oc-brex decode 10-br-ex-worker.yaml
  The documents as files, for `oc-brex render --hosts`:
    oc-brex decode 10-br-ex-worker.yaml 10-br-ex-master.yaml --out hosts
  What the nodes of a running cluster have, later MachineConfigs over earlier ones:
    oc-brex decode --cluster --out hosts";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// MachineConfigs, as YAML or JSON, or lists of them; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "cluster", conflicts_with = "cluster")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    source: ClusterSource,
    /// Write the files to DIR/<role>/<host>.yml; without it they are printed
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    /// All files, not only br-ex documents; written to DIR/<role>/<path>
    #[arg(long)]
    all: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// Prints or writes the files of MachineConfigs: all of them or nothing.
pub(crate) fn decode(arguments: &Arguments) -> Result<Ending> {
    let configs = match arguments.source.read(&[Kind::MachineConfigs])? {
        Some(objects) => objects.machine_configs,
        None => read(&arguments.files)?,
    };
    let mut roles: Vec<Role> = configs.iter().filter_map(|it| it.role.clone()).collect();
    roles.sort();
    roles.dedup();
    let mut decoded = Vec::new();
    for role in &roles {
        let pool = Pool::new(role, &configs);
        for lost in pool.overridden() {
            print_message(&format!(
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
            decoded.push((role, rendered.file.clone(), rendered.from.to_string()));
        }
    }
    if decoded.is_empty() {
        bail!(
            "no MachineConfig of a role has files below {BR_EX_FOLDER}{}",
            if arguments.all { ", or any others" } else { "; --all shows others" },
        );
    }
    let Some(folder) = &arguments.out else {
        for (role, file, from) in &decoded {
            show(role, file, from)?;
        }
        return Ok(Ending::Good);
    };
    let file = |(role, file, _): &(&Role, File, String)| {
        (name(role, file, arguments.all), file.contents.bytes().to_vec())
    };
    let files: Vec<(String, Vec<u8>)> = decoded.iter().map(file).collect();
    for path in writing::files(folder, &files, arguments.force)? {
        print(format!("{}\n", path.display()))?;
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
            bail!("reading {}: expected a MachineConfig, found none; {what}", path.display());
        }
        for config in machine_configs {
            if config.is_rendered() {
                print_message(&format!(
                    "note: {} is the rendered configuration of a pool; skipped",
                    config.name
                ));
            } else if config.role.is_none() {
                print_message(&format!(
                    "note: {} has no role, so no node gets it; skipped",
                    config.name
                ));
            } else {
                configs.push(config);
            }
        }
    }
    Ok(configs)
}

/// The name of a file below the folder that is written to.
fn name(role: &Role, file: &File, all: bool) -> String {
    let below = file.path.as_str().trim_start_matches('/');
    let name = match below.strip_prefix(BR_EX_FOLDER.trim_start_matches('/')) {
        Some(name) if !all => name.trim_start_matches('/'),
        _ => below,
    };
    format!("{role}/{name}")
}

fn show(role: &Role, file: &File, from: &str) -> Result<()> {
    print(format!("# {from}, role {role}: {}\n", file.path))?;
    print(file.contents.bytes())?;
    if !file.contents.bytes().ends_with(b"\n") {
        print("\n")?;
    }
    Ok(())
}
