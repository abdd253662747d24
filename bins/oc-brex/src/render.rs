//! `oc-brex render`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use br_ex::inventory::{self, Inventory};
use br_ex::render::{machine_configs, service};
use br_ex::{Platform, Severity, Surroundings, install_config};
use clap::{ArgGroup, Args};
use command_line::{Ending, print, say};
use machine_config::{Encoding, Fit, MachineConfig, Role, Size};

use crate::{reading, writing};

const EXAMPLES: &str = "\
Examples:
  hosts/master/master-0.yml, hosts/worker/worker-0.yml … become two manifests for the installer:
    oc-brex render --hosts hosts -o install/manifests
  Documents under networking.hostConfig of an install-config:
    oc-brex render --install-config install-config.yaml -o install/manifests
  Hundreds of hosts, and the service that takes a bad document back:
    oc-brex render --hosts hosts --gzip --service -o install/manifests";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = sources())]
pub(crate) struct Arguments {
    /// Folder with documents: <role>/<host>.yml, or <host>.yml that begins with master- or worker-;
    /// cluster.yml is for all hosts without one of their own
    #[arg(long, value_name = "DIR")]
    hosts: Option<PathBuf>,
    /// Install-config with documents in networking.hostConfig; files of --hosts win over it
    #[arg(long, value_name = "FILE")]
    install_config: Option<PathBuf>,
    /// Role of the files that are in no folder of a role
    #[arg(long, value_name = "ROLE", requires = "hosts")]
    role: Option<Role>,
    /// Where the cluster runs, as in install-config: baremetal, none, vsphere, aws, …
    #[arg(long, value_name = "NAME")]
    platform: Option<Platform>,
    /// Folder to write the manifests to
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Compress the documents, for roles with hundreds of hosts
    #[arg(long)]
    gzip: bool,
    /// Add the MachineConfigs that let brex-firstboot stage and confirm the documents
    #[arg(long)]
    service: bool,
    /// Render documents with errors, too
    #[arg(long)]
    allow_errors: bool,
}

/// Where documents come from: one of the two, or both.
fn sources() -> ArgGroup {
    ArgGroup::new("sources").required(true).multiple(true).args(["hosts", "install_config"])
}

/// Writes one MachineConfig per role.
pub(crate) fn render(arguments: &Arguments) -> Result<Ending> {
    let (inventory, around) = read(arguments)?;
    let mut has_errors = false;
    for (file, finding) in inventory.check(&around) {
        say(&format!("{file}:{finding}"));
        has_errors |= finding.severity == Severity::Error;
    }
    if has_errors && !arguments.allow_errors {
        say("Nothing was written. Correct the errors, or give --allow-errors.");
        return Ok(Ending::Findings);
    }
    let encoding = if arguments.gzip { Encoding::Gzip } else { Encoding::Plain };
    let mut configs = machine_configs(&inventory, encoding)?;
    if arguments.service {
        for (role, _) in inventory.roles() {
            configs.push(service(role)?);
        }
    }
    for config in &configs {
        check_size(config, encoding)?;
    }
    for (role, _) in inventory.roles() {
        if let Some(meant) = role.almost() {
            say(&format!(
                "warning: nodes get it only from a pool called {role}; is {meant} meant?"
            ));
        }
    }
    for config in &configs {
        let name = format!("{}.yaml", config.name);
        let path = writing::file(&arguments.out, &name, config.to_yaml()?)?;
        print(format!("{}\n", path.display()))?;
    }
    Ok(Ending::Good)
}

fn read(arguments: &Arguments) -> Result<(Inventory, Surroundings)> {
    let mut all = Inventory::default();
    let mut around = Surroundings::default();
    if let Some(path) = &arguments.install_config {
        let reading = || format!("reading {}", path.display());
        let config = install_config::parse(&reading::text(path)?).with_context(reading)?;
        if config.hosts.is_empty() {
            bail!(
                "reading {}: there is no document under networking.hostConfig (networkConfig of \
                 platform.baremetal.hosts is the network of the installation, which has no br-ex)",
                path.display(),
            );
        }
        match inventory::from_install_config(&path.display().to_string(), &config) {
            Ok(inventory) => all.overlay(inventory),
            Err(problems) => bail!("reading {}:\n{}", path.display(), lines(&problems)),
        }
        around = config.surroundings;
    }
    if let Some(folder) = &arguments.hosts {
        let files = reading::folder(folder)?;
        if files.is_empty() {
            bail!("{} holds no documents: no .yml and no .yaml file", folder.display());
        }
        let top = folder.display().to_string();
        match inventory::from_files(&top, &files, arguments.role.as_ref()) {
            Ok(inventory) => all.overlay(inventory),
            Err(problems) => bail!("reading {top}:\n{}", lines(&problems)),
        }
    }
    around.platform = arguments.platform.or(around.platform);
    Ok((all, around))
}

/// One line each, with all their reasons.
fn lines<E: std::error::Error>(problems: &[E]) -> String {
    let line = |problem: &E| {
        let mut line = format!("  {problem}");
        let mut source = problem.source();
        while let Some(reason) = source {
            line.push_str(&format!(": {reason}"));
            source = reason.source();
        }
        line
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check_size(config: &MachineConfig, encoding: Encoding) -> Result<()> {
    let size = Size::of(config);
    let advice = match encoding {
        Encoding::Plain => "give --gzip, or split the role into several pools",
        Encoding::Gzip => "split the role into several pools",
    };
    match size.fit() {
        Fit::Well => {}
        Fit::Barely => say(&format!("warning: {} has {size}; {advice}", config.name)),
        Fit::Not => bail!("{} has {size}, which is too much; {advice}", config.name),
    }
    Ok(())
}
