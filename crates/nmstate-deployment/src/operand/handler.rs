//! The DaemonSet of handlers.

use nmstate_api::LogLevel;
use serde_json::{Value, json};

use super::pod::{self, Placement};
use super::{Wanted, labels, metrics};
use crate::names::{HANDLER, HANDLER_HEALTH_PORT, NAMESPACE};

/// Folder of the lock that keeps two handlers from acting on one node. kubernetes-nmstate uses the
/// same.
const LOCK_FOLDER: &str = "/var/k8s_nmstate";
const LOOPBACK: &str = "127.0.0.1";

/// Finds the handlers for the monitoring.
pub(super) fn service(wanted: &Wanted<'_>) -> Value {
    metrics::service(HANDLER, NAMESPACE, wanted.metrics.as_ref().map(|it| it.handlers.port()))
}

/// Only the kubelet of the same node can request the health. An `NMState` may use the usual port for
/// metrics.
fn health_port(wanted: &Wanted<'_>) -> u16 {
    let taken = wanted.metrics.as_ref().map(|it| it.handlers.port());
    if taken == Some(HANDLER_HEALTH_PORT) { HANDLER_HEALTH_PORT + 1 } else { HANDLER_HEALTH_PORT }
}

pub(super) fn daemon_set(wanted: &Wanted<'_>) -> Value {
    let spec = wanted.spec;
    let level = match spec.log_level {
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    };
    let health = health_port(wanted);
    let mut pod = json!({
        // Handlers change the network of the host, so they must not have their own.
        "hostNetwork": true,
        "dnsPolicy": "Default",
        "priorityClassName": "system-node-critical",
        "serviceAccountName": HANDLER,
        // A change in progress is finished or rolled back within this time.
        "terminationGracePeriodSeconds": 60,
        "containers": [{
            "name": "handler",
            "image": wanted.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/usr/bin/nmstate-operator"],
            "args": ["handler", format!("--log-level={level}"), format!("--listen={LOOPBACK}:{health}")],
            "env": [
                pod::field("NODE_NAME", "spec.nodeName"),
                pod::field("POD_NAME", "metadata.name"),
                pod::field("POD_NAMESPACE", "metadata.namespace"),
                { "name": "PROBE_DNS_HOST", "value": spec.probe_configuration.dns.host },
                { "name": "RELEASE_VERSION", "value": wanted.version },
            ],
            // On the host network, ports are declared for the scheduler, too.
            "ports": [{ "name": "health", "containerPort": health, "hostIP": LOOPBACK, "protocol": "TCP" }],
            "resources": { "requests": { "cpu": "10m", "memory": "30Mi" } },
            // NetworkManager accepts requests from root only, and Open vSwitch's database is owned
            // by root.
            "securityContext": { "privileged": true, "runAsUser": 0 },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "livenessProbe": pod::http_probe("/healthz", health, Some(LOOPBACK)),
            "readinessProbe": pod::http_probe("/readyz", health, Some(LOOPBACK)),
            "volumeMounts": [
                { "name": "dbus", "mountPath": "/run/dbus/system_bus_socket" },
                { "name": "openvswitch", "mountPath": "/run/openvswitch" },
                { "name": "lock", "mountPath": LOCK_FOLDER },
                { "name": "links", "mountPath": "/etc/systemd/network" },
                // What `nmstate-operator gather` collects for must-gather; read only.
                { "name": "documents", "mountPath": "/etc/nmstate", "readOnly": true },
                { "name": "profiles", "mountPath": "/etc/NetworkManager", "readOnly": true },
                { "name": "profiles-of-boot", "mountPath": "/run/NetworkManager", "readOnly": true },
                { "name": "reports", "mountPath": "/var/log/brex-firstboot", "readOnly": true },
            ],
        }],
        "volumes": [
            { "name": "dbus", "hostPath": { "path": "/run/dbus/system_bus_socket", "type": "Socket" } },
            { "name": "openvswitch", "hostPath": { "path": "/run/openvswitch", "type": "DirectoryOrCreate" } },
            { "name": "lock", "hostPath": { "path": LOCK_FOLDER, "type": "DirectoryOrCreate" } },
            { "name": "links", "hostPath": { "path": "/etc/systemd/network", "type": "DirectoryOrCreate" } },
            { "name": "documents", "hostPath": { "path": "/etc/nmstate", "type": "DirectoryOrCreate" } },
            { "name": "profiles", "hostPath": { "path": "/etc/NetworkManager", "type": "DirectoryOrCreate" } },
            { "name": "profiles-of-boot", "hostPath": { "path": "/run/NetworkManager", "type": "DirectoryOrCreate" } },
            { "name": "reports", "hostPath": { "path": "/var/log/brex-firstboot", "type": "DirectoryOrCreate" } },
        ],
    });
    if wanted.memory_only
        && let Some(arguments) = pod["containers"][0]["args"].as_array_mut()
    {
        arguments.push(json!("--memory-only"));
    }
    if let Some(metrics_settings) = &wanted.metrics {
        metrics::serve(&mut pod, HANDLER, metrics_settings.handlers, metrics_settings.tls.flags());
    }
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
    fn every_linux_node_gets_a_handler_unless_the_nmstate_excludes_it() {
        let plain = pod(&NMStateSpec::default());
        assert_eq!(plain["nodeSelector"], json!({ "kubernetes.io/os": "linux" }));
        assert_eq!(plain["tolerations"], json!([{ "operator": "Exists" }]));
        let spec = NMStateSpec {
            node_selector: Some([("a".to_owned(), "b".to_owned())].into()),
            tolerations: Some(vec![Toleration { key: Some("k".into()), ..Toleration::default() }]),
            ..NMStateSpec::default()
        };
        let placed = pod(&spec);
        assert_eq!(placed["nodeSelector"], json!({ "a": "b" }));
        assert_eq!(placed["tolerations"], json!([{ "key": "k" }]));
    }

    #[test]
    fn log_level_and_dns_host_reach_the_handler() {
        let mut spec = NMStateSpec { log_level: LogLevel::Debug, ..NMStateSpec::default() };
        spec.probe_configuration.dns.host = "dns.example".into();
        let container = &pod(&spec)["containers"][0];
        let arguments = container["args"].as_array().unwrap();
        assert!(arguments.contains(&json!("--log-level=debug")), "{arguments:?}");
        let host = json!({ "name": "PROBE_DNS_HOST", "value": "dns.example" });
        assert!(container["env"].as_array().unwrap().contains(&host));
    }

    #[test]
    fn the_default_of_policies_reaches_the_handler() {
        let spec = NMStateSpec::default();
        let control_plane = ControlPlane::HighlyAvailable;
        for memory_only in [false, true] {
            let wanted = Wanted::new(&spec, "i", "1", control_plane).unwrap();
            let set = daemon_set(&wanted.with_memory_only(memory_only));
            let arguments = &set["spec"]["template"]["spec"]["containers"][0]["args"];
            let arguments = arguments.as_array().unwrap();
            assert_eq!(arguments.contains(&json!("--memory-only")), memory_only);
        }
    }

    #[test]
    fn metrics_are_offered_to_others_and_health_to_the_node_alone() {
        let mut spec = NMStateSpec::default();
        for (bind, metrics, health) in [
            (":8089", Some("--metrics-listen=[::]:8089"), 29089),
            (":29089", Some("--metrics-listen=[::]:29089"), 29090),
            ("0", None, 29089),
        ] {
            spec.metrics_configuration.bind_address = bind.into();
            let container = &pod(&spec)["containers"][0];
            let arguments: Vec<&str> =
                container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let found = arguments.iter().find(|it| it.starts_with("--metrics-listen")).copied();
            assert_eq!(found, metrics);
            assert!(arguments.contains(&&*format!("--listen=127.0.0.1:{health}")));
            for probe in ["livenessProbe", "readinessProbe"] {
                let action = &container[probe]["httpGet"];
                assert_eq!(
                    (&action["host"], &action["port"]),
                    (&json!("127.0.0.1"), &json!(health))
                );
            }
        }
    }

    #[test]
    fn requests_are_set_and_limits_are_not() {
        let resources = &pod(&NMStateSpec::default())["containers"][0]["resources"];
        assert!(resources["requests"].is_object() && resources.get("limits").is_none());
    }
}
