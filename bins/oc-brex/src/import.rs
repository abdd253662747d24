//! `oc-brex import`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use br_ex::hosts::{HostDocument, Naming, check_hosts};
use br_ex::{ClusterFacts, Document, Severity};
use br_ex_authoring::add_bridge::add_bridge;
use br_ex_authoring::host_list::{self, ListedHost};
use br_ex_authoring::install_config;
use br_ex_authoring::inventory::DocumentName;
use clap::Args;
use command_line::{Ending, print, print_message};
use machine_config::Role;

use crate::{reading, writing};

const EXAMPLES: &str = "\
Examples:
  oc-brex import agent-config.yaml --out hosts
  oc-brex import bmh.yaml --out hosts      # BareMetalHosts and the Secrets with their networks
The interface with the default route becomes the uplink of br-ex; its addresses and routes go to br-ex.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// AgentConfig, NMStateConfig, BareMetalHost with its Secret, ClusterInstance, SiteConfig or
    /// install-config
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The interface that br-ex is to use [default: the one with the default route]
    #[arg(long, value_name = "NAME")]
    uplink: Option<String>,
    /// The role of hosts whose list does not contain it
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// Folder to write <role>/<host>.yml or <host>.yml to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// Writes a document with br-ex for every host of these lists, or nothing.
pub(crate) fn import(arguments: &Arguments) -> Result<Ending> {
    let mut written: Vec<(String, String)> = Vec::new();
    let mut names = BTreeSet::new();
    let mut documents: Vec<HostDocument> = Vec::new();
    let mut has_errors = false;
    let role = || arguments.role.as_ref().map(ToString::to_string);
    for path in &arguments.files {
        let reading = || format!("reading {}", path.display());
        let text = reading::text(path)?;
        let hosts = host_list::parse(&text).with_context(reading)?;
        let has_documents =
            || install_config::parse(&text).is_ok_and(|config| !config.hosts.is_empty());
        if hosts.is_empty() && has_documents() {
            bail!(
                "reading {}: networking.hostConfig holds documents already; give the file to \
                 `oc-brex render --install-config`",
                path.display(),
            );
        }
        if hosts.is_empty() {
            bail!(
                "reading {}: expected one of {} or an install-config with platform.baremetal.hosts, \
                 found no host",
                path.display(),
                host_list::KINDS.join(", ")
            );
        }
        for host in &hosts {
            let of_host =
                || format!("{}: line {}: host {}", path.display(), host.at.line, host.name);
            let Some(network) = &host.network else {
                print_message(&format!(
                    "note: {}: it has no network, so no document is written",
                    of_host()
                ));
                continue;
            };
            let network = Document::of_installation(network);
            let text = add_bridge(&network, arguments.uplink.as_deref(), &host.macs)
                .with_context(of_host)?;
            let name = file_name(host, arguments.role.as_ref()).with_context(of_host)?;
            if !names.insert(name.clone()) {
                bail!("{}: another host has this name", of_host());
            }
            for finding in br_ex::check(&Document::parse(text.as_bytes()), &ClusterFacts::default())
            {
                if finding.severity != Severity::Info {
                    print_message(&format!("{name}:{finding}"));
                }
                has_errors |= finding.severity == Severity::Error;
            }
            documents.push(HostDocument {
                role: host.role.clone().or(role()).unwrap_or_default(),
                name: host.name.clone(),
                naming: Naming::Host,
                document: Document::parse(text.as_bytes()),
            });
            written.push((name, text));
        }
    }
    // The same address or MAC address on two hosts.
    for (number, finding) in check_hosts(&documents, &ClusterFacts::default()) {
        if finding.severity == Severity::Error {
            print_message(&format!("{}:{finding}", written[number].0));
            has_errors = true;
        }
    }
    if has_errors {
        print_message("Nothing was written. Correct the networks, and import them again.");
        return Ok(Ending::Findings);
    }
    for path in writing::files(&arguments.out, &written, arguments.force)? {
        print(format!("{}\n", path.display()))?;
    }
    Ok(Ending::Good)
}

fn file_name(host: &ListedHost, role: Option<&Role>) -> Result<String> {
    let stem = DocumentName::of_host(&host.name)?;
    let named: Option<Role> = host.role.as_deref().map(str::parse).transpose()?;
    Ok(match named.as_ref().or(role) {
        Some(role) => format!("{role}/{stem}.yml"),
        None => format!("{stem}.yml"),
    })
}
