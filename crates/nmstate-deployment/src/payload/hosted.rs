//! A hosted control plane: operator and coordinator in the management cluster, beside the other
//! parts of that control plane, talking to the guest cluster with a kubeconfig of it. Handlers run
//! on the guest's own nodes.

use serde_json::{Value, json};

use super::{IMAGE, VERSION, deployment};
use crate::names::{COMPONENT_LABEL, COORDINATOR, NAMESPACE, OPERATOR, PART_OF, PART_OF_LABEL};
use crate::operand::{self, pod};

/// The secret with the kubeconfig of the guest, as hosted control planes keep it.
const KUBECONFIG_SECRET: &str = "service-network-admin-kubeconfig";
const KUBECONFIG_FOLDER: &str = "/etc/guest";
const PRIORITY: &str = "hypershift-control-plane";

pub(super) fn objects(namespace: &str) -> Vec<Value> {
    let operator = json!({ "containers": [deployment::container(&["--hosted"])] });
    let coordinator = operand::coordinator_pod(IMAGE, VERSION, &[]);
    vec![deployment(namespace, OPERATOR, operator), deployment(namespace, COORDINATOR, coordinator)]
}

fn deployment(namespace: &str, name: &str, mut pod: Value) -> Value {
    let labels = json!({ COMPONENT_LABEL: name, PART_OF_LABEL: PART_OF });
    // No rights in the management cluster: everything is done with the guest's kubeconfig.
    pod["automountServiceAccountToken"] = json!(false);
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("serviceAccountName");
    }
    pod["priorityClassName"] = json!(PRIORITY);
    pod["volumes"] = json!([{ "name": "guest", "secret": { "secretName": KUBECONFIG_SECRET } }]);
    let container = &mut pod["containers"][0];
    container["volumeMounts"] =
        json!([{ "name": "guest", "mountPath": KUBECONFIG_FOLDER, "readOnly": true }]);
    if let Some(variables) = container["env"].as_array_mut() {
        // Leases are kept in the guest, in our namespace there.
        variables.retain(|variable| variable["name"] != "POD_NAMESPACE");
        variables.push(json!({ "name": "POD_NAMESPACE", "value": NAMESPACE }));
        let path = format!("{KUBECONFIG_FOLDER}/kubeconfig");
        variables.push(json!({ "name": "KUBECONFIG", "value": path }));
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
