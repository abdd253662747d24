//! The operator's own Deployment.

use std::net::{Ipv6Addr, SocketAddr};

use serde_json::{Value, json};

use super::{IMAGE, VERSION};
use crate::names::{
    COMPONENT_LABEL, HEALTH_PORT, METRICS_PORT, NAMESPACE, OPERATOR, PART_OF, PART_OF_LABEL,
};
use crate::operand::{metrics, pod};

fn labels() -> Value {
    json!({ COMPONENT_LABEL: OPERATOR, PART_OF_LABEL: PART_OF })
}

/// The operator's container, which serves no metrics; `extra` are arguments beside the usual ones.
pub(super) fn container(extra: &[&str]) -> Value {
    let mut arguments = vec!["operator".to_owned(), format!("--listen=[::]:{HEALTH_PORT}")];
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
        "ports": [{ "name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP" }],
        "resources": { "requests": { "cpu": "10m", "memory": "30Mi" } },
        "securityContext": pod::restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "livenessProbe": pod::http_probe("/healthz", HEALTH_PORT, None),
        "readinessProbe": pod::http_probe("/readyz", HEALTH_PORT, None),
    })
}

pub(super) fn deployment() -> Value {
    let mut pod = json!({
        "serviceAccountName": OPERATOR,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "affinity": pod::prefer_control_plane(),
        "tolerations": pod::control_plane_tolerations(),
        "containers": [container(&[])],
    });
    // The operator reads the TLS settings of the cluster itself.
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, METRICS_PORT));
    metrics::serve(&mut pod, OPERATOR, address, Vec::new());
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
                "spec": pod,
            },
        },
    })
}

/// Finds the operator for the monitoring.
pub(super) fn service() -> Value {
    metrics::service(OPERATOR, NAMESPACE, Some(METRICS_PORT))
}

/// The operator sends requests to the API server and name servers. Only the monitoring sends requests to
/// it, and the kubelet of its node, which network policies do not restrict.
pub(super) fn network_policy() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
        "spec": {
            "podSelector": { "matchLabels": labels() },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [metrics::monitoring(METRICS_PORT)],
            "egress": crate::operand::egress(),
        },
    })
}
