//! `oc-brex check`.

use std::path::PathBuf;

use anyhow::Result;
use br_ex::hosts::{HostDocument, Naming, Reader, check_hosts};
use br_ex::node_state::{self, NodeState};
use br_ex::{ClusterFacts, Finding, NmstateVersion, Platform, Severity};
use clap::{Args, ValueEnum};
use command_line::{Ending, print, print_message};
use ipnet::IpNet;
use machine_config::Role;

use crate::cluster::{ClusterSource, Kind};
use crate::findings::{self, Checked};
use crate::inputs::{Inputs, Known};
use crate::machines::{self, Named};
use crate::reading;

const EXAMPLES: &str = "\
Examples:
  oc-brex check hosts/
  With the networks, the MTU, the platform and the node states of the running cluster:
    oc-brex check hosts/ --cluster
  The documents that the running cluster has:
    oc-brex check --cluster";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Documents, folders of hosts (<role>/<host>.yml or <host>.yml), MachineConfigs, install-config.yaml
    #[arg(value_name = "PATH", required_unless_present = "cluster")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    source: ClusterSource,
    /// The role of hosts whose folder or name does not contain it
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// What reads the documents on the nodes: mco or brex-firstboot [default: determined by the units in the MachineConfigs]
    #[arg(long, value_name = "PROGRAM", hide_possible_values = true)]
    first_boot: Option<FirstBoot>,
    /// State of nodes to check on: NodeNetworkState objects, or the output of `nmstatectl show`; may be repeated
    #[arg(long, value_name = "FILE")]
    nns: Vec<PathBuf>,
    /// The MTU of the cluster network
    #[arg(long, value_name = "MTU")]
    cluster_mtu: Option<u32>,
    /// A network of the nodes; may be repeated
    #[arg(long, value_name = "CIDR")]
    machine_network: Vec<IpNet>,
    /// A network of pods; may be repeated
    #[arg(long, value_name = "CIDR")]
    cluster_network: Vec<IpNet>,
    /// A network of services; may be repeated
    #[arg(long, value_name = "CIDR")]
    service_network: Vec<IpNet>,
    /// Where the cluster runs, as in install-config: baremetal, none, vsphere, aws, …
    #[arg(long, value_name = "NAME")]
    platform: Option<Platform>,
    /// The nmstate of the nodes, for example 2.2.38
    #[arg(long, value_name = "VERSION")]
    nmstate_version: Option<NmstateVersion>,
    /// Treat warnings as errors
    #[arg(long)]
    deny_warnings: bool,
    /// How findings are written to standard output: text, json or sarif
    #[arg(short, long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Sarif,
}

/// The program that reads documents on nodes.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FirstBoot {
    Mco,
    BrexFirstboot,
}

impl From<FirstBoot> for Reader {
    fn from(program: FirstBoot) -> Self {
        match program {
            FirstBoot::Mco => Self::Mco,
            FirstBoot::BrexFirstboot => Self::FirstBoot,
        }
    }
}

/// Checks documents and prints what is wrong with them.
pub(crate) fn check(arguments: &Arguments) -> Result<Ending> {
    let mut states = Vec::new();
    for path in &arguments.nns {
        states.extend(reading::states(path)?);
    }
    // Without paths, the documents are those of the cluster.
    let needed = if arguments.paths.is_empty() { Kind::MachineConfigs } else { Kind::Networks };
    let others = [Kind::NodeStates, Kind::Networks, Kind::Infrastructures];
    let kinds: Vec<Kind> =
        [needed].into_iter().chain(others.into_iter().filter(|it| *it != needed)).collect();
    let objects = arguments.source.read(&kinds)?;
    let mut inputs = match (&objects, arguments.paths.is_empty()) {
        (Some(objects), true) => {
            Inputs::of_machine_configs(&objects.machine_configs, &arguments.known())?
        }
        _ => Inputs::read(&arguments.paths, &arguments.known())?,
    };
    if let Some(objects) = objects {
        inputs.cluster_facts = objects.cluster_facts();
        states.extend(objects.states.into_values());
    }
    let around = arguments.cluster_facts(&inputs.cluster_facts);
    let checked = check_documents(inputs, &around, &states);
    match arguments.output {
        Format::Text => print(findings::text(&checked))?,
        Format::Json => print(findings::json(&checked)?)?,
        Format::Sarif => print(findings::sarif(&checked))?,
    }
    print_message(&findings::summary(&checked));
    let counts = |finding: &Finding| match finding.severity {
        Severity::Error => true,
        Severity::Warning => arguments.deny_warnings,
        Severity::Info => false,
    };
    let found = checked.iter().flat_map(|checked| &checked.findings).any(counts);
    Ok(if found { Ending::Findings } else { Ending::Good })
}

fn check_documents(inputs: Inputs, around: &ClusterFacts, states: &[NodeState]) -> Vec<Checked> {
    let documents: Vec<HostDocument> =
        inputs.list.iter().map(|input| input.document.clone()).collect();
    let named: Vec<Named> = inputs.list.iter().map(|input| input.named.clone()).collect();
    let mut between = check_hosts(&documents, around);
    between.extend(machines::check(&named, states));
    between.extend(machines::unlisted(&named, &inputs.listed));
    for host in machines::without_document(&documents, &inputs.listed) {
        print_message(&format!(
            "note: {host}: it has no document, so configure-ovs creates its br-ex on the \
             interface with the default route"
        ));
    }
    let mut all: Vec<Checked> = Vec::new();
    for (number, input) in inputs.list.into_iter().enumerate() {
        let current = node_state::of_host(states, input.host.as_deref()).cloned();
        let around = ClusterFacts { current, ..around.clone() };
        let mut findings = br_ex::check(&input.document.document, &around);
        let of_this = between.iter().filter(|(of, _)| *of == number);
        findings.extend(of_this.map(|(_, finding)| finding.clone()));
        findings.extend(input.findings);
        findings.sort_by_key(|finding| finding.at);
        let is_placed = input.document.naming != Naming::Loose;
        let checked = Checked { path: input.path, inner: input.inner, host: input.host, findings };
        // A document that goes to several roles is read once for each.
        match all.last_mut() {
            Some(last)
                if is_placed
                    && last.path == checked.path
                    && last.inner == checked.inner
                    && last.host == checked.host =>
            {
                last.add(checked.findings);
            }
            _ => all.push(checked),
        }
    }
    all
}

impl Arguments {
    fn known(&self) -> Known {
        Known { role: self.role.clone(), reader: self.first_boot.map(Reader::from) }
    }

    /// Values of flags, and otherwise those of an install-config.
    fn cluster_facts(&self, configured: &ClusterFacts) -> ClusterFacts {
        let or = |given: &[IpNet], configured: &[IpNet]| {
            if given.is_empty() { configured.to_vec() } else { given.to_vec() }
        };
        ClusterFacts {
            cluster_mtu: self.cluster_mtu.or(configured.cluster_mtu),
            machine_networks: or(&self.machine_network, &configured.machine_networks),
            cluster_networks: or(&self.cluster_network, &configured.cluster_networks),
            service_networks: or(&self.service_network, &configured.service_networks),
            platform: self.platform.or(configured.platform),
            nmstate: self.nmstate_version,
            current: None,
        }
    }
}
