//! The DaemonSet of handlers.

use nmstate_api::LogLevel;
use serde_json::{Value, json};

use super::pod::{self, Placement};
use super::{Wanted, labels};
use crate::names::{HANDLER, NAMESPACE};

/// Folder of the lock that keeps two handlers from acting on one node. kubernetes-nmstate uses the
/// same.
const LOCK_FOLDER: &str = "/var/k8s_nmstate";

/// Finds the handlers for the monitoring; they have no address of their own.
pub(super) fn service(wanted: &Wanted<'_>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": HANDLER, "namespace": NAMESPACE, "labels": labels(HANDLER) },
        "spec": {
            "clusterIP": "None",
            "selector": labels(HANDLER),
            "ports": [{ "name": "metrics", "port": wanted.listen.port() }],
        },
    })
}

pub(super) fn daemon_set(wanted: &Wanted<'_>) -> Value {
    let spec = wanted.spec;
    let level = match spec.log_level {
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    // On every address of the node also means on its loopback.
    let ip = wanted.listen.ip();
    let health_host = if ip.is_unspecified() { "127.0.0.1".to_owned() } else { ip.to_string() };
    let mut pod = json!({
        // Handlers change the network they run on; a network of their own would be in the way.
        "hostNetwork": true,
        "dnsPolicy": "Default",
        "priorityClassName": "system-node-critical",
        "serviceAccountName": HANDLER,
        // A change under way is finished or taken back within this time.
        "terminationGracePeriodSeconds": 60,
        "containers": [{
            "name": "handler",
            "image": wanted.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/usr/bin/nmstate-operator"],
            "args": ["handler", format!("--log-level={level}"), format!("--listen={}", wanted.listen)],
            "env": [
                pod::field("NODE_NAME", "spec.nodeName"),
                pod::field("POD_NAME", "metadata.name"),
                pod::field("POD_NAMESPACE", "metadata.namespace"),
                { "name": "PROBE_DNS_HOST", "value": spec.probe_configuration.dns.host },
                { "name": "RELEASE_VERSION", "value": wanted.version },
            ],
            "resources": { "requests": { "cpu": "10m", "memory": "30Mi" } },
            // NetworkManager takes orders from root only, and Open vSwitch's database is root's.
            "securityContext": { "privileged": true, "runAsUser": 0 },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "livenessProbe": pod::http_probe("/healthz", wanted.listen.port(), Some(&health_host)),
            "readinessProbe": pod::http_probe("/readyz", wanted.listen.port(), Some(&health_host)),
            "volumeMounts": [
                { "name": "dbus", "mountPath": "/run/dbus/system_bus_socket" },
                { "name": "openvswitch", "mountPath": "/run/openvswitch" },
                { "name": "lock", "mountPath": LOCK_FOLDER },
                { "name": "links", "mountPath": "/etc/systemd/network" },
            ],
        }],
        "volumes": [
            { "name": "dbus", "hostPath": { "path": "/run/dbus/system_bus_socket", "type": "Socket" } },
            { "name": "openvswitch", "hostPath": { "path": "/run/openvswitch", "type": "DirectoryOrCreate" } },
            { "name": "lock", "hostPath": { "path": LOCK_FOLDER, "type": "DirectoryOrCreate" } },
            { "name": "links", "hostPath": { "path": "/etc/systemd/network", "type": "DirectoryOrCreate" } },
        ],
    });
    let placement = Placement {
        affinity: spec.affinity.as_ref(),
        node_selector: spec.node_selector.as_ref(),
        tolerations: spec.tolerations.as_deref(),
    };
    // Every node has a network, whatever taints it has.
    placement.fill(&mut pod, None, json!([{ "operator": "Exists" }]));
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": HANDLER, "namespace": NAMESPACE, "labels": labels(HANDLER) },
        "spec": {
            "selector": { "matchLabels": labels(HANDLER) },
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": "10%" },
            },
            "template": {
                "metadata": { "labels": labels(HANDLER), "annotations": pod::annotations("privileged") },
                "spec": pod,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Toleration;
    use nmstate_api::NMStateSpec;

    use super::*;
    use crate::operand::ControlPlane;

    fn pod(spec: &NMStateSpec) -> Value {
        let control_plane = ControlPlane::HighlyAvailable;
        let wanted = Wanted::new(spec, "i", "1", control_plane).unwrap();
        daemon_set(&wanted)["spec"]["template"]["spec"].clone()
    }

    #[test]
    fn every_linux_node_gets_a_handler_unless_the_nmstate_says_otherwise() {
        let plain = pod(&NMStateSpec::default());
        assert_eq!(plain["nodeSelector"], json!({ "kubernetes.io/os": "linux" }));
        assert_eq!(plain["tolerations"], json!([{ "operator": "Exists" }]));
        let spec = NMStateSpec {
            node_selector: Some([("a".to_owned(), "b".to_owned())].into()),
            tolerations: Some(vec![Toleration { key: Some("k".into()), ..Toleration::default() }]),
            ..NMStateSpec::default()
        };
        let asked = pod(&spec);
        assert_eq!(asked["nodeSelector"], json!({ "a": "b" }));
        assert_eq!(asked["tolerations"], json!([{ "key": "k" }]));
    }

    #[test]
    fn log_level_and_dns_host_reach_the_handler() {
        let mut spec = NMStateSpec { log_level: LogLevel::Debug, ..NMStateSpec::default() };
        spec.probe_configuration.dns.host = "dns.example".into();
        let container = &pod(&spec)["containers"][0];
        assert_eq!(
            container["args"],
            json!(["handler", "--log-level=debug", "--listen=[::]:8089"])
        );
        let host = json!({ "name": "PROBE_DNS_HOST", "value": "dns.example" });
        assert!(container["env"].as_array().unwrap().contains(&host));
    }

    #[test]
    fn requests_are_set_and_limits_are_not() {
        let resources = &pod(&NMStateSpec::default())["containers"][0]["resources"];
        assert!(resources["requests"].is_object() && resources.get("limits").is_none());
    }
}
