//! What all our pods have in common.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde_json::{Value, json};

/// Nodes for a pod, as requested by an `NMState`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement<'a> {
    pub(crate) affinity: Option<&'a Affinity>,
    pub(crate) node_selector: Option<&'a BTreeMap<String, String>>,
    pub(crate) tolerations: Option<&'a [Toleration]>,
}

impl Placement<'_> {
    /// Sets what is requested, and these defaults for everything else. Anti-affinity of pods
    /// applies on the requested nodes, too.
    pub(crate) fn fill(&self, pod: &mut Value, affinity: Option<Value>, tolerations: Value) {
        const APART: &str = "podAntiAffinity";
        let apart = affinity.as_ref().and_then(|it| it.get(APART).cloned());
        let mut requested = self.affinity.map(|affinity| json!(affinity)).or(affinity);
        if let (Some(requested), Some(apart)) = (requested.as_mut(), apart)
            && requested.get(APART).is_none()
        {
            requested[APART] = apart;
        }
        if let Some(affinity) = requested {
            pod["affinity"] = affinity;
        }
        pod["nodeSelector"] = self
            .node_selector
            .map_or_else(|| json!({ "kubernetes.io/os": "linux" }), |selector| json!(selector));
        pod["tolerations"] = self.tolerations.map_or(tolerations, |list| json!(list));
    }
}

/// Annotations of every pod template: the security context it needs and gets, whatever else its
/// account may use; and on clusters with partitioned CPUs it runs on those of the management.
pub(crate) fn annotations(security: &str) -> Value {
    json!({
        "openshift.io/required-scc": security,
        "target.workload.openshift.io/management": r#"{"effect": "PreferredDuringScheduling"}"#,
    })
}

/// A container without special permissions.
pub(crate) fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// Taints of control planes, and those of nodes that are unavailable for a moment.
pub(crate) fn control_plane_tolerations() -> Value {
    let role = |name: &str| json!({ "key": format!("node-role.kubernetes.io/{name}"), "operator": "Exists", "effect": "NoSchedule" });
    let away = |name: &str| json!({ "key": format!("node.kubernetes.io/{name}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120 });
    json!([role("master"), role("control-plane"), away("unreachable"), away("not-ready")])
}

/// Control planes are preferred.
pub(crate) fn prefer_control_plane() -> Value {
    let term = |role: &str, weight: i32| {
        let key = format!("node-role.kubernetes.io/{role}");
        json!({ "weight": weight, "preference": { "matchExpressions": [{ "key": key, "operator": "Exists" }] } })
    };
    json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
        term("control-plane", 10), term("master", 1),
    ]}})
}

/// A variable that contains a field of the pod itself.
pub(crate) fn field(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
}

/// An HTTP probe of our health endpoints.
pub(crate) fn http_probe(path: &str, port: u16, host: Option<&str>) -> Value {
    let mut get = json!({ "path": path, "port": port, "scheme": "HTTP" });
    if let Some(host) = host {
        get["host"] = json!(host);
    }
    json!({ "httpGet": get, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_spread_over_the_requested_nodes() {
        let own = json!({ "podAntiAffinity": "apart", "nodeAffinity": "usual" });
        let requested: Affinity = serde_json::from_value(json!({ "nodeAffinity": {} })).unwrap();
        let placement =
            Placement { affinity: Some(&requested), node_selector: None, tolerations: None };
        let mut pod = json!({});
        placement.fill(&mut pod, Some(own), json!([]));
        assert_eq!(pod["affinity"], json!({ "podAntiAffinity": "apart", "nodeAffinity": {} }));
    }
}
