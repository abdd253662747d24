//! The steps of a change, in their order: every procedure that a change of it needs.

use std::fmt;

use br_ex::hosts::Reader;

use crate::class::{Class, Classified};
use crate::difference::Subject;
use crate::policy::{Nodes, Policy};

/// What the overlay takes of the nodes' MTU by default.
const OVERLAY: u64 = 100;

/// One step: why, and the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub what: String,
    pub commands: Vec<String>,
}

fn step(what: impl Into<String>, commands: &[&str]) -> Step {
    let commands = commands.iter().map(|command| (*command).to_owned()).collect();
    Step { what: what.into(), commands }
}

/// Procedures of the whole cluster that changes belong to.
#[derive(Debug, Default)]
struct Procedures {
    /// The new MTU of br-ex.
    mtu: Option<u64>,
    second_family: bool,
}

impl Procedures {
    fn of(changes: &[Classified]) -> Self {
        let mut all = Self::default();
        for change in changes.iter().filter(|change| change.class == Class::ClusterProcedure) {
            let difference = &change.difference;
            if difference.path() == "mtu" {
                let new = difference.new.as_ref().and_then(serde_json::Value::as_u64);
                all.mtu = [all.mtu, new].into_iter().flatten().min();
            }
            let is_interface = matches!(difference.subject, Subject::Interface { .. });
            all.second_family |= is_interface && difference.path().starts_with("ipv");
        }
        all
    }
}

/// The steps for these changes. `file` is where the policy is written, `reader` what applies the
/// first-boot documents of these nodes.
pub(super) fn steps(
    changes: &[Classified],
    policy: &Policy,
    file: &str,
    reader: Reader,
) -> Vec<Step> {
    let class = changes.iter().map(|change| change.class).max();
    let Some(class) = class.filter(|class| *class != Class::Forbidden) else { return Vec::new() };
    let procedures = Procedures::of(changes);
    let mut steps = vec![step(
        "Make sure that br-ex of these nodes comes from a document. Where configure-ovs made it, it \
         and a policy overwrite each other at every boot.",
        &["oc debug node/<node> -- chroot /host test -e /etc/nmstate/openshift/applied"],
    )];
    if let Some(mtu) = procedures.mtu {
        steps.extend(before_mtu(mtu));
    }
    steps.extend(change_network(class, policy, file));
    if let Some(mtu) = procedures.mtu {
        steps.extend(after_mtu(mtu));
    }
    if procedures.second_family {
        steps.extend(second_family());
    }
    steps.push(first_boot_document(reader));
    steps
}

fn change_network(class: Class, policy: &Policy, file: &str) -> Vec<Step> {
    let apply = format!("oc apply --server-side -f {file}");
    let wait = format!("oc wait nncp/{} --for=condition=Available --timeout=30m", policy.name);
    if class != Class::Disruptive {
        return vec![step(
            "Change the network. A node that loses the API, its gateway or its name servers rolls \
             back by itself, and no further node is changed.",
            &[&apply, &wait],
        )];
    }
    let node = match &policy.nodes {
        Nodes::One(node) => node.as_str(),
        Nodes::Role(_) => "<node>",
    };
    vec![
        step(
            "Move the workload away from the node. Of several nodes change one at a time, and the \
             next when this one is Ready.",
            &[&format!("oc adm drain {node} --ignore-daemonsets --delete-emptydir-data --force")],
        ),
        step("Change the network.", &[&apply, &wait]),
        step(
            "Let ovnkube learn its uplink, unless it has restarted by itself, and make the node \
             schedulable again.",
            &[
                &format!(
                    "oc delete pod -n openshift-ovn-kubernetes -l app=ovnkube-node --field-selector \
                     spec.nodeName={node}"
                ),
                &format!("oc wait node/{node} --for=condition=Ready --timeout=10m"),
                &format!("oc adm uncordon {node}"),
            ],
        ),
    ]
}

const WAIT_FOR_POOLS: [&str; 2] = [
    "oc wait machineconfigpool --all --for=condition=Updating --timeout=10m",
    "oc wait machineconfigpool --all --for=condition=Updated --timeout=4h",
];

/// The first half of a migration of the cluster network's MTU.
fn before_mtu(mtu: u64) -> Vec<Step> {
    let to = mtu.saturating_sub(OVERLAY);
    let start = format!(
        "oc patch network.operator cluster --type=merge -p '{{\"spec\":{{\"migration\":{{\"mtu\":\
         {{\"network\":{{\"from\":<from>,\"to\":{to}}},\"machine\":{{\"to\":{mtu}}}}}}}}}}}'"
    );
    let [updating, updated] = WAIT_FOR_POOLS;
    vec![
        step(
            "Make sure that the MTU migration finds the profiles of br-ex. mtu-migration.sh looks \
             for the NetworkManager profiles `ovs-if-br-ex` and `ovs-if-phys0` and aborts without \
             them; nmstate calls them `br-ex-if` and `<NIC>`. Where they are missing, set \
             `profile-name: ovs-if-br-ex` on the ovs-interface and `profile-name: ovs-if-phys0` on \
             the uplink, in the document and in a policy, before you start (`oc-brex topology \
             --profile-names`). This was not tested on a cluster: try it on one node.",
            &["oc debug node/<node> -- chroot /host nmcli -g NAME connection show"],
        ),
        step(
            "Note the MTU of the cluster network now; it is <from> below. Make sure that no pool is \
             updating or degraded, and that switches carry the larger of the two MTUs.",
            &[
                "oc get network.config cluster -o jsonpath='{.status.clusterNetworkMTU}'",
                "oc get machineconfigpool",
            ],
        ),
        step(
            format!(
                "Start the migration: all nodes are rebooted one by one, and both MTUs work \
                 meanwhile. {to} is {OVERLAY} below {mtu}; at least 58 are needed with IPv4 alone, \
                 78 with IPv6."
            ),
            &[&start, updating, updated],
        ),
    ]
}

/// The second half, when all nodes have the new MTU.
fn after_mtu(mtu: u64) -> Vec<Step> {
    let to = mtu.saturating_sub(OVERLAY);
    let finish = format!(
        "oc patch network.operator cluster --type=merge -p '{{\"spec\":{{\"migration\":null,\
         \"defaultNetwork\":{{\"ovnKubernetesConfig\":{{\"mtu\":{to}}}}}}}}}'"
    );
    let [updating, updated] = WAIT_FOR_POOLS;
    vec![
        step(
            "Change all other nodes of the cluster in the same way, and only then go on: a node with \
             the old MTU does not start ovnkube after the next step.",
            &[
                "oc get nns -o custom-columns='NODE:.metadata.name,MTU:.status.currentState.interfaces[?(@.name==\"br-ex\")].mtu'",
            ],
        ),
        step(
            "Finish the migration. Without this step the cluster keeps migrating, and cannot be \
             updated; all nodes are rebooted again.",
            &[&finish, updating, updated],
        ),
        step(
            "Check the result. nmstate-configuration removes /etc/cno/mtu-migration at the next \
             boot, or brex-firstboot-mtu-residue does.",
            &[
                "oc get network.config cluster -o jsonpath='{.status.clusterNetworkMTU}'",
                "oc get network.operator cluster -o jsonpath='{.spec.migration}'",
            ],
        ),
    ]
}

fn second_family() -> Vec<Step> {
    vec![step(
        "When all nodes have addresses and a default route of the second family, give the cluster \
         and service networks a range of it; ovnkube restarts on every node. On platforms with VIPs \
         also add the VIPs and machine networks of that family to the Infrastructure.",
        &[
            "oc patch network.config cluster --type=json -p '[{\"op\":\"add\",\"path\":\
             \"/spec/clusterNetwork/-\",\"value\":{\"cidr\":\"<range>\",\"hostPrefix\":64}},\
             {\"op\":\"add\",\"path\":\"/spec/serviceNetwork/-\",\"value\":\"<range>\"}]'",
            "oc rollout status -n openshift-ovn-kubernetes daemonset/ovnkube-node",
        ],
    )]
}

/// The document that a node which is installed again gets.
fn first_boot_document(reader: Reader) -> Step {
    let mut what =
        "Update the first-boot document, so that a node that is installed again gets the \
                    same network. Running nodes are not rebooted for it."
            .to_owned();
    match reader {
        Reader::Mco => what.push_str(
            " At their next reboot the machine config operator's nmstate-configuration applies it \
             over the policy, so the two must agree.",
        ),
        Reader::Unknown => what.push_str(
            " Where the machine config operator's own nmstate-configuration is in use, it applies \
             the document over the policy at the next reboot, so the two must agree.",
        ),
        Reader::FirstBoot => {}
    }
    let apply = "oc apply --server-side --force-conflicts -f 10-br-ex-<role>.yaml";
    step(what, &["oc-brex render --hosts hosts --out .", apply])
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        self.commands.iter().try_for_each(|command| write!(f, "\n     {command}"))
    }
}
