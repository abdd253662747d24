//! `oc-brex migrate`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use br_ex::node_state::NodeState;
use br_ex::{ClusterFacts, Document, Severity};
use br_ex_authoring::inventory::{DocumentName, FoundFile, place_files, short_name};
use br_ex_authoring::render::machine_configs;
use br_ex_day2::Migration;
use clap::Args;
use command_line::{Ending, print, print_message};
use machine_config::{Encoding, MachineConfig, Role};

use crate::cluster::objects::ClusterNode;
use crate::cluster::{ClusterSource, Kind};
use crate::{reading, writing};

const EXAMPLES: &str = "\
Examples:
  All nodes of a role of the running cluster:
    oc-brex migrate --cluster --role worker --out migration
  From a file:
    oc get nns worker-0.example.com worker-1.example.com -o yaml > nns.yaml
    oc-brex migrate --nns nns.yaml --role worker --out migration
The commands to run are printed, in their order.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// NodeNetworkStates of the nodes to migrate, all of one role; may be repeated
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "cluster",
        conflicts_with = "cluster"
    )]
    nns: Vec<PathBuf>,
    #[command(flatten)]
    source: ClusterSource,
    /// The role of these nodes; with --cluster all nodes of the role are migrated
    #[arg(long, value_name = "ROLE")]
    role: Role,
    /// Folder to write documents and manifests to
    #[arg(long, short_alias = 'o', value_name = "DIR")]
    out: PathBuf,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// Writes documents for nodes whose br-ex was guessed, and what activates them. Everything is
/// computed first, so that a refusal leaves no files.
pub(crate) fn migrate(arguments: &Arguments) -> Result<Ending> {
    let role = &arguments.role;
    if let Some(meant) = role.almost() {
        bail!(
            "--role {role}: every cluster has a pool {meant}; expected that name, or one unlike it"
        );
    }
    let nodes = nodes(arguments)?;
    check_role(role, &nodes)?;
    let mut files = Vec::new();
    let mut written: Vec<(String, String)> = Vec::new();
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for node in &nodes {
        let Migration { node: name, text, way_back, notes } = br_ex_day2::migrate(node)?;
        let short = short_name(&name).to_owned();
        if !names.insert(short.clone()) {
            bail!("two nodes are named {short}; a document is selected by the short name");
        }
        if DocumentName::of_host(&name)?.is_cluster() {
            bail!(
                "node {name}: a document with this name is for all nodes of the role; rename the node, \
                 or write a document that names the machine with `# brex-match`"
            );
        }
        for note in notes {
            print_message(&format!("note: {name}: {note}"));
        }
        let path = format!("{role}/{short}.yml");
        let around = ClusterFacts { current: Some(node.state.clone()), ..ClusterFacts::default() };
        for finding in br_ex::check(&Document::parse(text.as_bytes()), &around) {
            if finding.severity == Severity::Error {
                let remedy = finding.rule.rule().remedy;
                problems.push(format!(
                    "{name}: {} [{}]\n    do:  {remedy}",
                    finding.message, finding.rule
                ));
            } else {
                print_message(&format!("{path}:{finding}"));
            }
        }
        if let Some(back) = way_back {
            written.push((format!("way-back/{short}.yml"), back));
        }
        written.push((format!("hosts/{path}"), text.clone()));
        files.push(FoundFile { path, bytes: text.into_bytes() });
    }
    if !problems.is_empty() {
        problems.iter().for_each(|problem| print_message(&format!("error: {problem}")));
        print_message(
            "Nothing was written. Correct the network of these nodes and run `migrate` again, or write \
             their documents with `oc-brex init` and give them to `oc-brex render`.",
        );
        return Ok(Ending::Findings);
    }
    let inventory = place_files("hosts", &files, None).into_inventory().map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", lines.join("; "))
    })?;
    let reboot = br_ex_day2::force_reboot(role)?;
    let configs = machine_configs(&inventory, Encoding::Plain)?;
    let [documents] = configs.as_slice() else { bail!("expected nodes of one role") };
    for config in [documents, &reboot] {
        written.push((format!("manifests/{}.yaml", config.name), config.to_yaml()?));
    }
    writing::files(&arguments.out, &written, arguments.force)?;
    print(commands(role, &arguments.out, documents, &reboot))?;
    Ok(Ending::Good)
}

/// The nodes to migrate, from files or from the cluster.
fn nodes(arguments: &Arguments) -> Result<Vec<NodeState>> {
    let kinds = [Kind::NodeStates, Kind::Nodes, Kind::MachineConfigs];
    if let Some(objects) = arguments.source.read(&kinds)? {
        let is_of_role = |node: &&ClusterNode| objects.role(node).as_ref() == Some(&arguments.role);
        let nodes: Vec<&ClusterNode> = objects.nodes.iter().filter(is_of_role).collect();
        if nodes.is_empty() {
            let roles: BTreeSet<String> = objects
                .nodes
                .iter()
                .filter_map(|it| objects.role(it))
                .map(|it| it.to_string())
                .collect();
            let roles = roles.into_iter().collect::<Vec<_>>().join(", ");
            bail!(
                "--role {}: the cluster has no such nodes; its nodes have the roles {roles}",
                arguments.role
            );
        }
        let has_document = |node: &&ClusterNode| objects.document(node).document.is_some();
        if let Some(node) = nodes.iter().copied().find(has_document) {
            bail!(
                "node {} has a document already, so configure-ovs does not create its br-ex; \
                 `oc-brex status` shows the nodes, and --nns migrates the others",
                node.name
            );
        }
        return objects.states_of(&nodes);
    }
    let mut nodes = Vec::new();
    for path in &arguments.nns {
        nodes.extend(reading::states(path)?);
    }
    Ok(nodes)
}

/// A node whose name contains another role would get the documents of the wrong pool.
fn check_role(role: &Role, nodes: &[NodeState]) -> Result<()> {
    for name in nodes.iter().filter_map(|node| node.name.as_deref()) {
        let named = DocumentName::of_host(name).ok().and_then(|stem| stem.role());
        if let Some(named) = named.filter(|named| named != role && !role.is_custom()) {
            bail!(
                "node {name} has the name of a {named}, and --role is {role}; run `migrate` once for \
                 each role, with the NodeNetworkStates of its nodes"
            );
        }
    }
    Ok(())
}

/// The commands, in their order.
fn commands(role: &Role, out: &Path, documents: &MachineConfig, reboot: &MachineConfig) -> String {
    let manifest = |config: &MachineConfig| {
        out.join("manifests").join(format!("{}.yaml", config.name)).display().to_string()
    };
    let apply = "oc apply --server-side --force-conflicts -f";
    let wait = format!(
        "oc wait machineconfigpool/{role} --for=condition=Updating --timeout=5m\n\
         oc wait machineconfigpool/{role} --for=condition=Updated --timeout=2h\n"
    );
    let pause = |paused: bool| {
        format!(
            "oc patch machineconfigpool/{role} --type=merge -p '{{\"spec\":{{\"paused\":{paused}}}}}'"
        )
    };
    let documents = manifest(documents);
    format!(
        "# 1. The documents: nodes get files, and nothing else happens\n\
         {apply} {documents}\n{wait}\
         # 2. Reboot the nodes of the pool one by one; each makes its br-ex from its document.\n\
         #    The pool stops at a node that does not become Ready. To check the first node before\n\
         #    the second follows, pause the pool when the first one reboots, and resume it later:\n\
         #    {}\n\
         #    {}\n\
         {apply} {}\n{wait}\
         # 3. Every node now has br-ex from its document\n\
         oc debug node/<node> -- chroot /host cat /etc/nmstate/openshift/applied\n\
         # 4. Remove the file that caused the reboot. This reboots the nodes again unless a disruption\n\
         #    policy covers /etc/force-reboot, so wait until a reboot is needed anyway\n\
         oc delete machineconfig {}\n\
         # To return a node to configure-ovs: removing its document from the MachineConfig is not\n\
         # enough, because the flag stays. Remove its file from {documents},\n\
         # apply that, and then on the node, at its console or with oc debug:\n\
         #   nmstatectl apply {}/way-back/<node>.yml\n\
         #   rm /etc/nmstate/openshift/applied /etc/nmstate/<node>.yml /etc/nmstate/<node>.applied\n\
         #   systemctl reboot\n",
        pause(true),
        pause(false),
        manifest(reboot),
        reboot.name,
        out.display(),
    )
}
