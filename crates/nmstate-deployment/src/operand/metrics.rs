//! What a component needs to serve metrics, and the monitoring to find them: a port with TLS, a
//! certificate for it, and a Service by whose name the certificate is verified.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::labels;

/// Requests a certificate for the name of the Service from the cluster's own CA.
const SERVING_CERTIFICATE: &str = "service.beta.openshift.io/serving-cert-secret-name";
/// Where the certificate is in the pod; the program looks there by default.
const FOLDER: &str = "/etc/metrics-certificate";
const VOLUME: &str = "metrics-certificate";

/// Configures the first container of a pod to serve metrics. The pod starts without a certificate,
/// too: on clusters that create none for Services, and while the Secret does not exist, the port
/// does not respond.
pub(crate) fn serve(pod: &mut Value, component: &str, address: SocketAddr, flags: Vec<String>) {
    push(
        &mut pod["volumes"],
        json!({ "name": VOLUME, "secret": { "secretName": secret(component), "optional": true } }),
    );
    let container = &mut pod["containers"][0];
    push(&mut container["args"], json!(format!("--metrics-listen={address}")));
    for flag in flags {
        push(&mut container["args"], json!(flag));
    }
    let port = json!({ "name": "metrics", "containerPort": address.port(), "protocol": "TCP" });
    push(&mut container["ports"], port);
    let mount = json!({ "name": VOLUME, "mountPath": FOLDER, "readOnly": true });
    push(&mut container["volumeMounts"], mount);
}

/// Names the pods of a component for the monitoring, which scrapes each of them; so it has no
/// address of its own. Without a port there is nothing to scrape.
pub(crate) fn service(component: &str, namespace: &str, port: Option<u16>) -> Value {
    let ports =
        port.map(|port| json!({ "name": "metrics", "port": port, "targetPort": "metrics" }));
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": component,
            "namespace": namespace,
            "labels": labels(component),
            "annotations": { SERVING_CERTIFICATE: secret(component) },
        },
        "spec": {
            "clusterIP": "None",
            "selector": labels(component),
            "ports": Vec::from_iter(ports),
        },
    })
}

/// The clients that may request metrics, as a source in a network policy.
pub(crate) fn monitoring(port: u16) -> Value {
    let namespace = json!({ "namespaceSelector": {
        "matchLabels": { "kubernetes.io/metadata.name": "openshift-monitoring" },
    }});
    json!({ "from": [namespace], "ports": [{ "port": port, "protocol": "TCP" }] })
}

fn secret(component: &str) -> String {
    format!("{component}-metrics")
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(list) => list.push(item),
        other => *other = json!([item]),
    }
}
