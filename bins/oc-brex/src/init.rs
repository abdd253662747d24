//! `oc-brex init`: a document step by step, starting from the network that a node has.

mod prompt;
mod questions;

use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::{ClusterFacts, Document, Severity};
use br_ex_authoring::proposal::Proposal;
use clap::Args;
use command_line::{Ending, print, print_message};
use ipnet::IpNet;
use nmstate::NetworkState;
use prompt::{Prompt, Silent, Terminal};
use questions::Given;

use crate::cluster::ClusterArguments;
use crate::{reading, writing};

const EXAMPLES: &str = "\
Examples:
  Prompt for values; the defaults are what the node has now:
    oc get nns worker-0.example.com -o yaml > nns.yaml
    oc-brex init --nns nns.yaml --out hosts/worker/worker-0.yml
  The same from the running cluster, without prompts, with NICs identified by MAC address:
    oc-brex init --node worker-0.example.com --by-mac --yes --out hosts/worker/worker-0.yml
  Without a node:
    oc-brex init --uplink eno1,eno2 --bond 802.3ad --vlan-id 100 --dhcp --yes";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The current network of the node: a NodeNetworkState, or the output of `nmstatectl show`
    #[arg(long, value_name = "FILE")]
    nns: Option<PathBuf>,
    /// The node, if --nns has several; without --nns it is read from the running cluster
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// NICs below br-ex, by name or MAC address; repeated or with commas
    #[arg(long, value_name = "NIC", value_delimiter = ',')]
    uplink: Vec<String>,
    /// Identify the NICs by their MAC addresses, whatever their names are
    #[arg(long)]
    by_mac: bool,
    /// Mode of the bond of several NICs: active-backup, 802.3ad, balance-xor or balance-slb
    #[arg(long, value_name = "MODE")]
    bond: Option<String>,
    /// The number of the VLAN; 0 for none
    #[arg(long, value_name = "ID")]
    vlan_id: Option<u16>,
    /// Take addresses from DHCP, and for IPv6 from router advertisements
    #[arg(long, conflicts_with = "addresses")]
    dhcp: bool,
    /// With --dhcp: ipv4, ipv6 or dual
    #[arg(long, value_name = "FAMILY")]
    ip_family: Option<String>,
    /// A static address with its prefix, 192.0.2.10/24; may be repeated
    #[arg(long = "static", value_name = "ADDRESS", value_delimiter = ',')]
    addresses: Vec<IpNet>,
    /// The gateway, one per family; may be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    gateway: Vec<IpAddr>,
    /// A name server; may be repeated
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    dns: Vec<IpAddr>,
    /// The MTU of br-ex and everything below it
    #[arg(long, value_name = "MTU")]
    mtu: Option<u32>,
    /// Do not prompt; values without a flag are those of the node
    #[arg(long)]
    yes: bool,
    /// File to write; without it the document is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
}

/// Writes a document that satisfies every rule, or nothing.
pub(crate) fn init(arguments: &Arguments) -> Result<Ending> {
    let current = current(arguments)?;
    let proposal = current.as_ref().map(Proposal::of).unwrap_or_default();
    let given = Given {
        uplinks: arguments.uplink.clone(),
        by_mac: arguments.by_mac,
        bond: arguments.bond.clone(),
        vlan: arguments.vlan_id,
        dhcp: arguments.dhcp,
        families: arguments.ip_family.clone(),
        addresses: arguments.addresses.clone(),
        gateways: arguments.gateway.clone(),
        servers: arguments.dns.clone(),
        mtu: arguments.mtu,
    };
    let mut prompt: Box<dyn Prompt> = match (arguments.yes, std::io::stdin().is_terminal()) {
        (true, _) => Box::new(Silent { accepts_proposals: true }),
        (false, true) => Box::new(Terminal),
        (false, false) => Box::new(Silent { accepts_proposals: false }),
    };
    let topology = questions::ask(&given, &proposal, prompt.as_mut())?;
    let text = topology.document()?;
    if let Some(remark) = topology.remark() {
        print_message(&format!("note: {remark}"));
    }
    let around = ClusterFacts { current, ..ClusterFacts::default() };
    let findings = br_ex::check(&Document::parse(text.as_bytes()), &around);
    for finding in &findings {
        print_message(&format!("document:{finding}"));
    }
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        print_message("Nothing was written. Choose other values, and run it again.");
        return Ok(Ending::Findings);
    }
    match &arguments.out {
        None => print(text)?,
        Some(path) => {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            let name = path.file_name().context("--out: expected the name of a file")?;
            let file = (name.to_string_lossy().into_owned(), text);
            let folder = folder.unwrap_or(Path::new("."));
            for path in writing::files(folder, &[file], arguments.force)? {
                print(format!("{}\n", path.display()))?;
            }
        }
    }
    Ok(Ending::Good)
}

/// The current network of the node, if one is named.
fn current(arguments: &Arguments) -> Result<Option<NetworkState>> {
    if let Some(path) = &arguments.nns {
        let mut states = reading::states(path)?;
        let names: Vec<String> = states.iter().filter_map(|it| it.name.clone()).collect();
        if let Some(node) = &arguments.node {
            states.retain(|it| it.name.as_deref() == Some(node.as_str()));
        }
        return match (states.pop(), states.len()) {
            (Some(state), 0) => Ok(Some(state.state)),
            (None, _) => bail!(
                "--node {}: {} has {}",
                arguments.node.as_deref().unwrap_or_default(),
                path.display(),
                names.join(", ")
            ),
            _ => bail!(
                "{} has several nodes; give --node with one of {}",
                path.display(),
                names.join(", ")
            ),
        };
    }
    let Some(node) = &arguments.node else { return Ok(None) };
    Ok(Some(arguments.cluster.state_of(node)?.state))
}
