//! `oc-brex migrate`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use br_ex::day2::{self, Migration};
use br_ex::inventory::{FoundFile, place_files};
use br_ex::node_state::{self, NodeState};
use br_ex::render::machine_configs;
use br_ex::{Document, Severity, Surroundings};
use clap::Args;
use command_line::{Ending, print, say};
use machine_config::{Encoding, Role};

use crate::{reading, writing};

const EXAMPLES: &str = "\
Example:
  oc get nns worker-0.example.com worker-1.example.com -o yaml > nns.yaml
  oc-brex migrate --nns nns.yaml --role worker -o migration
The commands to run are printed, in their order.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// NodeNetworkStates of the nodes to migrate, all of one role; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    nns: Vec<PathBuf>,
    /// The role of these nodes
    #[arg(long, value_name = "ROLE")]
    role: Role,
    /// Folder to write documents and manifests to
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes documents for nodes whose br-ex was guessed, and what brings them into use.
pub(crate) fn migrate(arguments: &Arguments) -> Result<Ending> {
    let mut nodes: Vec<NodeState> = Vec::new();
    for path in &arguments.nns {
        let reading = || format!("reading {}", path.display());
        nodes.extend(node_state::parse(&reading::text(path)?).with_context(reading)?);
    }
    let mut files = Vec::new();
    let mut names = BTreeSet::new();
    let mut has_errors = false;
    for node in &nodes {
        let Migration { node: name, text, way_back, notes } = day2::migrate(node)?;
        let short = name.split('.').next().unwrap_or(&name).to_owned();
        if !names.insert(short.clone()) {
            bail!("two nodes are called {short}; a document is chosen by the short name");
        }
        for note in notes {
            say(&format!("note: {name}: {note}"));
        }
        let path = format!("{}/{short}.yml", arguments.role);
        let around = Surroundings { current: Some(node.state.clone()), ..Surroundings::default() };
        for finding in br_ex::check(&Document::parse(text.as_bytes()), &around) {
            say(&format!("{path}:{finding}"));
            has_errors |= finding.severity == Severity::Error;
        }
        if let Some(back) = way_back {
            writing::file(&arguments.out, &format!("way-back/{short}.yml"), back)?;
        }
        writing::file(&arguments.out, &format!("hosts/{path}"), &text)?;
        files.push(FoundFile { path, bytes: text.into_bytes() });
    }
    if has_errors {
        say(
            "No manifests were written: the documents have errors. They are in hosts; correct them \
             and give them to `oc-brex render`.",
        );
        return Ok(Ending::Findings);
    }
    let inventory = place_files("hosts", &files, None).into_inventory().map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", lines.join("; "))
    })?;
    let reboot = day2::force_reboot(&arguments.role)?;
    let mut manifests = Vec::new();
    for config in machine_configs(&inventory, Encoding::Plain)?.iter().chain([&reboot]) {
        let name = format!("manifests/{}.yaml", config.name);
        manifests.push(writing::file(&arguments.out, &name, config.to_yaml()?)?);
    }
    let [documents, reboot_file] = manifests.as_slice() else {
        bail!("nodes of one role are due");
    };
    let role = &arguments.role;
    let wait = format!(
        "oc wait machineconfigpool/{role} --for=condition=Updating --timeout=5m\n\
         oc wait machineconfigpool/{role} --for=condition=Updated --timeout=2h\n"
    );
    print(format!(
        "# 1. The documents; nodes get files, and nothing else happens\n\
         oc apply -f {}\n{wait}\
         # 2. Reboot the nodes of the pool one by one; each makes its br-ex of its document.\n\
         #    Look at the first one before the second follows: `oc adm pause` is not needed, the pool\n\
         #    stops at a node that does not come back.\n\
         oc apply -f {}\n{wait}\
         # 3. Every node now has br-ex from its document\n\
         oc debug node/<node> -- chroot /host cat /etc/nmstate/openshift/applied\n\
         # 4. The file that rebooted them; taking it away reboots once more unless a disruption policy\n\
         #    covers /etc/force-reboot, so leave it until a reboot is due anyway\n\
         oc delete machineconfig {}\n\
         # Way back, for a node: give it back to configure-ovs. Taking its document out of the\n\
         # MachineConfig is not enough, because the flag stays.\n\
         #   remove its file from {} and apply that; then on the node, at its console or by oc debug:\n\
         #   nmstatectl apply {}/way-back/<node>.yml\n\
         #   rm /etc/nmstate/openshift/applied /etc/nmstate/<node>.yml /etc/nmstate/<node>.applied\n\
         #   systemctl reboot\n",
        documents.display(),
        reboot_file.display(),
        reboot.name,
        documents.display(),
        arguments.out.display(),
    ))?;
    Ok(Ending::Good)
}
