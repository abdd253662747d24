//! The permissions of handlers and the coordinator.

use nmstate_api::REVERTS;
use serde_json::{Value, json};

use super::labels;
use crate::names::{COORDINATOR, HANDLER, NAMESPACE};

/// A handler reads policies and its node, and writes its node's reports. Admission prevents it from
/// writing those of other nodes, by the node in its token.
pub(super) fn handler() -> Vec<Value> {
    let rules = handler_rules();
    vec![
        service_account(HANDLER),
        cluster_role(HANDLER, &rules),
        cluster_binding(HANDLER),
        namespace_role(HANDLER, &handler_namespace_rules()),
        namespace_binding(HANDLER),
    ]
}

/// Which nodes may revert deleted policies.
fn handler_namespace_rules() -> Value {
    json!([{
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [REVERTS],
        "verbs": ["get"],
    }])
}

pub(super) fn handler_rules() -> Value {
    json!([
        // The coordinator assigns the policies to read. Handlers of the previous version watch
        // them.
        rule("nmstate.io", &["nodenetworkconfigurationpolicies"], &["get", "list", "watch"]),
        rule(
            "nmstate.io",
            &["nodenetworkstates", "nodenetworkconfigurationenactments"],
            &["get", "list", "watch", "create", "update", "patch", "delete"]
        ),
        rule(
            "nmstate.io",
            &["nodenetworkstates/status", "nodenetworkconfigurationenactments/status"],
            &["update", "patch"]
        ),
        rule("", &["nodes"], &["get", "list", "watch"]),
        // To wait with changes until the cluster is installed.
        rule("config.openshift.io", &["clusterversions"], &["get", "list"]),
        events(),
        {
            "apiGroups": ["security.openshift.io"],
            "resources": ["securitycontextconstraints"],
            "resourceNames": ["privileged"],
            "verbs": ["use"],
        },
    ])
}

/// The coordinator reads all reports, writes the status of policies, and assigns policies to nodes
/// in the metadata of their states.
pub(super) fn coordinator() -> Vec<Value> {
    vec![
        service_account(COORDINATOR),
        cluster_role(COORDINATOR, &coordinator_rules()),
        cluster_binding(COORDINATOR),
        namespace_role(COORDINATOR, &coordinator_namespace_rules()),
        namespace_binding(COORDINATOR),
    ]
}

fn coordinator_namespace_rules() -> Value {
    json!([
        // Its own, and the one with the slots to revert deleted policies.
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update", "patch"]),
        // Values of nodes.
        rule("", &["configmaps"], &["get", "list", "watch"]),
    ])
}

pub(super) fn coordinator_rules() -> Value {
    json!([
        rule(
            "nmstate.io",
            &[
                "nodenetworkconfigurationpolicies",
                "nodenetworkconfigurationenactments",
                "nodenetworkstates"
            ],
            &["get", "list", "watch"]
        ),
        rule("nmstate.io", &["nodenetworkconfigurationpolicies/status"], &["update", "patch"]),
        rule("nmstate.io", &["nodenetworkstates"], &["patch"]),
        rule("", &["nodes"], &["get", "list", "watch"]),
        events(),
    ])
}

fn events() -> Value {
    rule("events.k8s.io", &["events"], &["create", "patch"])
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// Names of the ClusterRoles and ClusterRoleBindings.
pub(super) fn cluster_names() -> [String; 2] {
    [HANDLER, COORDINATOR].map(cluster_name)
}

fn cluster_name(name: &str) -> String {
    format!("openshift-{name}")
}

fn service_account(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels(name) },
    })
}

fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": cluster_name(name), "labels": labels(name) },
        "rules": rules,
    })
}

fn cluster_binding(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": cluster_name(name), "labels": labels(name) },
        "roleRef": role_ref("ClusterRole", &cluster_name(name)),
        "subjects": [subject(name)],
    })
}

fn namespace_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels(name) },
        "rules": rules,
    })
}

fn namespace_binding(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels(name) },
        "roleRef": role_ref("Role", name),
        "subjects": [subject(name)],
    })
}

fn role_ref(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name })
}

fn subject(name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE })
}
