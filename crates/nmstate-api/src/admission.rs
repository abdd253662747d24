//! What the API server itself refuses: `ValidatingAdmissionPolicy` objects. There is no webhook,
//! so nothing that we run has to be up for a policy to be taken.

use serde_json::{Value, json};

use crate::annotations::{
    ADOPT, ADOPT_BR_EX, ADOPTED, CANARY, DRIFT, MEMORY_ONLY, NODE_EXPRESSIONS, NODE_VALUES, OFF,
    ON_NMSTATES, ON_POLICIES, PAUSED, PREFIX, PROBE_DNS_NAME, PROBE_PING_TARGET, PROBE_TIMEOUT,
    PROBES, RETRY, REVERT_ON_DELETE, REVERTED_NODES,
};
use crate::{GROUP, NODE_LABEL, POLICY_LABEL};

/// The service accounts of handlers and operator, by name, and the namespace they are in.
#[derive(Debug, Clone, Copy)]
pub struct Accounts<'a> {
    pub namespace: &'a str,
    pub handler: &'a str,
    pub operator: &'a str,
}

impl Accounts<'_> {
    fn is_user(&self, name: &str) -> String {
        format!("request.userInfo.username == 'system:serviceaccount:{}:{name}'", self.namespace)
    }
}

/// The node that the API server wrote into the token of a pod when it issued it.
const NODE_OF_TOKEN: &str =
    "request.userInfo.extra[?'authentication.kubernetes.io/node-name'].orValue([''])[0]";

const CANARY_FORM: &str = "a number of nodes, at least 1, or a list of their names, with commas";

/// All policies of admission with their bindings.
pub fn all(accounts: Accounts<'_>) -> Vec<Value> {
    let others = [nmstates(), handlers(accounts), operator(accounts)];
    policies().into_iter().chain(others).flatten().collect()
}

/// Who applies the manifests of an installation. A policy that is rejected there fails the whole
/// installation, after an hour; so it is stored with a warning, and its status reports why no node is
/// changed.
const INSTALLER: &str = "system:admin";

/// What no policy may be: one whose name cannot become a label, one that selects by values that no
/// node can have, one with an annotation of ours that cannot be honoured. A policy in progress may
/// be edited: the edit supersedes what is under way.
fn policies() -> [[Value; 2]; 2] {
    let label = "!format.labelValue().validate";
    let mut rules = vec![
        rule(
            // A policy of a longer name may exist since before this rule; it may still be deleted.
            &format!(
                "request.operation != 'CREATE' || (size(object.metadata.name) <= 63 && {label}(object.metadata.name).hasValue())"
            ),
            "the name of a policy becomes the value of a label: at most 63 characters",
        ),
        rule(
            &format!(
                "!has(object.spec) || !has(object.spec.nodeSelector) || object.spec.nodeSelector.all(k, {label}(object.spec.nodeSelector[k]).hasValue())"
            ),
            "the values of nodeSelector must be values that labels can have",
        ),
        known_annotations(&ON_POLICIES),
    ];
    let one_of = |name: &str, values: &str| matching(name, &format!("^({values})$"), values);
    rules.extend([
        one_of(REVERT_ON_DELETE, "true|false"),
        one_of(MEMORY_ONLY, "true|false"),
        one_of(PAUSED, "true|false"),
        one_of(DRIFT, "ignore|report|enforce"),
        matching(
            PROBES,
            "^ *(api-server|gateway|dns|node-readiness) *(, *(api-server|gateway|dns|node-readiness) *)*$",
            "a list of api-server, gateway, dns and node-readiness, with commas",
        ),
        matching(
            PROBE_TIMEOUT,
            "^([1-9][0-9]?|[1-5][0-9]{2}|600)$",
            "a number of seconds from 1 to 600",
        ),
        matching(PROBE_DNS_NAME, "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", "a host name"),
        matching(PROBE_PING_TARGET, "^[0-9a-fA-F.:]{2,45}$", "an IP address"),
        matching(
            NODE_EXPRESSIONS,
            "^[A-Za-z0-9_./(), !=-]+$",
            "a selector of labels such as zone in (a, b), !gpu",
        ),
        matching(
            RETRY,
            "^[^ ]+( [a-z0-9.-]+(,[a-z0-9.-]+)*)?$",
            "an identifier, and optionally a list of nodes after a space, with commas",
        ),
        matching(
            NODE_VALUES,
            "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$",
            "the name of a ConfigMap",
        ),
        matching(
            REVERTED_NODES,
            "^[a-z0-9.-]+(,[a-z0-9.-]+)*$",
            "a list of nodes, with commas",
        ),
        matching(CANARY, &canary(), CANARY_FORM),
        // An expression of the server's kind cannot say "not all of them zeros" in one go.
        unlike(CANARY, "^ *0+ *$", CANARY_FORM),
    ]);
    let of = |name: &str, operator: &str| {
        let user = format!("request.userInfo.username {operator} '{INSTALLER}'");
        let operations = ["CREATE", "UPDATE"];
        policy(name, "nodenetworkconfigurationpolicies", &operations, &rules, Some(&user))
    };
    let mut at_installation = of("nmstate-policies-at-installation", "==");
    at_installation[1]["spec"]["validationActions"] = json!(["Warn", "Audit"]);
    [of("nmstate-policies", "!="), at_installation]
}

/// An `NMState` with an annotation of ours that cannot be honoured is not taken.
fn nmstates() -> [Value; 2] {
    let rules = [
        known_annotations(&ON_NMSTATES),
        matching(OFF, "^(true|false)$", "true|false"),
        matching(ADOPT, "^(true|false)$", "true|false"),
        matching(ADOPT_BR_EX, "^(true|false)$", "true|false"),
        matching(MEMORY_ONLY, "^(true|false)$", "true|false"),
    ];
    policy("nmstate-nmstates", "nmstates", &["CREATE", "UPDATE"], &rules, None)
}

/// A handler writes about its own node and no other. The node is the one in its token, which only
/// the API server can write; a token that is bound to no pod writes nothing.
fn handlers(accounts: Accounts<'_>) -> [Value; 2] {
    let mut rules = Vec::new();
    // On DELETE there is only the old object, on CREATE only the new one.
    for (object, present) in [
        ("object", "request.operation != 'DELETE'"),
        ("oldObject", "request.operation != 'CREATE'"),
    ] {
        rules.push(rule(
            &format!(
                "!({present}) || request.resource.resource != 'nodenetworkstates' || (variables.node != '' && {object}.metadata.name == variables.node)"
            ),
            "a handler may write the state of its own node only",
        ));
        let label = |name: &str| format!("{object}.metadata.?labels['{name}'].orValue('')");
        rules.push(rule(
            &format!(
                "!({present}) || request.resource.resource != 'nodenetworkconfigurationenactments' || (variables.node != '' && {} == variables.node && {object}.metadata.name == variables.node + '.' + {})",
                label(NODE_LABEL),
                label(POLICY_LABEL),
            ),
            "a handler may write the enactments of its own node only",
        ));
    }
    let user = accounts.is_user(accounts.handler);
    let [mut policy, binding] = policy(
        "nmstate-handlers",
        "nodenetworkstates",
        &["CREATE", "UPDATE", "DELETE"],
        &rules,
        Some(&user),
    );
    policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = json!([
        "nodenetworkstates",
        "nodenetworkstates/status",
        "nodenetworkconfigurationenactments",
        "nodenetworkconfigurationenactments/status",
    ]);
    policy["spec"]["variables"] = json!([{ "name": "node", "expression": NODE_OF_TOKEN }]);
    [policy, binding]
}

/// The operator removes its own objects only, and creates policies only of documents of nodes.
fn operator(accounts: Accounts<'_>) -> [Value; 2] {
    let rules = [
        rule(
            "request.operation != 'DELETE' || variables.ours",
            "nmstate-operator removes its own objects only",
        ),
        rule(
            &format!(
                "request.operation != 'CREATE' || object.metadata.?labels['{ADOPTED}'].orValue('') == 'br-ex'"
            ),
            "nmstate-operator creates policies of documents of nodes only",
        ),
    ];
    let user = accounts.is_user(accounts.operator);
    let [mut policy, binding] =
        policy("nmstate-operator", "nodenetworkconfigurationpolicies", &[], &rules, Some(&user));
    let of = |groups: &[&str], resources: &[&str], operations: &[&str]| {
        json!({
            "apiGroups": groups,
            "apiVersions": ["*"],
            "operations": operations,
            "resources": resources,
        })
    };
    let rbac = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    policy["spec"]["matchConstraints"]["resourceRules"] = json!([
        of(&[GROUP], &["nodenetworkconfigurationpolicies"], &["CREATE"]),
        of(&[""], &["services", "serviceaccounts", "configmaps"], &["DELETE"]),
        of(&["apps"], &["daemonsets", "deployments"], &["DELETE"]),
        of(&["networking.k8s.io"], &["networkpolicies"], &["DELETE"]),
        of(&["policy"], &["poddisruptionbudgets"], &["DELETE"]),
        of(&["rbac.authorization.k8s.io"], &rbac, &["DELETE"]),
    ]);
    let namespace = accounts.namespace;
    policy["spec"]["variables"] = json!([{
        "name": "ours",
        "expression": format!(
            "request.?namespace.orValue('') == '{namespace}' || oldObject.metadata.?labels['app.kubernetes.io/part-of'].orValue('') == 'nmstate-operator'"
        ),
    }]);
    [policy, binding]
}

/// What another version took may stay as it is: an object must remain editable after a downgrade.
fn known_annotations(known: &[&str]) -> Value {
    let list = known.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let short: Vec<&str> =
        known.iter().map(|name| name.strip_prefix(PREFIX).unwrap_or(name)).collect();
    rule(
        &format!(
            "!has(object.metadata.annotations) || object.metadata.annotations == null || object.metadata.annotations.all(k, !k.startsWith('{PREFIX}') || k in [{list}] || (oldObject != null && oldObject.metadata.?annotations[?k] == optional.of(object.metadata.annotations[k])))"
        ),
        &format!("of the annotations under {PREFIX} known here are {}", short.join(", ")),
    )
}

fn matching(annotation: &str, pattern: &str, allowed: &str) -> Value {
    rule(
        &format!(
            "!has(object.metadata.annotations) || object.metadata.annotations == null || !('{annotation}' in object.metadata.annotations) || object.metadata.annotations['{annotation}'].matches('{pattern}')"
        ),
        &format!("{annotation} must be {}", allowed.replace('|', ", ")),
    )
}

fn unlike(annotation: &str, pattern: &str, allowed: &str) -> Value {
    rule(
        &format!(
            "!has(object.metadata.annotations) || object.metadata.annotations == null || !('{annotation}' in object.metadata.annotations) || !object.metadata.annotations['{annotation}'].matches('{pattern}')"
        ),
        &format!("{annotation} must be {allowed}"),
    )
}

/// Names of nodes with commas; a number looks like one.
fn canary() -> String {
    let name = "[a-z0-9]([a-z0-9.-]*[a-z0-9])?";
    format!("^ *{name} *(, *{name} *)*$")
}

fn rule(expression: &str, message: &str) -> Value {
    json!({ "expression": expression, "message": message, "reason": "Invalid" })
}

fn policy(
    name: &str,
    resource: &str,
    operations: &[&str],
    rules: &[Value],
    only_for: Option<&str>,
) -> [Value; 2] {
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [{
            "apiGroups": [GROUP],
            "apiVersions": ["*"],
            "operations": operations,
            "resources": [resource],
        }]},
        "validations": rules,
    });
    if let Some(condition) = only_for {
        spec["matchConditions"] = json!([{ "name": "who", "expression": condition }]);
    }
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": spec,
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        }),
    ]
}
