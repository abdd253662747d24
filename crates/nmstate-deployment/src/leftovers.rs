//! The objects that kubernetes-nmstate creates in a cluster, and the order in which they are
//! removed after its operator. Its CRDs, their objects that users created, and its namespaces are
//! not among them.

use std::fmt;

/// Where its objects of a kind are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Anywhere in the cluster, under these names.
    Cluster(&'static [&'static str]),
    /// In its namespaces, under these names. Objects of this kind may not be read in all namespaces.
    Named(&'static [&'static str]),
    /// In its namespaces: whatever an `NMState` owns. Names differ from version to version.
    Owned,
}

/// A kind of object that it deploys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub found: Found,
    pub stage: Stage,
}

/// When an object is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What others call: without it no client waits for pods that are about to end.
    Front,
    /// What runs pods.
    Workload,
    /// What those pods need until they end: a handler in the middle of a change that loses its
    /// permissions rolls a good change back.
    Rest,
}

const CLUSTER_ROLES: Found = Found::Cluster(&["nmstate-handler", "nmstate-cluster-reader"]);
/// The names of its admission policies, and of their bindings.
pub(crate) const ADMISSION: [&str; 2] =
    ["nncp-validation-policy", "nncp-validation-policy-binding"];
/// The name of its webhooks.
pub(crate) const WEBHOOKS: [&str; 1] = ["nmstate"];
/// The name of its part of the console.
pub const CONSOLE_PLUGIN: &str = "nmstate-console-plugin";
pub(crate) const CONFIG_MAPS: [&str; 3] = ["nmstate-tls-config", "nginx-conf", "nmstate-config"];

/// All kinds, in the order of removal.
pub const KINDS: [Kind; 18] = {
    use Found::{Cluster, Named, Owned};
    use Stage::{Front, Rest, Workload};
    const fn kind(
        [group, version, kind, plural]: [&'static str; 4],
        found: Found,
        stage: Stage,
    ) -> Kind {
        Kind { group, version, kind, plural, found, stage }
    }
    const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";
    const RBAC: &str = "rbac.authorization.k8s.io";
    const MONITORING: &str = "monitoring.coreos.com";
    [
        kind(
            [
                ADMISSION_GROUP,
                "v1",
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            ],
            Cluster(&WEBHOOKS),
            Front,
        ),
        kind(
            [
                ADMISSION_GROUP,
                "v1",
                "ValidatingAdmissionPolicyBinding",
                "validatingadmissionpolicybindings",
            ],
            Cluster(&ADMISSION),
            Front,
        ),
        kind(
            [ADMISSION_GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"],
            Cluster(&ADMISSION),
            Front,
        ),
        kind(
            ["console.openshift.io", "v1", "ConsolePlugin", "consoleplugins"],
            Cluster(&[CONSOLE_PLUGIN]),
            Front,
        ),
        kind(["apps", "v1", "DaemonSet", "daemonsets"], Owned, Workload),
        kind(["apps", "v1", "Deployment", "deployments"], Owned, Workload),
        kind(["policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"], Owned, Rest),
        kind(["networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"], Owned, Rest),
        kind([MONITORING, "v1", "ServiceMonitor", "servicemonitors"], Owned, Rest),
        kind([MONITORING, "v1", "PrometheusRule", "prometheusrules"], Owned, Rest),
        kind(["", "v1", "Service", "services"], Owned, Rest),
        kind(["", "v1", "ConfigMap", "configmaps"], Named(&CONFIG_MAPS), Rest),
        kind([RBAC, "v1", "RoleBinding", "rolebindings"], Owned, Rest),
        kind([RBAC, "v1", "Role", "roles"], Owned, Rest),
        kind([RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"], CLUSTER_ROLES, Rest),
        kind([RBAC, "v1", "ClusterRole", "clusterroles"], CLUSTER_ROLES, Rest),
        kind(["", "v1", "ServiceAccount", "serviceaccounts"], Owned, Rest),
        CONSOLE,
    ]
};

/// The console's own settings: only the entry of the plugin is a leftover.
pub const CONSOLE: Kind = Kind {
    group: "operator.openshift.io",
    version: "v1",
    kind: "Console",
    plural: "consoles",
    found: Found::Cluster(&["cluster"]),
    stage: Stage::Front,
};

/// Something that kubernetes-nmstate left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub kind: &'static Kind,
    /// Empty for objects without a namespace.
    pub namespace: String,
    pub name: String,
    /// The object that was observed: another one with the same name is not affected.
    pub uid: String,
    /// It is being deleted already.
    pub is_going: bool,
}

impl fmt::Display for Leftover {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind: Kind { kind, .. }, namespace, name, .. } = self;
        if *kind == CONSOLE.kind {
            return write!(out, "the plugin {CONSOLE_PLUGIN} in the list of the {kind} {name}");
        }
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(out, "{kind} {namespace}{slash}{name}")
    }
}

/// Sorts leftovers in the order of removal, each once.
pub fn sort(left: &mut Vec<Leftover>) {
    let place = |left: &Leftover| KINDS.iter().position(|kind| kind == left.kind);
    left.sort_by_key(|left| (place(left), left.namespace.clone(), left.name.clone()));
    left.dedup_by(|one, two| {
        (one.kind, &one.namespace, &one.name) == (two.kind, &two.namespace, &two.name)
    });
}

/// What may be removed now: everything, once no pods of theirs run any more.
pub(crate) fn may_go(left: &[Leftover]) -> Vec<Leftover> {
    let last = if workloads(left).next().is_some() { Stage::Workload } else { Stage::Rest };
    let now = |left: &&Leftover| left.kind.stage <= last && !left.is_going;
    left.iter().filter(now).cloned().collect()
}

/// What runs pods.
pub(crate) fn workloads(left: &[Leftover]) -> impl Iterator<Item = &Leftover> {
    left.iter().filter(|left| left.kind.stage == Stage::Workload)
}

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.kind == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(name: &str) -> Leftover {
        let kind = kind(name).unwrap();
        Leftover {
            kind,
            namespace: "n".into(),
            name: "x".into(),
            uid: String::new(),
            is_going: false,
        }
    }

    fn names(left: &[Leftover]) -> Vec<&'static str> {
        left.iter().map(|left| left.kind.kind).collect()
    }

    #[test]
    fn what_pods_need_is_removed_after_the_pods() {
        let mut all =
            ["ClusterRole", "DaemonSet", "MutatingWebhookConfiguration"].map(left).to_vec();
        sort(&mut all);
        assert_eq!(names(&may_go(&all)), ["MutatingWebhookConfiguration", "DaemonSet"]);
        // The handlers are ending; their permissions are kept until then.
        all[1].is_going = true;
        assert_eq!(names(&may_go(&all)), ["MutatingWebhookConfiguration"]);
        all.remove(1);
        assert_eq!(names(&may_go(&all)), ["MutatingWebhookConfiguration", "ClusterRole"]);
    }

    #[test]
    fn what_was_found_twice_is_listed_once() {
        let mut twice = vec![left("Deployment"), left("Deployment")];
        sort(&mut twice);
        assert_eq!(twice.len(), 1);
    }

    #[test]
    fn objects_of_users_are_never_leftovers() {
        for never in ["NMState", "NodeNetworkConfigurationPolicy", "CustomResourceDefinition"] {
            assert_eq!(kind(never), None);
        }
        assert!(KINDS.iter().all(|kind| kind.group != "nmstate.io" && kind.kind != "Namespace"));
    }
}
