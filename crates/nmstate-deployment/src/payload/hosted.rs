//! A hosted control plane: operator and coordinator in the management cluster, beside the other
//! parts of that control plane, with the identity of their own service accounts in the guest. Handlers
//! run on the guest's own nodes.
//!
//! Only the container `guest-access` of each pod has the administrator's kubeconfig of the guest. It
//! requests tokens of the service account and hands them over in a volume in memory.
//!
//! Metrics are for the monitoring of the management cluster: that of the guest cannot reach them. Both
//! components verify its certificate with the client CA of the guest, so they need no permissions in
//! the management cluster.

use std::net::{Ipv6Addr, SocketAddr};

use serde_json::{Value, json};

use super::{IMAGE, VERSION, deployment, monitoring};
use crate::names::{
    COMPONENT_LABEL, COORDINATOR, METRICS_PORT, NAMESPACE, OPERATOR, PART_OF, PART_OF_LABEL,
};
use crate::operand::{self, metrics, pod};

/// The secret with the kubeconfig of the guest, as hosted control planes keep it.
const KUBECONFIG_SECRET: &str = "service-network-admin-kubeconfig";
const KUBECONFIG_FOLDER: &str = "/etc/guest";
/// Where a component finds its own kubeconfig and token.
const IDENTITY_FOLDER: &str = "/run/guest";
const PRIORITY: &str = "hypershift-control-plane";
/// The client of metrics of hosted control planes. The client CA of the guest issues its certificate,
/// which is in a Secret beside the control plane.
const METRICS_CLIENT: &str = "system:serviceaccount:hypershift:prometheus";
const METRICS_CLIENT_SECRET: &str = "metrics-client";
/// OpenShift publishes its service CA in this ConfigMap of every namespace.
const SERVICE_CA: &str = "openshift-service-ca.crt";

pub(super) fn objects(namespace: &str) -> Vec<Value> {
    let operator = json!({ "containers": [deployment::container(&["--hosted"])] });
    let coordinator = operand::coordinator_pod(IMAGE, VERSION, &[]);
    vec![
        deployment(namespace, OPERATOR, operator),
        metrics::service(OPERATOR, namespace, Some(METRICS_PORT)),
        deployment(namespace, COORDINATOR, coordinator),
        metrics::service(COORDINATOR, namespace, Some(METRICS_PORT)),
    ]
}

/// How the monitoring of the management cluster finds the metrics of a hosted control plane, and when
/// it alerts.
pub(super) fn monitoring(namespace: &str) -> Vec<Value> {
    let monitors = [COORDINATOR, OPERATOR].map(|component| service_monitor(namespace, component));
    let mut objects = Vec::from(monitors);
    objects.push(monitoring::control_plane_rules(namespace));
    objects
}

fn service_monitor(namespace: &str, component: &str) -> Value {
    let client = |key: &str| json!({ "name": METRICS_CLIENT_SECRET, "key": key });
    let tls = json!({
        "ca": { "configMap": { "name": SERVICE_CA, "key": "service-ca.crt" } },
        "cert": { "secret": client("tls.crt") },
        "keySecret": client("tls.key"),
        "serverName": format!("{component}.{namespace}.svc"),
    });
    monitoring::service_monitor(namespace, component, &tls)
}

fn deployment(namespace: &str, name: &str, mut pod: Value) -> Value {
    let labels = json!({ COMPONENT_LABEL: name, PART_OF_LABEL: PART_OF });
    // No permissions in the management cluster: everything is done with the guest's kubeconfig.
    pod["automountServiceAccountToken"] = json!(false);
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("serviceAccountName");
    }
    pod["priorityClassName"] = json!(PRIORITY);
    pod["volumes"] = json!([
        { "name": "guest", "secret": { "secretName": KUBECONFIG_SECRET } },
        { "name": "identity", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } },
    ]);
    let container = &mut pod["containers"][0];
    if let Some(arguments) = container["args"].as_array_mut() {
        arguments.push(json!(format!("--metrics-client={METRICS_CLIENT}")));
    }
    container["volumeMounts"] =
        json!([{ "name": "identity", "mountPath": IDENTITY_FOLDER, "readOnly": true }]);
    if let Some(variables) = container["env"].as_array_mut() {
        // Leases are kept in the guest, in our namespace there.
        variables.retain(|variable| variable["name"] != "POD_NAMESPACE");
        variables.push(json!({ "name": "POD_NAMESPACE", "value": NAMESPACE }));
        variables.push(kubeconfig(IDENTITY_FOLDER));
    }
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, METRICS_PORT));
    metrics::serve(&mut pod, name, address, Vec::new());
    pod["initContainers"] = json!([guest_access("first-guest-access", name, &["--once"])]);
    if let Some(containers) = pod["containers"].as_array_mut() {
        containers.push(guest_access("guest-access", name, &[]));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "strategy": { "type": "Recreate" },
            "template": {
                "metadata": { "labels": labels, "annotations": pod::annotations("restricted-v2") },
                "spec": pod,
            },
        },
    })
}

/// Requests tokens of the component's service account in the guest.
fn guest_access(container: &str, account: &str, extra: &[&str]) -> Value {
    let mut arguments = vec![
        "guest-access".to_owned(),
        format!("--service-account={account}"),
        format!("--namespace={NAMESPACE}"),
        format!("--out={IDENTITY_FOLDER}"),
    ];
    arguments.extend(extra.iter().map(ToString::to_string));
    json!({
        "name": container,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/bin/nmstate-operator"],
        "args": arguments,
        "env": [kubeconfig(KUBECONFIG_FOLDER)],
        "resources": { "requests": { "cpu": "5m", "memory": "20Mi" } },
        "securityContext": pod::restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            { "name": "guest", "mountPath": KUBECONFIG_FOLDER, "readOnly": true },
            { "name": "identity", "mountPath": IDENTITY_FOLDER },
        ],
    })
}

fn kubeconfig(folder: &str) -> Value {
    json!({ "name": "KUBECONFIG", "value": format!("{folder}/kubeconfig") })
}
