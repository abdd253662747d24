//! The permissions of the operator: for what it deploys, for what it reports, and those that it
//! grants. An account cannot grant permissions that it does not have.

use nmstate_api::crd;
use serde_json::{Value, json};

use crate::names::{NAMESPACE, OPERATOR};
use crate::operand;

const ROLES: [&str; 2] = ["clusterroles", "clusterrolebindings"];

pub(super) fn objects() -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": cluster_name() },
            "rules": cluster_rules(),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": cluster_name() },
            "roleRef": role_ref("ClusterRole", &cluster_name()),
            "subjects": [subject()],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
            "rules": namespace_rules(),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
            "roleRef": role_ref("Role", OPERATOR),
            "subjects": [subject()],
        }),
    ]
}

/// Users that may read the cluster may read its network.
pub(super) fn cluster_reader() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "openshift-nmstate-cluster-reader",
            "labels": { "rbac.authorization.k8s.io/aggregate-to-cluster-reader": "true" },
        },
        "rules": [rule("nmstate.io", &["*"], &["get", "list", "watch"])],
    })
}

fn cluster_rules() -> Value {
    let write = ["get", "list", "watch", "create", "patch"];
    let definitions = crd::all();
    let crds: Vec<&str> =
        definitions.iter().filter_map(|crd| crd["metadata"]["name"].as_str()).collect();
    let mut rules = vec![
        rule("nmstate.io", &["nmstates"], &write),
        rule("nmstate.io", &["nmstates/status"], &["patch", "update"]),
        rule(
            "config.openshift.io",
            &["infrastructures", "clusterversions", "apiservers"],
            &write[..3],
        ),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        rule("config.openshift.io", &["clusteroperators/status"], &["patch", "update"]),
        rule("rbac.authorization.k8s.io", &ROLES, &["create"]),
        named(
            "rbac.authorization.k8s.io",
            &ROLES,
            &operand::cluster_names(),
            &["get", "list", "watch", "patch", "delete"],
        ),
        // To migrate objects that are stored in a previous version.
        named("apiextensions.k8s.io", &["customresourcedefinitions"], &crds, &["get"]),
        named("apiextensions.k8s.io", &["customresourcedefinitions/status"], &crds, &["patch"]),
    ];
    // To see whether kubernetes-nmstate runs. Its removal is a command of the administrator.
    rules.push(rule("apps", &["deployments", "daemonsets"], &["list"]));
    // To create policies from the documents of nodes on request; existing policies are not
    // modified.
    let machine_configs = ["machineconfigs"];
    rules.push(rule("machineconfiguration.openshift.io", &machine_configs, &write[..3]));
    rules.push(rule("nmstate.io", &["nodenetworkconfigurationpolicies"], &["create"]));
    // To delete the reports when handlers are removed permanently.
    let reports = ["nodenetworkstates", "nodenetworkconfigurationenactments"];
    rules.push(rule("nmstate.io", &reports, &["deletecollection"]));
    rules.extend(operand::rules_to_pass_on());
    json!(rules)
}

fn namespace_rules() -> Value {
    let all = ["get", "list", "watch", "create", "patch", "delete"];
    json!([
        rule("apps", &["deployments", "daemonsets"], &all),
        // To check whether a handler still runs that would report again.
        rule("", &["pods"], &["list"]),
        rule("", &["services", "serviceaccounts"], &all),
        // To list and watch them is passed on to the coordinator.
        rule("", &["configmaps"], &["get", "list", "watch", "create", "patch", "update"]),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update", "patch", "delete"]),
        rule("networking.k8s.io", &["networkpolicies"], &all),
        rule("policy", &["poddisruptionbudgets"], &all),
        rule("rbac.authorization.k8s.io", &["roles", "rolebindings"], &all),
    ])
}

fn cluster_name() -> String {
    format!("openshift-{OPERATOR}")
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn named<N: AsRef<str>>(group: &str, resources: &[&str], names: &[N], verbs: &[&str]) -> Value {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    json!({ "apiGroups": [group], "resources": resources, "resourceNames": names, "verbs": verbs })
}

fn role_ref(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name })
}

fn subject() -> Value {
    json!({ "kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE })
}
