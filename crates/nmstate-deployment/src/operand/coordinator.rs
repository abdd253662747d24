//! The Deployment of the coordinator and what belongs to it.

use std::net::{Ipv6Addr, SocketAddr};

use serde_json::{Value, json};

use super::pod::{self, Placement};
use super::{ControlPlane, Wanted, labels, metrics};
use crate::names::{COORDINATOR, HEALTH_PORT, METRICS_PORT, NAMESPACE};

/// Seconds of leases where the control plane is a single node: those of OpenShift's own operators.
pub const SINGLE_NODE_LEASE: u32 = 270;

pub(super) fn objects(wanted: &Wanted<'_>) -> Vec<Value> {
    let port = wanted.metrics.as_ref().map(|_| METRICS_PORT);
    let service = metrics::service(COORDINATOR, NAMESPACE, port);
    let mut objects = vec![service, network_policy(), deployment(wanted)];
    if wanted.control_plane == ControlPlane::HighlyAvailable {
        objects.push(disruption_budget());
    }
    objects
}

/// The pod of a coordinator that serves no metrics; `extra` are arguments beside the usual ones.
pub(crate) fn pod(image: &str, version: &str, extra: &[String]) -> Value {
    let mut arguments = vec!["coordinator".to_owned(), format!("--listen=[::]:{HEALTH_PORT}")];
    arguments.extend_from_slice(extra);
    json!({
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": COORDINATOR,
        "containers": [{
            "name": "coordinator",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/usr/bin/nmstate-operator"],
            "args": arguments,
            "env": [
                pod::field("POD_NAME", "metadata.name"),
                pod::field("POD_NAMESPACE", "metadata.namespace"),
                { "name": "RELEASE_VERSION", "value": version },
            ],
            "ports": [{ "name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP" }],
            "resources": { "requests": { "cpu": "10m", "memory": "30Mi" } },
            "securityContext": pod::restricted(),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "livenessProbe": pod::http_probe("/healthz", HEALTH_PORT, None),
            "readinessProbe": pod::http_probe("/readyz", HEALTH_PORT, None),
        }],
    })
}

fn deployment(wanted: &Wanted<'_>) -> Value {
    let (spec, several) = (wanted.spec, wanted.control_plane == ControlPlane::HighlyAvailable);
    // The API server of a single node is unavailable for longer while it is updated.
    let lease = (wanted.control_plane == ControlPlane::SingleNode)
        .then(|| format!("--lease={SINGLE_NODE_LEASE}"));
    let mut pod = pod(wanted.image, wanted.version, &Vec::from_iter(lease));
    if let Some(metrics_settings) = &wanted.metrics {
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, METRICS_PORT));
        metrics::serve(&mut pod, COORDINATOR, address, metrics_settings.tls.flags());
    }
    let placement = Placement {
        affinity: spec.infra_affinity.as_ref(),
        node_selector: spec.infra_node_selector.as_ref(),
        tolerations: spec.infra_tolerations.as_deref(),
    };
    let mut affinity = pod::prefer_control_plane();
    if several {
        affinity["podAntiAffinity"] = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": { "matchLabels": labels(COORDINATOR) },
            "topologyKey": "kubernetes.io/hostname",
        }]});
    }
    placement.fill(&mut pod, Some(affinity), pod::control_plane_tolerations());
    // With two replicas that must not share a node, a third could not be scheduled during a
    // roll-out.
    let strategy = if several {
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } })
    } else {
        json!({ "type": "Recreate" })
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": COORDINATOR, "namespace": NAMESPACE, "labels": labels(COORDINATOR) },
        "spec": {
            "replicas": if several { 2 } else { 1 },
            "selector": { "matchLabels": labels(COORDINATOR) },
            "strategy": strategy,
            "template": {
                "metadata": { "labels": labels(COORDINATOR), "annotations": pod::annotations("restricted-v2") },
                "spec": pod,
            },
        },
    })
}

fn disruption_budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": COORDINATOR, "namespace": NAMESPACE, "labels": labels(COORDINATOR) },
        "spec": {
            "minAvailable": 1,
            "selector": { "matchLabels": labels(COORDINATOR) },
            // A replica that is unhealthy anyway must not block the drain of its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

/// The API server and name servers may be contacted; the monitoring may request metrics. Probes of
/// the kubelet on the same node are never blocked.
fn network_policy() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": COORDINATOR, "namespace": NAMESPACE, "labels": labels(COORDINATOR) },
        "spec": {
            "podSelector": { "matchLabels": labels(COORDINATOR) },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [metrics::monitoring(METRICS_PORT)],
            "egress": egress(),
        },
    })
}

/// What everything of ours that is not on the node's own network may reach.
pub(crate) fn egress() -> Value {
    json!([
        // The ports of API servers, and of name servers of OpenShift and of other clusters.
        { "ports": [{ "port": 6443, "protocol": "TCP" }, { "port": 443, "protocol": "TCP" }] },
        { "ports": [{ "port": 5353, "protocol": "TCP" }, { "port": 5353, "protocol": "UDP" }] },
        { "ports": [{ "port": 53, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }] },
    ])
}

#[cfg(test)]
mod tests {
    use nmstate_api::NMStateSpec;

    use super::*;

    fn made(control_plane: ControlPlane) -> Vec<Value> {
        let spec = NMStateSpec::default();
        objects(&Wanted::new(&spec, "i", "1", control_plane).unwrap())
    }

    #[test]
    fn several_nodes_get_two_copies_that_never_share_one() {
        let made = made(ControlPlane::HighlyAvailable);
        let deployment = made.iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["spec"]["replicas"], 2);
        let pod = &deployment["spec"]["template"]["spec"];
        assert!(pod["affinity"]["podAntiAffinity"].is_object());
        assert!(made.iter().any(|object| object["kind"] == "PodDisruptionBudget"));
    }

    #[test]
    fn a_single_node_gets_one_copy_whose_eviction_nothing_holds_up() {
        let made = made(ControlPlane::SingleNode);
        let deployment = made.iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["spec"]["replicas"], 1);
        assert!(!made.iter().any(|object| object["kind"] == "PodDisruptionBudget"));
    }
}
