//! What a handler counts. Names that kubernetes-nmstate has are the same here.

use std::collections::BTreeMap;
use std::time::Duration;

use nmstate_api::annotations::ProbeKind;
use nmstate_api::{NetworkDocument, NodeName, NodeNetworkConfigurationEnactment as Enactment};
use node_network::probe::ProbeReport;
use node_policy::verdict::Fault;
use node_policy::{Attempt, Phase};
use serde_json::Value;

use crate::metrics::{Family, Kind, Metrics, text};

const INTERFACES: Family = Family {
    name: "kubernetes_nmstate_network_interfaces",
    help: "Number of network interfaces by type and node.",
    kind: Kind::Gauge,
};
const ROUTES: Family = Family {
    name: "kubernetes_nmstate_routes",
    help: "Number of routes by node, IP stack and type.",
    kind: Kind::Gauge,
};
pub(crate) const ENACTMENTS: Family = Family {
    name: "kubernetes_nmstate_enactments_status",
    help: "Number of enactments by node and status.",
    kind: Kind::Gauge,
};
const APPLIES: Family = Family {
    name: "nmstate_handler_applies_total",
    help: "Changes of the node's network by how they ended.",
    kind: Kind::Counter,
};
const ROLLBACKS: Family = Family {
    name: "nmstate_handler_rollbacks_total",
    help: "Changes that were rolled back, by cause.",
    kind: Kind::Counter,
};
const PROBES: Family = Family {
    name: "nmstate_handler_probe_failures_total",
    help: "Changes that were rolled back because a probe failed, by probe.",
    kind: Kind::Counter,
};
const SECONDS: Family = Family {
    name: "nmstate_handler_apply_duration_seconds",
    help: "How long changes took, from the first probe to the confirmation or the rollback.",
    kind: Kind::Histogram,
};
const PROBE_SECONDS: Family = Family {
    name: "nmstate_handler_probe_duration_seconds",
    help: "How long probes took, before, during and after changes, by probe and result.",
    kind: Kind::Histogram,
};
const MANAGER: Family = Family {
    name: "nmstate_handler_network_manager_up",
    help: "Whether NetworkManager responded at the last check.",
    kind: Kind::Gauge,
};
const DRIFT: Family = Family {
    name: "nmstate_handler_drifted_policies",
    help: "Policies that watch for drift, and that the node no longer matches.",
    kind: Kind::Gauge,
};

pub(crate) fn declare(metrics: &Metrics) {
    for outcome in ["applied", "rolled_back", "refused"] {
        metrics.start(APPLIES, &[("outcome", outcome)]);
    }
    for cause in ["apply", "verification", "probe", "expired"] {
        metrics.start(ROLLBACKS, &[("cause", cause)]);
    }
    for probe in ProbeKind::ALL {
        metrics.start(PROBES, &[("probe", probe.name())]);
    }
    for family in [SECONDS, PROBE_SECONDS] {
        metrics.declare(family);
    }
}

/// Counts the requests of one probe.
pub(crate) fn probes(metrics: &Metrics, kind: ProbeKind, reports: &[ProbeReport]) {
    for report in reports {
        let answered = if report.answered { "true" } else { "false" };
        let labels = [("probe", kind.name()), ("answered", answered)];
        let took = Duration::from_millis(report.milliseconds);
        metrics.observe(PROBE_SECONDS, &labels, took.as_secs_f64());
    }
}

pub(crate) fn attempt(metrics: &Metrics, attempt: &Attempt, took: Duration) {
    let outcome = match attempt {
        Attempt::Applied | Attempt::NothingDiffers => "applied",
        Attempt::RolledBack { fault, .. } => {
            let cause = match fault {
                Fault::Apply => "apply",
                Fault::Verification => "verification",
                Fault::Probe(probe) => {
                    let probe = probe.as_deref().unwrap_or("unknown");
                    metrics.add(PROBES, &[("probe", probe)]);
                    "probe"
                }
                Fault::ApiServer => {
                    metrics.add(PROBES, &[("probe", ProbeKind::ApiServer.name())]);
                    "probe"
                }
                Fault::Expired => "expired",
                Fault::Persist => "persist",
            };
            metrics.add(ROLLBACKS, &[("cause", cause)]);
            "rolled_back"
        }
        _ => "refused",
    };
    metrics.add(APPLIES, &[("outcome", outcome)]);
    metrics.observe(SECONDS, &[("outcome", outcome)], took.as_secs_f64());
}

/// Whether NetworkManager responds.
pub(crate) fn manager(metrics: &Metrics, responds: bool) {
    metrics.replace(MANAGER, [(String::new(), f64::from(u8::from(responds)))]);
}

pub(crate) fn drift(metrics: &Metrics, policies: u32) {
    metrics.replace(DRIFT, [(String::new(), f64::from(policies))]);
}

/// Counts interfaces and routes of a report.
pub(crate) fn network(metrics: &Metrics, node: &NodeName, report: &NetworkDocument) {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut interfaces: BTreeMap<String, f64> = BTreeMap::new();
    for interface in list(report.0.get("interfaces")) {
        let type_ = interface.get("type").and_then(Value::as_str).unwrap_or("unknown");
        let labels = text(&[("type", type_), ("node", node.as_str())]);
        *interfaces.entry(labels).or_default() += 1.0;
    }
    metrics.replace(INTERFACES, interfaces);
    let routes = |of: &str| list(report.0.get("routes").and_then(|routes| routes.get(of)));
    let destination =
        |route: &Value| route.get("destination").and_then(Value::as_str).map(str::to_owned);
    let configured: Vec<String> = routes("config").iter().filter_map(destination).collect();
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    for destination in routes("running").iter().filter_map(destination) {
        let stack = if destination.contains(':') { "ipv6" } else { "ipv4" };
        let type_ = if configured.contains(&destination) { "static" } else { "dynamic" };
        let labels = text(&[("node", node.as_str()), ("ip_stack", stack), ("type", type_)]);
        *counts.entry(labels).or_default() += 1.0;
    }
    metrics.replace(ROUTES, counts);
}

/// Counts reports by condition, with zeros for conditions of no report.
pub(crate) fn enactments<'a>(
    metrics: &Metrics,
    node: &NodeName,
    enactments: impl Iterator<Item = &'a Enactment>,
) {
    let statuses = ["Available", "Failing", "Progressing", "Pending", "Aborted", "Unknown"];
    let mut counts: BTreeMap<&str, f64> = statuses.iter().map(|status| (*status, 0.0)).collect();
    for enactment in enactments {
        let status = match Phase::of(enactment.conditions()) {
            Phase::Available => "Available",
            // The first of its conditions that hold.
            Phase::Failed | Phase::Retrying => "Failing",
            Phase::Progressing => "Progressing",
            Phase::Pending => "Pending",
            Phase::Aborted => "Aborted",
            Phase::Unknown => "Unknown",
        };
        *counts.entry(status).or_default() += 1.0;
    }
    let series = counts
        .into_iter()
        .map(|(status, count)| (text(&[("node", node.as_str()), ("status", status)]), count));
    metrics.replace(ENACTMENTS, series);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn counted(report: serde_json::Value) -> String {
        let metrics = Metrics::default();
        network(&metrics, &"n1".parse().unwrap(), &serde_json::from_value(report).unwrap());
        metrics.render()
    }

    #[test]
    fn a_route_is_static_when_somebody_configured_it() {
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
            let text = counted(json!({"routes": {"running": running, "config": config}}));
            let kinds =
                [("ipv4", "static"), ("ipv4", "dynamic"), ("ipv6", "static"), ("ipv6", "dynamic")];
            for ((stack, type_), count) in kinds.into_iter().zip(expected) {
                let series = format!(
                    "kubernetes_nmstate_routes{{node=\"n1\",ip_stack=\"{stack}\",type=\"{type_}\"}}"
                );
                match count {
                    0 => assert!(!text.contains(&series), "{series} is in {text}"),
                    _ => assert!(text.contains(&format!("{series} {count}\n")), "{text}"),
                }
            }
        }
    }

    #[test]
    fn interfaces_are_counted_by_their_type() {
        let nic = |name: &str| json!({"name": name, "type": "ethernet"});
        let text = counted(json!({"interfaces": [nic("eth0"), nic("eth1")]}));
        let line = "kubernetes_nmstate_network_interfaces{type=\"ethernet\",node=\"n1\"} 2";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn what_can_be_counted_is_there_before_it_happens() {
        let metrics = Metrics::default();
        declare(&metrics);
        let text = metrics.render();
        for line in [
            "nmstate_handler_applies_total{outcome=\"rolled_back\"} 0",
            "nmstate_handler_rollbacks_total{cause=\"probe\"} 0",
            "nmstate_handler_probe_failures_total{probe=\"gateway\"} 0",
            "# TYPE nmstate_handler_probe_duration_seconds histogram",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn probes_are_measured_by_whether_they_were_answered() {
        let metrics = Metrics::default();
        let report = |answered, milliseconds| ProbeReport {
            probe: "p".into(),
            answered,
            detail: "d".into(),
            milliseconds,
        };
        probes(&metrics, ProbeKind::Dns, &[report(true, 200), report(false, 3000)]);
        let text = metrics.render();
        let line = |answered: bool, what: &str, rest: &str| {
            let name = format!("nmstate_handler_probe_duration_seconds_{what}");
            format!("{name}{{probe=\"dns\",answered=\"{answered}\"{rest}\n")
        };
        for line in [
            line(true, "bucket", ",le=\"0.25\"} 1"),
            line(false, "bucket", ",le=\"2.5\"} 0"),
            line(false, "sum", "} 3"),
        ] {
            assert!(text.contains(&line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_rollback_is_counted_with_its_cause_and_probe() {
        let metrics = Metrics::default();
        let taken_back = Attempt::RolledBack {
            fault: Fault::Probe(Some("api-server".into())),
            why: "why".into(),
            now: node_policy::verdict::Afterwards::Works,
        };
        attempt(&metrics, &taken_back, Duration::from_secs(3));
        let text = metrics.render();
        assert!(text.contains("nmstate_handler_rollbacks_total{cause=\"probe\"} 1"), "{text}");
        assert!(
            text.contains("nmstate_handler_probe_failures_total{probe=\"api-server\"} 1"),
            "{text}"
        );
    }
}
