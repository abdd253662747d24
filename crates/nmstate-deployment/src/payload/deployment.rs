//! The operator's own Deployment.

use serde_json::{Value, json};

use super::{IMAGE, VERSION};
use crate::names::{COMPONENT_LABEL, NAMESPACE, OPERATOR, PART_OF, PART_OF_LABEL, SERVICE_PORT};
use crate::operand::pod;

fn labels() -> Value {
    json!({ COMPONENT_LABEL: OPERATOR, PART_OF_LABEL: PART_OF })
}

/// The operator's container; `extra` are arguments beside the usual ones.
pub(super) fn container(extra: &[&str]) -> Value {
    let mut arguments = vec!["operator".to_owned(), format!("--listen=[::]:{SERVICE_PORT}")];
    arguments.extend(extra.iter().map(ToString::to_string));
    json!({
        "name": "operator",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/nmstate-operator"],
        "args": arguments,
        "env": [
            pod::field("POD_NAME", "metadata.name"),
            pod::field("POD_NAMESPACE", "metadata.namespace"),
            { "name": "RELEASE_VERSION", "value": VERSION },
            { "name": "OPERAND_IMAGE", "value": IMAGE },
        ],
        "resources": { "requests": { "cpu": "10m", "memory": "30Mi" } },
        "securityContext": pod::restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "livenessProbe": pod::http_probe("/healthz", SERVICE_PORT, None),
        "readinessProbe": pod::http_probe("/readyz", SERVICE_PORT, None),
    })
}

pub(super) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": OPERATOR, "namespace": NAMESPACE, "labels": labels() },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels() },
            "strategy": { "type": "Recreate" },
            "template": {
                "metadata": { "labels": labels(), "annotations": pod::annotations("restricted-v2") },
                "spec": {
                    "serviceAccountName": OPERATOR,
                    "priorityClassName": "system-cluster-critical",
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "affinity": pod::prefer_control_plane(),
                    "tolerations": pod::control_plane_tolerations(),
                    "containers": [container(&[])],
                },
            },
        },
    })
}

/// The operator asks the API server and name servers. Nobody asks it but the kubelet of its node,
/// which is never kept away.
pub(super) fn network_policy() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
        "spec": {
            "podSelector": { "matchLabels": labels() },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": crate::operand::egress(),
        },
    })
}
