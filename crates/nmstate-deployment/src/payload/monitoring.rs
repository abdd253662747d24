//! Metrics: who may ask for them, where they are, and when somebody is to be told.

use serde_json::{Value, json};

use crate::names::{COMPONENT_LABEL, COORDINATOR, HANDLER, NAMESPACE, OPERATOR};

/// What every cluster has: handlers are on its own nodes.
pub(super) fn objects() -> Vec<Value> {
    vec![role(), role_binding(), client_authority(), service_monitor(HANDLER), rules()]
}

/// What runs beside the control plane. Where that is hosted elsewhere, the monitoring of this
/// cluster cannot reach it.
pub(super) fn control_plane() -> Vec<Value> {
    vec![service_monitor(COORDINATOR), service_monitor(OPERATOR)]
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

/// Whoever serves metrics must know the authority by which the monitoring shows who it is. The
/// cluster has a role for those who do.
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

/// The monitoring shows the certificate that the cluster gave it, and checks ours by the name of
/// the Service. The files are where it has them in every OpenShift cluster.
fn service_monitor(component: &str) -> Value {
    let tls = json!({
        "caFile": "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt",
        "certFile": "/etc/prometheus/secrets/metrics-client-certs/tls.crt",
        "keyFile": "/etc/prometheus/secrets/metrics-client-certs/tls.key",
        "serverName": format!("{component}.{NAMESPACE}.svc"),
    });
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": { "name": component, "namespace": NAMESPACE },
        "spec": {
            "selector": { "matchLabels": { COMPONENT_LABEL: component } },
            "endpoints": [
                { "port": "metrics", "interval": "60s", "scheme": "https", "tlsConfig": tls },
            ],
        },
    })
}

fn rules() -> Value {
    let alert = |name: &str, expression: &str, minutes: u32, summary: &str, description: &str| {
        json!({
            "alert": name,
            "expr": expression,
            "for": format!("{minutes}m"),
            "labels": { "severity": "warning", "namespace": NAMESPACE },
            "annotations": { "summary": summary, "description": description },
        })
    };
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
        "spec": { "groups": [{
            "name": "nmstate",
            "rules": [
                {
                    "record": "cluster:kubernetes_nmstate_features_applied:sum",
                    "expr": "sum by (name) (kubernetes_nmstate_features_applied)",
                },
                {
                    "record": "cluster:kubernetes_nmstate_network_interfaces:sum",
                    "expr": "sum by (type) (kubernetes_nmstate_network_interfaces)",
                },
                {
                    "record": "cluster:kubernetes_nmstate_routes:sum",
                    "expr": "sum by (ip_stack, type) (kubernetes_nmstate_routes)",
                },
                alert(
                    "NodeNetworkPolicyDegraded",
                    // Of all copies of the coordinator one counts: a change of leader is no news.
                    "max(kubernetes_nmstate_policies_status{status=\"Degraded\"}) > 0",
                    15,
                    "A node network policy failed on some of its nodes.",
                    "{{ $value }} node network policies are Degraded. `oc get nncp` and `oc get nnce` say which policies, which nodes, and why; nodes that failed have the network they had before.",
                ),
                alert(
                    "NodeNetworkEnactmentFailing",
                    "sum by (node) (kubernetes_nmstate_enactments_status{status=\"Failing\"}) > 0",
                    15,
                    "A node could not be given the network that a policy wants.",
                    "On node {{ $labels.node }}, {{ $value }} policies fail. `oc get nnce -l nmstate.io/node={{ $labels.node }}` says why.",
                ),
                alert(
                    "NodeNetworkHandlerNotReady",
                    "max(nmstate_operator_handlers_not_ready) > 0",
                    15,
                    "Handlers of node network policies do not run on some nodes.",
                    "On {{ $value }} ready nodes the handler is not ready: it restarts again and again, its image cannot be pulled, or NetworkManager does not respond. `oc get nmstate -o yaml` names the nodes; no policy is applied to them.",
                ),
            ],
        }]},
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
        let of_kind = |kind: &str| -> Vec<&Value> {
            all.iter().filter(|object| object["kind"] == kind).collect()
        };
        let monitors = of_kind("ServiceMonitor");
        assert_eq!(monitors.len(), 3);
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
            let expected = format!("{name}.openshift-nmstate-operator.svc");
            assert_eq!(endpoint["tlsConfig"]["serverName"], expected.as_str());

            // The Secret that the Service asks for is the one that its pods look into, if it is
            // there.
            let asked = &service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"];
            let selected = &service["spec"]["selector"];
            let workloads = [of_kind("DaemonSet"), of_kind("Deployment")].concat();
            let pods: Vec<&Value> = workloads
                .iter()
                .map(|workload| &workload["spec"]["template"])
                .filter(|template| template["metadata"]["labels"] == *selected)
                .collect();
            assert_eq!(pods.len(), 1, "{name}");
            let volumes = pods[0]["spec"]["volumes"].as_array().unwrap();
            let secret = volumes.iter().find(|volume| volume["secret"].is_object()).unwrap();
            assert_eq!(secret["secret"]["secretName"], *asked);
            assert_eq!(secret["secret"]["optional"], true);
        }
    }
}
