//! What to do for a change, in which order.

use std::fmt;

use super::class::{Class, Classified};
use super::difference::Subject;
use super::policy::{Nodes, Policy};

/// One step: why, and the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub what: String,
    pub commands: Vec<String>,
}

fn step(what: &str, commands: &[&str]) -> Step {
    let commands = commands.iter().map(|command| (*command).to_owned()).collect();
    Step { what: what.to_owned(), commands }
}

/// The steps for these changes. `file` is where the policy is written.
pub(super) fn steps(changes: &[Classified], policy: &Policy, file: &str) -> Vec<Step> {
    let class = changes.iter().map(|change| change.class).max();
    let Some(class) = class.filter(|class| *class != Class::Forbidden) else { return Vec::new() };
    let mut steps = vec![step(
        "Make sure that br-ex of these nodes comes from a document. Where configure-ovs made it, it \
         and a policy overwrite each other at every boot.",
        &["oc debug node/<node> -- chroot /host test -e /etc/nmstate/openshift/applied"],
    )];
    if class == Class::ClusterProcedure {
        steps.extend(procedures(changes));
    }
    let name = &policy.name;
    let apply = format!("oc apply -f {file}");
    let wait = format!("oc wait nncp/{name} --for=condition=Available --timeout=30m");
    if class == Class::Disruptive {
        let node = match &policy.nodes {
            Nodes::One(node) => node.as_str(),
            Nodes::Role(_) => "<node>",
        };
        steps.push(step(
            "Move the work away from the node. Of several nodes take one at a time, and only the next \
             when this one is Ready.",
            &[&format!("oc adm drain {node} --ignore-daemonsets --delete-emptydir-data --force")],
        ));
        steps.push(step("Change the network.", &[&apply, &wait]));
        steps.push(step(
            "Let ovnkube learn its uplink, unless it has restarted by itself, and take the node back.",
            &[
                &format!(
                    "oc delete pod -n openshift-ovn-kubernetes -l app=ovnkube-node --field-selector \
                     spec.nodeName={node}"
                ),
                &format!("oc wait node/{node} --for=condition=Ready --timeout=10m"),
                &format!("oc adm uncordon {node}"),
            ],
        ));
    } else {
        steps.push(step(
            "Change the network. A node that loses the API, its gateway or its name servers goes back \
             by itself, and no further node is touched.",
            &[&apply, &wait],
        ));
    }
    steps.push(step(
        "Bring the first-boot document up to date, so that a node that is installed again gets the \
         same. Nodes that run are not rebooted for it; at their next reboot it is applied over the \
         policy, so that the two must agree.",
        &["oc-brex render …", "oc apply -f 10-br-ex-<role>.yaml"],
    ));
    steps
}

/// What the cluster does before its nodes.
fn procedures(changes: &[Classified]) -> Vec<Step> {
    let mut steps = Vec::new();
    let cluster = || changes.iter().filter(|change| change.class == Class::ClusterProcedure);
    if let Some(mtu) = cluster().find(|change| change.difference.path() == "mtu") {
        let number = mtu.difference.new.as_ref().map(ToString::to_string).unwrap_or_default();
        steps.push(step(
            "Migrate the MTU of the cluster network first; all nodes are rebooted one by one. With \
             IPv4 alone it is at least 58 bytes below that of the nodes, with IPv6 78; 100 is usual.",
            &[
                &format!(
                    "oc patch network.operator cluster --type=merge -p '{{\"spec\":{{\"migration\":\
                     {{\"mtu\":{{\"network\":{{\"from\":<now>,\"to\":<then>}},\"machine\":{{\"to\":\
                     {number}}}}}}}}}}}'"
                ),
                "oc wait machineconfigpool --all --for=condition=Updated --timeout=2h",
            ],
        ));
    }
    let is_family = |change: &&Classified| {
        matches!(change.difference.subject, Subject::Interface { .. })
            && change.difference.path().starts_with("ipv")
    };
    if cluster().any(|change| is_family(&change)) {
        steps.push(step(
            "Give the cluster and service networks a range of the second family; ovnkube rolls out \
             by itself.",
            &["oc edit network.config cluster    # add a second clusterNetwork and serviceNetwork"],
        ));
    }
    steps
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        self.commands.iter().try_for_each(|command| write!(f, "\n     {command}"))
    }
}
