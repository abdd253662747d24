//! Metrics: who may read them, where they are served, and which alerts there are.

use serde_json::{Value, json};

use crate::names::{COMPONENT_LABEL, COORDINATOR, HANDLER, NAMESPACE, OPERATOR};

/// What every cluster has: handlers are on its own nodes.
pub(super) fn objects() -> Vec<Value> {
    let handlers = service_monitor(NAMESPACE, HANDLER, &own_tls(HANDLER));
    vec![role(), role_binding(), client_authority(), handlers, rules()]
}

/// What runs beside the control plane. Where that is hosted elsewhere, the monitoring of this
/// cluster cannot reach it.
pub(super) fn control_plane() -> Vec<Value> {
    [COORDINATOR, OPERATOR].map(|it| service_monitor(NAMESPACE, it, &own_tls(it))).into()
}

fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": "prometheus-k8s", "namespace": NAMESPACE },
        "rules": [{
            "apiGroups": [""],
            "resources": ["services", "endpoints", "pods"],
            "verbs": ["get", "list", "watch"],
        }, {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["get", "list", "watch"],
        }],
    })
}

fn role_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": "prometheus-k8s", "namespace": NAMESPACE },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "prometheus-k8s",
        },
        "subjects": [{
            "kind": "ServiceAccount",
            "name": "prometheus-k8s",
            "namespace": "openshift-monitoring",
        }],
    })
}

/// A component that serves metrics must read the CA that signs the certificate of the monitoring.
/// The cluster has a role for that.
fn client_authority() -> Value {
    let subjects = [HANDLER, COORDINATOR, OPERATOR]
        .map(|name| json!({ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }));
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": format!("{OPERATOR}-client-authority"), "namespace": "kube-system" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "extension-apiserver-authentication-reader",
        },
        "subjects": subjects,
    })
}

/// The monitoring presents the certificate that the cluster issued to it, and verifies ours by the
/// name of the Service. The files are where it has them in every OpenShift cluster.
fn own_tls(component: &str) -> Value {
    json!({
        "caFile": "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt",
        "certFile": "/etc/prometheus/secrets/metrics-client-certs/tls.crt",
        "keyFile": "/etc/prometheus/secrets/metrics-client-certs/tls.key",
        "serverName": format!("{component}.{NAMESPACE}.svc"),
    })
}

pub(super) fn service_monitor(namespace: &str, component: &str, tls: &Value) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": { "name": component, "namespace": namespace },
        "spec": {
            "selector": { "matchLabels": { COMPONENT_LABEL: component } },
            "endpoints": [
                { "port": "metrics", "interval": "60s", "scheme": "https", "tlsConfig": tls },
            ],
        },
    })
}

/// Rules about metrics of the cluster's own monitoring.
fn rules() -> Value {
    let mut rules = vec![
        json!({
            "record": "cluster:kubernetes_nmstate_features_applied:sum",
            "expr": "sum by (name) (kubernetes_nmstate_features_applied)",
        }),
        json!({
            "record": "cluster:kubernetes_nmstate_network_interfaces:sum",
            "expr": "sum by (type) (kubernetes_nmstate_network_interfaces)",
        }),
        json!({
            "record": "cluster:kubernetes_nmstate_routes:sum",
            "expr": "sum by (ip_stack, type) (kubernetes_nmstate_routes)",
        }),
    ];
    let [degraded, not_ready] = control_plane_alerts(NAMESPACE, "");
    rules.push(degraded);
    rules.push(alert(
        NAMESPACE,
        "NodeNetworkEnactmentFailing",
        "sum by (node) (kubernetes_nmstate_enactments_status{status=\"Failing\"}) > 0",
        "The network of a node could not be configured as a policy requires.",
        "On node {{ $labels.node }}, {{ $value }} policies fail. `oc get nnce -l nmstate.io/node={{ $labels.node }}` lists the reasons.",
    ));
    rules.push(not_ready);
    prometheus_rule(NAMESPACE, &rules)
}

/// The alerts of a hosted control plane, by the monitoring of the management cluster, which has the
/// metrics of all of them.
pub(super) fn control_plane_rules(namespace: &str) -> Value {
    let alerts = control_plane_alerts(namespace, &format!("namespace=\"{namespace}\""));
    prometheus_rule(namespace, &alerts)
}

/// Alerts about metrics of the coordinator and the operator. `selector` are labels of the series.
fn control_plane_alerts(namespace: &str, selector: &str) -> [Value; 2] {
    let labels = |own: &str| {
        let all = [own, selector].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
        if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
    };
    let degraded = labels("status=\"Degraded\"");
    [
        alert(
            namespace,
            "NodeNetworkPolicyDegraded",
            // Only one replica of the coordinator counts: a change of leader must not matter.
            &format!("max(kubernetes_nmstate_policies_status{degraded}) > 0"),
            "A node network policy failed on some of its nodes.",
            "{{ $value }} node network policies are Degraded. `oc get nncp` and `oc get nnce` show which policies, which nodes, and why; nodes that failed have the network they had before.",
        ),
        alert(
            namespace,
            "NodeNetworkHandlerNotReady",
            &format!("max(nmstate_operator_handlers_not_ready{}) > 0", labels("")),
            "Handlers of node network policies do not run on some nodes.",
            "On {{ $value }} ready nodes the handler is not ready: it restarts again and again, its image cannot be pulled, or NetworkManager does not respond. `oc get nmstate -o yaml` names the nodes; no policy is applied to them.",
        ),
    ]
}

fn alert(namespace: &str, name: &str, expression: &str, summary: &str, description: &str) -> Value {
    json!({
        "alert": name,
        "expr": expression,
        "for": "15m",
        "labels": { "severity": "warning", "namespace": namespace },
        "annotations": { "summary": summary, "description": description },
    })
}

fn prometheus_rule(namespace: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": { "name": OPERATOR, "namespace": namespace },
        "spec": { "groups": [{ "name": "nmstate", "rules": rules }] },
    })
}

#[cfg(test)]
mod tests {
    use nmstate_api::NMStateSpec;

    use super::*;
    use crate::operand::{self, ControlPlane, Wanted};
    use crate::payload;

    #[test]
    fn the_monitoring_finds_every_part_by_a_name_that_its_certificate_is_for() {
        let spec = NMStateSpec::default();
        let control_plane = ControlPlane::HighlyAvailable;
        let wanted = Wanted::new(&spec, "i", "1", control_plane).unwrap();
        let mut all = operand::objects(&wanted);
        all.extend(payload::files().into_iter().flat_map(|file| file.objects));
        assert_monitored(&all, NAMESPACE, 3);
    }

    #[test]
    fn the_monitoring_of_a_management_cluster_finds_what_runs_beside_a_control_plane() {
        let files = payload::hosted_files("clusters-a").into_iter();
        let all: Vec<Value> = files.flat_map(|file| file.objects).collect();
        assert!(all.iter().all(|object| object["metadata"]["namespace"] == "clusters-a"));
        assert_monitored(&all, "clusters-a", 2);
        let rule = all.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
        let alerts = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
        assert_eq!(alerts.len(), 2);
        for alert in alerts {
            let expression = alert["expr"].as_str().unwrap();
            assert!(expression.contains("namespace=\"clusters-a\""), "{expression}");
            assert_eq!(alert["labels"]["namespace"], "clusters-a");
        }
    }

    /// Each of so many monitors finds one Service, whose pods have the certificate for its name.
    fn assert_monitored(all: &[Value], namespace: &str, count: usize) {
        let of_kind = |kind: &str| -> Vec<&Value> {
            all.iter().filter(|object| object["kind"] == kind).collect()
        };
        let monitors = of_kind("ServiceMonitor");
        assert_eq!(monitors.len(), count);
        for monitor in monitors {
            let wanted = &monitor["spec"]["selector"]["matchLabels"][COMPONENT_LABEL];
            let services = of_kind("Service");
            let mut found = services
                .iter()
                .filter(|service| service["metadata"]["labels"][COMPONENT_LABEL] == *wanted);
            let (service, None) = (found.next().unwrap(), found.next()) else {
                panic!("{wanted} is the label of several Services");
            };
            let endpoint = &monitor["spec"]["endpoints"][0];
            assert_eq!(endpoint["scheme"], "https");
            assert_eq!(service["spec"]["ports"][0]["name"], endpoint["port"]);
            let name = service["metadata"]["name"].as_str().unwrap();
            let expected = format!("{name}.{namespace}.svc");
            assert_eq!(endpoint["tlsConfig"]["serverName"], expected.as_str());

            // The Secret that the Service requests is the one that its pods read, if it exists.
            let secret_name = &service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"];
            let selected = &service["spec"]["selector"];
            let workloads = [of_kind("DaemonSet"), of_kind("Deployment")].concat();
            let pods: Vec<&Value> = workloads
                .iter()
                .map(|workload| &workload["spec"]["template"])
                .filter(|template| template["metadata"]["labels"] == *selected)
                .collect();
            assert_eq!(pods.len(), 1, "{name}");
            let volumes = pods[0]["spec"]["volumes"].as_array().unwrap();
            let secret =
                volumes.iter().find(|volume| volume["secret"]["secretName"] == *secret_name);
            assert_eq!(secret.unwrap()["secret"]["optional"], true);
            let mounts = pods[0]["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
            assert!(mounts.iter().any(|mount| mount["name"] == secret.unwrap()["name"]), "{name}");
        }
    }
}
