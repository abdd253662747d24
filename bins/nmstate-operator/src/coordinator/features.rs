//! What the coordinator counts: policies by status, and features in use. The names are those of
//! kubernetes-nmstate.

use std::collections::{BTreeMap, BTreeSet};

use nmstate_api::ConditionStatus;

use super::view::View;
use crate::metrics::{Family, Kind, Metrics, text};

const FEATURES: Family = Family {
    name: "kubernetes_nmstate_features_applied",
    help: "Features of NMState that some policy makes use of.",
    kind: Kind::Gauge,
};
const POLICIES: Family = Family {
    name: "kubernetes_nmstate_policies_status",
    help: "Number of policies by status.",
    kind: Kind::Gauge,
};

pub(super) fn count(metrics: &Metrics, view: &View) {
    let features: BTreeSet<&str> =
        view.enactments().flat_map(|it| it.features.iter().map(String::as_str)).collect();
    let series = features.into_iter().map(|name| (text(&[("name", name)]), 1.0));
    metrics.replace(FEATURES, series);
    let statuses = ["Available", "Degraded", "Progressing", "Ignored", "Unknown"];
    let mut counts: BTreeMap<&str, f64> = statuses.iter().map(|it| (*it, 0.0)).collect();
    for (_, facts) in view.policies() {
        let conditions = facts.policy.conditions();
        let holds = conditions.iter().find(|it| it.status == ConditionStatus::True);
        let holds = holds.map_or("Unknown", |it| it.type_.as_str());
        let known = statuses.iter().find(|it| **it == holds).unwrap_or(&"Unknown");
        *counts.entry(*known).or_default() += 1.0;
    }
    let series = counts.into_iter().map(|(status, count)| (text(&[("status", status)]), count));
    metrics.replace(POLICIES, series);
}
