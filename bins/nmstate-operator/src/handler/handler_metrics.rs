//! The metrics of a handler. Those that kubernetes-nmstate has, too, have the same names.

use std::collections::BTreeMap;
use std::time::Duration;

use nmstate_api::annotations::ProbeKind;
use nmstate_api::{NetworkDocument, NodeName, NodeNetworkConfigurationEnactment as Enactment};
use node_network::Cause;
use node_network::probe::ProbeReport;
use node_policy::{Attempt, Phase};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::Value;

use crate::metrics::{Durations, LateGauge, Metrics, durations, replace};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct InterfaceLabels {
    r#type: String,
    node: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct RouteLabels {
    node: String,
    ip_stack: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EnactmentLabels {
    node: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailedProbeLabels {
    probe: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProbeLabels {
    probe: &'static str,
    answered: &'static str,
}

/// The metrics of a handler.
#[derive(Debug, Clone)]
pub struct HandlerMetrics {
    interfaces: Family<InterfaceLabels, Gauge>,
    routes: Family<RouteLabels, Gauge>,
    enactments: Family<EnactmentLabels, Gauge>,
    applies: Family<OutcomeLabels, Counter>,
    rollbacks: Family<CauseLabels, Counter>,
    failed_probes: Family<FailedProbeLabels, Counter>,
    apply_seconds: Durations<OutcomeLabels>,
    probe_seconds: Durations<ProbeLabels>,
    manager: LateGauge,
    drift: LateGauge,
}

impl HandlerMetrics {
    /// Adds the metrics of a handler. Counters start at zero, so that their first step is visible.
    pub fn register(metrics: &Metrics) -> Self {
        let new = Self {
            interfaces: metrics.register(
                "kubernetes_nmstate_network_interfaces",
                "Number of network interfaces by type and node",
                Family::default(),
            ),
            routes: metrics.register(
                "kubernetes_nmstate_routes",
                "Number of routes by node, IP stack and type",
                Family::default(),
            ),
            enactments: metrics.register(
                "kubernetes_nmstate_enactments_status",
                "Number of enactments by node and status",
                Family::default(),
            ),
            applies: metrics.register(
                "nmstate_handler_applies",
                "Changes of the node's network by how they ended",
                Family::default(),
            ),
            rollbacks: metrics.register(
                "nmstate_handler_rollbacks",
                "Changes that were rolled back, by cause",
                Family::default(),
            ),
            failed_probes: metrics.register(
                "nmstate_handler_probe_failures",
                "Changes that were rolled back because a probe failed, by probe",
                Family::default(),
            ),
            apply_seconds: metrics.register(
                "nmstate_handler_apply_duration_seconds",
                "How long changes took, from the first probe to the confirmation or the rollback",
                durations(),
            ),
            probe_seconds: metrics.register(
                "nmstate_handler_probe_duration_seconds",
                "How long probes took, before, during and after changes, by probe and result",
                durations(),
            ),
            manager: metrics.register(
                "nmstate_handler_network_manager_up",
                "Whether NetworkManager responded at the last check",
                LateGauge::default(),
            ),
            drift: metrics.register(
                "nmstate_handler_drifted_policies",
                "Policies that watch for drift, and that the node no longer matches",
                LateGauge::default(),
            ),
        };
        for outcome in ["applied", "rolled_back", "refused"] {
            drop(new.applies.get_or_create(&OutcomeLabels { outcome }));
        }
        for cause in ["apply", "verification", "probe", "expired", "persist"] {
            drop(new.rollbacks.get_or_create(&CauseLabels { cause }));
        }
        for probe in ProbeKind::ALL {
            let labels = FailedProbeLabels { probe: probe.name() };
            drop(new.failed_probes.get_or_create(&labels));
        }
        new
    }

    /// Counts the requests of one probe.
    pub(crate) fn probes(&self, kind: ProbeKind, reports: &[ProbeReport]) {
        for report in reports {
            let answered = if report.answered { "true" } else { "false" };
            let labels = ProbeLabels { probe: kind.name(), answered };
            let took = Duration::from_millis(report.milliseconds);
            self.probe_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn attempt(&self, attempt: &Attempt, took: Duration) {
        let outcome = match attempt {
            Attempt::Applied | Attempt::NothingDiffers => "applied",
            Attempt::RolledBack { cause, probe, .. } => {
                let cause = match cause {
                    Cause::Apply => "apply",
                    Cause::Verification => "verification",
                    Cause::Facts | Cause::Probes => {
                        let probe = probe.map_or("unknown", ProbeKind::name);
                        self.failed_probes.get_or_create(&FailedProbeLabels { probe }).inc();
                        "probe"
                    }
                    Cause::Expired => "expired",
                    Cause::Persist => "persist",
                };
                self.rollbacks.get_or_create(&CauseLabels { cause }).inc();
                "rolled_back"
            }
            _ => "refused",
        };
        let labels = OutcomeLabels { outcome };
        self.applies.get_or_create(&labels).inc();
        self.apply_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Whether NetworkManager responds.
    pub(crate) fn manager(&self, responds: bool) {
        self.manager.set(i64::from(responds));
    }

    pub(crate) fn drift(&self, policies: u32) {
        self.drift.set(i64::from(policies));
    }

    /// Counts interfaces and routes of a report.
    pub(crate) fn network(&self, node: &NodeName, report: &NetworkDocument) {
        let node = node.as_str();
        let list =
            |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let mut interfaces: BTreeMap<InterfaceLabels, i64> = BTreeMap::new();
        for interface in list(report.0.get("interfaces")) {
            let type_ = interface.get("type").and_then(Value::as_str).unwrap_or("unknown");
            let labels = InterfaceLabels { r#type: type_.to_owned(), node: node.to_owned() };
            *interfaces.entry(labels).or_default() += 1;
        }
        replace(&self.interfaces, interfaces);
        let routes = |of: &str| list(report.0.get("routes").and_then(|routes| routes.get(of)));
        let destination =
            |route: &Value| route.get("destination").and_then(Value::as_str).map(str::to_owned);
        let configured: Vec<String> = routes("config").iter().filter_map(destination).collect();
        let mut counts: BTreeMap<RouteLabels, i64> = BTreeMap::new();
        for destination in routes("running").iter().filter_map(destination) {
            let ip_stack = if destination.contains(':') { "ipv6" } else { "ipv4" };
            let r#type = if configured.contains(&destination) { "static" } else { "dynamic" };
            let labels = RouteLabels { node: node.to_owned(), ip_stack, r#type };
            *counts.entry(labels).or_default() += 1;
        }
        replace(&self.routes, counts);
    }

    /// Counts enactments by condition, with zeros for conditions without an enactment.
    pub(crate) fn enactments<'a>(
        &self,
        node: &NodeName,
        enactments: impl Iterator<Item = &'a Enactment>,
    ) {
        let statuses = ["Available", "Failing", "Progressing", "Pending", "Aborted", "Unknown"];
        let mut counts: BTreeMap<&'static str, i64> = statuses.map(|status| (status, 0)).into();
        for enactment in enactments {
            let status = match Phase::of(enactment.conditions()) {
                Phase::Available => "Available",
                // The first of its conditions that are true.
                Phase::Failed | Phase::Retrying => "Failing",
                Phase::Progressing => "Progressing",
                Phase::Pending => "Pending",
                Phase::Aborted => "Aborted",
                Phase::Unknown => "Unknown",
            };
            *counts.entry(status).or_default() += 1;
        }
        let labels = |status| EnactmentLabels { node: node.as_str().to_owned(), status };
        replace(
            &self.enactments,
            counts.into_iter().map(|(status, count)| (labels(status), count)),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metrics::check::{Samples, samples, value};

    /// What is rendered after something was counted.
    fn counted(count: impl FnOnce(&HandlerMetrics)) -> Samples {
        let metrics = Metrics::default();
        count(&HandlerMetrics::register(&metrics));
        samples(&metrics.render())
    }

    fn network(report: serde_json::Value) -> Samples {
        let (node, report) = ("n1".parse().unwrap(), serde_json::from_value(report).unwrap());
        counted(|metrics| metrics.network(&node, &report))
    }

    #[test]
    fn a_configured_route_is_static() {
        let v4 = |last: u8| json!({"destination": format!("192.0.2.{last}/32")});
        let v6 = |last: u8| json!({"destination": format!("2001:db8::{last}/128")});
        // Running, configured; then IPv4 static, IPv4 dynamic, IPv6 static, IPv6 dynamic.
        let table = [
            (vec![], vec![], [0, 0, 0, 0]),
            (vec![v4(1), v4(2)], vec![], [0, 2, 0, 0]),
            (vec![v4(1), v4(2)], vec![v4(1)], [1, 1, 0, 0]),
            (vec![v6(1)], vec![], [0, 0, 0, 1]),
            (vec![v6(1), v6(2)], vec![v6(1), v6(2)], [0, 0, 2, 0]),
            (vec![v4(1), v6(1), v6(2)], vec![v4(1), v6(1)], [1, 0, 1, 1]),
        ];
        for (running, config, expected) in table {
            let samples = network(json!({"routes": {"running": running, "config": config}}));
            let kinds =
                [("ipv4", "static"), ("ipv4", "dynamic"), ("ipv6", "static"), ("ipv6", "dynamic")];
            for ((stack, type_), count) in kinds.into_iter().zip(expected) {
                let labels = [("node", "n1"), ("ip_stack", stack), ("type", type_)];
                let found = value(&samples, "kubernetes_nmstate_routes", &labels);
                let expected = (count != 0).then_some(f64::from(count));
                assert_eq!(found, expected, "{labels:?} of {running:?}");
            }
        }
    }

    #[test]
    fn interfaces_are_counted_by_their_type() {
        let nic = |name: &str| json!({"name": name, "type": "ethernet"});
        let samples = network(json!({"interfaces": [nic("eth0"), nic("eth1")]}));
        let labels = [("type", "ethernet"), ("node", "n1")];
        assert_eq!(value(&samples, "kubernetes_nmstate_network_interfaces", &labels), Some(2.0));
    }

    #[test]
    fn what_can_be_counted_is_there_before_it_happens() {
        let samples = counted(|_| ());
        for (name, label, of) in [
            ("nmstate_handler_applies_total", "outcome", "rolled_back"),
            ("nmstate_handler_rollbacks_total", "cause", "persist"),
            ("nmstate_handler_probe_failures_total", "probe", "gateway"),
        ] {
            assert_eq!(value(&samples, name, &[(label, of)]), Some(0.0), "{name}");
        }
        let up = "nmstate_handler_network_manager_up";
        assert_eq!(value(&samples, up, &[]), None, "nothing is known of NetworkManager yet");
    }

    #[test]
    fn probes_are_measured_by_whether_they_succeeded() {
        let report = |answered, milliseconds| ProbeReport {
            probe: "p".into(),
            answered,
            detail: "d".into(),
            milliseconds,
        };
        let samples = counted(|metrics| {
            metrics.probes(ProbeKind::Dns, &[report(true, 200), report(false, 3000)]);
        });
        let found = |answered: &str, what: &str, bound: Option<&str>| {
            let name = format!("nmstate_handler_probe_duration_seconds_{what}");
            let mut labels = vec![("probe", "dns"), ("answered", answered)];
            labels.extend(bound.map(|bound| ("le", bound)));
            value(&samples, &name, &labels)
        };
        assert_eq!(found("true", "bucket", Some("0.25")), Some(1.0));
        assert_eq!(found("false", "bucket", Some("2.5")), Some(0.0));
        assert_eq!(found("false", "sum", None), Some(3.0));
    }

    #[test]
    fn a_rollback_is_counted_with_its_cause_and_probe() {
        let rolled_back = Attempt::RolledBack {
            cause: Cause::Probes,
            probe: Some(ProbeKind::ApiServer),
            outage: node_policy::verdict::Outage::No,
            why: "why".into(),
            recovery: node_network::Recovery::Works,
        };
        let samples = counted(|metrics| metrics.attempt(&rolled_back, Duration::from_secs(3)));
        let rollbacks = "nmstate_handler_rollbacks_total";
        assert_eq!(value(&samples, rollbacks, &[("cause", "probe")]), Some(1.0));
        let failures = "nmstate_handler_probe_failures_total";
        assert_eq!(value(&samples, failures, &[("probe", "api-server")]), Some(1.0));
    }
}
