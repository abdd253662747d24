//! `oc-brex render`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use br_ex::hosts::Reader;
use br_ex::{ClusterFacts, Finding, Platform, Severity};
use br_ex_authoring::inventory::{self, Inventory};
use br_ex_authoring::render::{
    EXTRA_MANIFESTS, OnFailure, extra_manifests, machine_configs, service,
};
use br_ex_authoring::{host_list, install_config};
use clap::{ArgGroup, Args, ValueEnum};
use command_line::{Ending, print, print_message};
use error_causes::with_causes;
use machine_config::{Encoding, Fit, MachineConfig, MachineConfigName, Pool, Role, Size};
use machine_identity::short_name;

use crate::machines::{self, Named};
use crate::{decode, inputs, reading, writing};

const EXAMPLES: &str = "\
Examples:
  hosts/master/master-0.yml, hosts/worker/worker-0.yml … become two manifests for the installer:
    oc-brex render --hosts hosts --out install/manifests
  Documents under networking.hostConfig of an install-config:
    oc-brex render --install-config install-config.yaml --out install/manifests
  Hundreds of hosts, and the service that rolls back a bad document:
    oc-brex render --hosts hosts --gzip --service --os-image registry.example.com/rhcos@sha256:… \
      --out install/manifests";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = sources())]
pub(crate) struct Arguments {
    /// Folder with documents: <role>/<host>.yml, or <host>.yml that begins with master- or worker-;
    /// cluster.yml is for all hosts without one of their own
    #[arg(long, value_name = "DIR")]
    hosts: Option<PathBuf>,
    /// Install-config with documents in networking.hostConfig; files of --hosts take precedence
    #[arg(long, value_name = "FILE")]
    install_config: Option<PathBuf>,
    /// Role of files that are not in the folder of a role, and of hosts of the install-config whose
    /// role it does not contain
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// Where the cluster runs, as in install-config: baremetal, none, vsphere, aws, …
    #[arg(long, value_name = "NAME")]
    platform: Option<Platform>,
    /// Folder to write the manifests to
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: PathBuf,
    /// What the manifests are for: installer, agent (files for the agent-based installer, in openshift)
    /// or ztp (a ConfigMap that extraManifestsRefs of a ClusterInstance names)
    #[arg(
        long = "as",
        value_name = "FORM",
        default_value = "installer",
        hide_possible_values = true
    )]
    form: Form,
    /// With --as ztp: the cluster, whose namespace holds the ConfigMap
    #[arg(long, value_name = "NAME", required_if_eq("form", "ztp"))]
    cluster: Option<String>,
    /// Compress the documents, for roles with hundreds of hosts
    #[arg(long)]
    gzip: bool,
    /// Add the MachineConfigs that let brex-firstboot stage and confirm the documents, on nodes whose
    /// image has it
    #[arg(long)]
    service: bool,
    /// With --service: image with brex-firstboot that the nodes boot (osImageURL)
    #[arg(long, value_name = "IMAGE", requires = "service")]
    os_image: Option<String>,
    /// With --service: a node whose br-ex cannot be configured from its document does not join the
    /// cluster, instead of joining with the bridge that configure-ovs creates
    #[arg(long, requires = "service")]
    required: bool,
    /// MachineConfigs of the cluster, `oc get machineconfig -o yaml`: sizes are computed for the
    /// rendered pool
    #[arg(long, value_name = "FILE")]
    machine_configs: Vec<PathBuf>,
    /// Render documents with errors, too
    #[arg(long)]
    allow_errors: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Installer,
    Agent,
    Ztp,
}

/// Where documents come from: one of the two, or both.
fn sources() -> ArgGroup {
    ArgGroup::new("sources").required(true).multiple(true).args(["hosts", "install_config"])
}

/// Writes one MachineConfig per role.
pub(crate) fn render(arguments: &Arguments) -> Result<Ending> {
    let Sources { inventory, around, listed } = read(arguments)?;
    let mut has_errors = false;
    let mut found = inventory.check(&around);
    found.extend(check_machines(&inventory, arguments.service, &listed));
    for (file, finding) in found {
        print_message(&format!("{file}:{finding}"));
        has_errors |= finding.severity == Severity::Error;
    }
    if has_errors && !arguments.allow_errors {
        print_message("Nothing was written. Correct the errors, or give --allow-errors.");
        return Ok(Ending::Findings);
    }
    let encoding = if arguments.gzip { Encoding::Gzip } else { Encoding::Plain };
    let mut configs = machine_configs(&inventory, encoding)?;
    if arguments.service {
        let on_failure = if arguments.required { OnFailure::Stop } else { OnFailure::ConfigureOvs };
        for (role, _) in inventory.roles() {
            configs.push(service(role, arguments.os_image.as_deref(), on_failure)?);
        }
    }
    note_image(arguments);
    let cluster = decode::read(&arguments.machine_configs)?;
    for (role, _) in inventory.roles() {
        check_size(role, &configs, &cluster, encoding)?;
    }
    for (role, _) in inventory.roles() {
        if let Some(meant) = role.almost() {
            print_message(&format!(
                "warning: nodes get it only from a pool called {role}; is {meant} meant?"
            ));
        }
    }
    for path in writing::manifests(&arguments.out, &manifests(arguments, &configs)?)? {
        print(format!("{}\n", path.display()))?;
    }
    Ok(Ending::Good)
}

/// The files to write, for whom they are.
fn manifests(arguments: &Arguments, configs: &[MachineConfig]) -> Result<Vec<(String, String)>> {
    let folder = match arguments.form {
        Form::Installer => "",
        Form::Agent => "openshift/",
        Form::Ztp => {
            let cluster = arguments.cluster.as_deref().unwrap_or_default();
            let text = extra_manifests(cluster, configs)?;
            print_message(&format!(
                "note: apply the ConfigMap, and name it in spec.extraManifestsRefs of the \
                 ClusterInstance {cluster}: `- name: {EXTRA_MANIFESTS}`"
            ));
            return Ok(vec![(format!("{EXTRA_MANIFESTS}.yaml"), text)]);
        }
    };
    let file = |config: &MachineConfig| -> Result<(String, String)> {
        Ok((format!("{folder}{}.yaml", config.name), config.to_yaml()?))
    };
    configs.iter().map(file).collect()
}

/// What is rendered, and what the install-config contains about it.
struct Sources {
    inventory: Inventory,
    around: ClusterFacts,
    /// The hosts that the install-config lists.
    listed: BTreeSet<String>,
}

fn read(arguments: &Arguments) -> Result<Sources> {
    let mut all = Inventory::default();
    let mut around = ClusterFacts::default();
    let mut listed = BTreeSet::new();
    if let Some(path) = &arguments.install_config {
        let reading = || format!("reading {}", path.display());
        let text = reading::text(path)?;
        let config = install_config::parse(&text).with_context(reading)?;
        let hosts = host_list::parse(&text).with_context(reading)?;
        listed.extend(hosts.iter().map(|host| short_name(&host.name).to_owned()));
        // With --hosts, an install-config without documents still provides networks and hosts.
        if config.hosts.is_empty() && arguments.hosts.is_none() {
            bail!(
                "reading {}: expected documents under networking.hostConfig, found none \
                 (networkConfig of platform.baremetal.hosts is the network of the installation; \
                 `oc-brex import` writes documents from it)",
                path.display(),
            );
        }
        let role = arguments.role.as_ref();
        if let Some(note) = config.note(role.map(Role::as_str)) {
            print_message(&format!("note: {}: {note}", path.display()));
        }
        match inventory::from_install_config(&path.display().to_string(), &config, role) {
            Ok(inventory) => all.overlay(inventory),
            Err(problems) => bail!("reading {}:\n{}", path.display(), lines(&problems)),
        }
        around = config.cluster_facts;
    }
    if let Some(folder) = &arguments.hosts {
        let files = reading::folder(folder)?;
        if files.is_empty() {
            bail!("{} holds no documents: no .yml and no .yaml file", folder.display());
        }
        let top = folder.display().to_string();
        let placement = inventory::place_files(&top, &files, arguments.role.as_ref());
        for note in inputs::notes(&top, &placement) {
            print_message(&note);
        }
        match placement.into_inventory() {
            Ok(inventory) => all.overlay(inventory),
            Err(problems) => bail!("reading {top}:\n{}", lines(&problems)),
        }
    }
    around.platform = arguments.platform.or(around.platform);
    Ok(Sources { inventory: all, around, listed })
}

/// What is wrong with the machines that documents name, with the file of each.
fn check_machines(
    inventory: &Inventory,
    has_service: bool,
    listed: &BTreeSet<String>,
) -> Vec<(String, Finding)> {
    let reader = if has_service { Reader::FirstBoot } else { Reader::Unknown };
    let placed: Vec<_> = inventory.documents().map(|(_, stem, placed)| (stem, placed)).collect();
    let named: Vec<Named> = placed
        .iter()
        .map(|(stem, placed)| {
            let host = (!stem.is_cluster()).then_some(stem.as_str());
            Named::read(host, reader, &placed.bytes)
        })
        .collect();
    let found = machines::check(&named, &[]).into_iter();
    let found = found.chain(machines::unlisted(&named, listed));
    found.map(|(number, finding)| (placed[number].1.origin.clone(), finding)).collect()
}

/// One line each, with all their reasons.
fn lines<E: std::error::Error>(problems: &[E]) -> String {
    let lines = problems.iter().map(|problem| format!("  {}", with_causes(problem)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints a note about the service on nodes without the program.
fn note_image(arguments: &Arguments) {
    match &arguments.os_image {
        None if arguments.service => print_message(
            "note: the service acts on nodes whose image has /usr/bin/brex-firstboot. On others the \
             machine config operator's own nmstate-configuration applies the documents. Give \
             --os-image, or set osImageURL in another MachineConfig of the role.",
        ),
        Some(image) if !image.contains("@sha256:") => print_message(&format!(
            "warning: {image} has no digest; nodes that are installed later may boot another image"
        )),
        _ => {}
    }
}

/// Whether a cluster can store the documents of a role: each MachineConfig, and the rendered one
/// of every pool that has them.
fn check_size(
    role: &Role,
    configs: &[MachineConfig],
    cluster: &[MachineConfig],
    encoding: Encoding,
) -> Result<()> {
    let advice = match encoding {
        Encoding::Plain => "give --gzip, or split the role into several pools",
        Encoding::Gzip => "split the role into several pools",
    };
    let is_new = |name: &MachineConfigName| configs.iter().any(|config| config.name == *name);
    let kept = cluster.iter().filter(|config| !is_new(&config.name));
    let pool = Pool::new(role, configs.iter().chain(kept));
    let size = Size::of_pool(&pool);
    let name = format!("the rendered MachineConfig of pool {role}");
    match (size.fit(), size.with_operators_own().fit(), cluster.is_empty()) {
        (Fit::Not, ..) => bail!("{name} has {size}, which is too much; {advice}"),
        (Fit::Barely, ..) => print_message(&format!("warning: {name} has {size}; {advice}")),
        (Fit::Well, Fit::Well, _) | (Fit::Well, _, false) => {}
        (Fit::Well, Fit::Barely | Fit::Not, true) => print_message(&format!(
            "warning: {name} has {size}, without the operator's own MachineConfigs, which take some \
             hundred kilobytes more; give --machine-configs to have them counted, or {advice}"
        )),
    }
    Ok(())
}
