//! `oc-brex scale-out`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use br_ex::hosts::Reader;
use br_ex::{ClusterFacts, Document, Finding, Severity};
use br_ex_authoring::first_network::first_network;
use br_ex_authoring::inventory::{DocumentName, short_name};
use br_ex_authoring::scale_out::{Addition, Bmc, Machine, add, check_beside, manifests};
use clap::Args;
use command_line::{Ending, print, print_message};
use machine_config::{
    BR_EX_FOLDER, DisruptionPolicy, Fit, MachineConfig, Pool, Role, Size, parse_disruption_policy,
};
use machine_identity::Mac;
use nmstate::NetworkState;

use crate::cluster::{ClusterSource, Kind, Objects};
use crate::machines::{self, Named};
use crate::{decode, reading, writing};

const EXAMPLES: &str = "\
Examples:
  oc-brex scale-out --cluster --host worker-7=worker-7.yml \\
    --bmc redfish-virtualmedia://192.0.2.207/redfish/v1/Systems/1 --boot-mac 52:54:00:00:00:07 --out worker-7
  Without access to the cluster:
    oc get machineconfig 10-br-ex-worker -o yaml > 10-br-ex-worker.yaml
    oc-brex scale-out --mc 10-br-ex-worker.yaml --host worker-7=worker-7.yml --out worker-7
The commands to run are printed, in their order.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// MachineConfig with the documents of the role
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "cluster",
        conflicts_with = "cluster"
    )]
    mc: Option<PathBuf>,
    #[command(flatten)]
    source: ClusterSource,
    /// With --cluster: the role of the new host [default: worker]
    #[arg(long, value_name = "ROLE", requires = "cluster")]
    role: Option<Role>,
    /// The new host and its document
    #[arg(long, value_name = "NAME=FILE")]
    host: NewHost,
    /// Other MachineConfigs of the cluster: addresses are compared with theirs, and the size of the
    /// rendered pool counts them; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    other_mc: Vec<PathBuf>,
    /// Address of the BMC; writes a BareMetalHost
    #[arg(long, value_name = "ADDRESS", requires = "boot_mac")]
    bmc: Option<String>,
    /// Secret with user name and password of the BMC [default: <host>-bmc-secret]
    #[arg(long, value_name = "NAME", requires = "bmc")]
    bmc_secret: Option<String>,
    /// MAC address of the NIC that the machine boots from
    #[arg(long, value_name = "MAC", requires = "bmc")]
    boot_mac: Option<Mac>,
    /// Do not verify the certificate of the BMC
    #[arg(long, requires = "bmc")]
    disable_certificate_verification: bool,
    /// The network to fetch Ignition with, if the one derived from the document does not work
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// The cluster's disruption policies: `oc get machineconfiguration cluster -o yaml`
    #[arg(long, value_name = "FILE", conflicts_with = "cluster")]
    machine_configuration: Option<PathBuf>,
    /// MachineSet to scale, for the commands that are printed
    #[arg(long, value_name = "NAME", default_value = "<machineset>")]
    machine_set: String,
    /// Folder to write the manifests to
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: PathBuf,
}

#[derive(Debug, Clone)]
struct NewHost {
    stem: DocumentName,
    file: PathBuf,
}

impl FromStr for NewHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = text.split_once('=').ok_or("write NAME=FILE: worker-7=worker-7.yml")?;
        let stem = DocumentName::of_host(name).map_err(|error| error.to_string())?;
        if stem.is_cluster() {
            return Err("a host cannot be named `cluster`".to_owned());
        }
        Ok(Self { stem, file: file.into() })
    }
}

/// Adds a host, and writes what a cluster needs to provision it.
pub(crate) fn scale_out(arguments: &Arguments) -> Result<Ending> {
    let NewHost { stem, file } = &arguments.host;
    let bytes = reading::document(file)?;
    let Existing { old, origin, others: mut configs, policy } = existing(arguments)?;
    let Addition { role, config, disruption } =
        add(&old, stem, &bytes, &policy).with_context(|| format!("adding {stem} to {origin}"))?;

    configs.push(old);
    let file_name = format!("{stem}.yml");
    let mut findings = check_beside(&configs, &role, &file_name, &bytes, &ClusterFacts::default());
    findings.extend(check_machine(&configs, stem, &bytes));
    for finding in &findings {
        print_message(&format!("{}:{finding}", file.display()));
    }
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        print_message("Nothing was written. Correct the errors.");
        return Ok(Ending::Findings);
    }
    let others = configs.iter().filter(|other| other.name != config.name);
    let size = Size::of_pool(&Pool::new(&role, others.chain([&config])));
    let pool = format!("the rendered MachineConfig of pool {role}");
    match size.fit() {
        Fit::Well => {}
        Fit::Barely => print_message(&format!("warning: {pool} has {size}")),
        Fit::Not => bail!("{pool} has {size}, which is too much"),
    }
    let network = network(arguments, &bytes)?;
    let machine = Machine { host: stem.clone(), bmc: arguments.machine() };
    let mut files = vec![(format!("{}.yaml", config.name), config.to_yaml()?)];
    let others = manifests(&machine, &network)?.into_iter();
    files.extend(others.map(|manifest| (manifest.name, manifest.yaml)));
    let written = writing::manifests(&arguments.out, &files)?;
    for effect in &disruption.effects {
        print_message(&format!("{effect}"));
    }
    print_message(&format!("On nodes of role {role}: {}.", disruption.outcome()));
    print(arguments.commands(&role.to_string(), &machine, &written))?;
    Ok(Ending::Good)
}

/// What the cluster has before the host is added.
struct Existing {
    /// The MachineConfig with the documents of the role.
    old: MachineConfig,
    /// Where that is from, for messages.
    origin: String,
    others: Vec<MachineConfig>,
    policy: DisruptionPolicy,
}

fn existing(arguments: &Arguments) -> Result<Existing> {
    let kinds = [Kind::MachineConfigs, Kind::Nodes, Kind::DisruptionPolicies];
    if let Some(objects) = arguments.source.read(&kinds)? {
        return of_cluster(arguments, objects);
    }
    let path = arguments.mc.as_deref().context("give --mc, or --cluster")?;
    Ok(Existing {
        old: read(path)?,
        origin: path.display().to_string(),
        others: decode::read(&arguments.other_mc)?,
        policy: policy(arguments.machine_configuration.as_deref())?,
    })
}

/// The MachineConfig of the role that has documents. Where several have, the one that `render` writes.
fn of_cluster(arguments: &Arguments, objects: Objects) -> Result<Existing> {
    let stem = &arguments.host.stem;
    if let Some(node) = objects.nodes.iter().find(|node| short_name(&node.name) == stem.as_str()) {
        bail!("--host {stem}: the cluster has a node {} already", node.name);
    }
    let role = arguments.role.clone().unwrap_or_else(Role::worker);
    let has_documents = |config: &&MachineConfig| {
        config.role.as_ref() == Some(&role)
            && config.files.iter().any(|file| file.path.is_within(BR_EX_FOLDER))
    };
    let names: Vec<String> = objects
        .machine_configs
        .iter()
        .filter(has_documents)
        .map(|it| it.name.to_string())
        .collect();
    let ours = format!("10-br-ex-{role}");
    let name = match names.as_slice() {
        [] => bail!(
            "the cluster has no MachineConfig with documents for role {role}; write one with \
             `oc-brex render`, or name another role with --role"
        ),
        [only] => only.clone(),
        several if several.contains(&ours) => ours,
        several => bail!(
            "{} have documents for role {role}; save the one to extend with `oc get machineconfig \
             NAME -o yaml`, and give it with --mc",
            several.join(", ")
        ),
    };
    let (mut old, others): (Vec<_>, Vec<_>) =
        objects.machine_configs.into_iter().partition(|config| config.name.as_str() == name);
    let old = old.pop().context("it was listed")?;
    Ok(Existing { old, origin: name, others, policy: objects.disruption })
}

/// Whether the machine that the document names is that of another document.
fn check_machine(configs: &[MachineConfig], stem: &DocumentName, bytes: &[u8]) -> Vec<Finding> {
    let files = configs.iter().flat_map(|config| &config.files);
    let mut named: Vec<Named> = files
        .filter(|file| file.path.is_within(BR_EX_FOLDER))
        .map(|file| {
            let host = Some(short_name(file.path.file_name()));
            Named::read(host, Reader::Unknown, file.contents.bytes())
        })
        .collect();
    let number = named.len();
    named.push(Named::read(Some(stem.as_str()), Reader::Unknown, bytes));
    let found = machines::check(&named, &[]).into_iter();
    found.filter(|(of, _)| *of == number).map(|(_, finding)| finding).collect()
}

fn read(path: &Path) -> Result<MachineConfig> {
    machine_config::parse(&reading::text(path)?)
        .with_context(|| format!("reading {}", path.display()))
}

fn policy(path: Option<&Path>) -> Result<DisruptionPolicy> {
    match path {
        Some(path) => parse_disruption_policy(&reading::text(path)?)
            .with_context(|| format!("reading {}", path.display())),
        None => Ok(DisruptionPolicy::default()),
    }
}

fn network(arguments: &Arguments, bytes: &[u8]) -> Result<NetworkState> {
    match &arguments.network {
        Some(path) => {
            let text = reading::text(path)?;
            let state = NetworkState::new_from_yaml(&text);
            state.map_err(|error| {
                anyhow::anyhow!("reading {}: nmstate does not: {}", path.display(), error.msg())
            })
        }
        None => first_network(&Document::parse(bytes))
            .with_context(|| format!("reading {}", arguments.host.file.display())),
    }
}

impl Arguments {
    fn machine(&self) -> Option<Bmc> {
        let (Some(address), Some(boot_mac)) = (&self.bmc, &self.boot_mac) else { return None };
        let credentials = self.bmc_secret.clone();
        Some(Bmc {
            address: address.clone(),
            credentials: credentials.unwrap_or_else(|| format!("{}-bmc-secret", self.host.stem)),
            boot_mac: boot_mac.to_string(),
            verify_certificate: !self.disable_certificate_verification,
        })
    }

    /// What to do now. The order matters: a machine that boots before its document is there gets
    /// a guessed br-ex.
    fn commands(&self, role: &str, machine: &Machine, written: &[PathBuf]) -> String {
        let host = &self.host.stem;
        let path =
            |at: usize| written.get(at).map(|it| it.display().to_string()).unwrap_or_default();
        let namespace = "-n openshift-machine-api";
        let mut text = format!(
            "# 1. The document, before the machine boots; wait until all nodes of the pool have it\n\
             oc apply --server-side --force-conflicts -f {}\n\
             oc wait machineconfigpool/{role} --for=condition=Updating --timeout=5m\n\
             oc wait machineconfigpool/{role} --for=condition=Updated --timeout=60m\n\
             # 2. The network it is provisioned with\n\
             oc apply --server-side -f {}\n",
            path(0),
            path(1),
        );
        if let Some(Bmc { credentials, .. }) = &machine.bmc {
            text.push_str(&format!(
                "# 3. The machine\n\
                 oc create secret generic {credentials} {namespace} --from-literal=username=<user> \
                 --from-literal=password=<password>\n\
                 oc apply --server-side -f {}\n\
                 oc wait baremetalhost/{host} {namespace} \
                 --for=jsonpath='{{.status.provisioning.state}}'=available --timeout=60m\n\
                 # 4. One more node\n\
                 oc scale machineset/{} {namespace} --replicas=<one more than now>\n",
                path(2),
                self.machine_set,
            ));
        } else {
            text.push_str(&format!(
                "# 3. Provision {host}; its BareMetalHost is to have \
                 preprovisioningNetworkDataName: {}\n",
                machine.network_secret(),
            ));
        }
        text
    }
}
