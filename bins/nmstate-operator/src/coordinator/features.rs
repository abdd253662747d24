//! The metrics of the coordinator: policies by status, and features in use. The names are those of
//! kubernetes-nmstate.

use std::collections::{BTreeMap, BTreeSet};

use nmstate_api::ConditionStatus;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::view::View;
use crate::metrics::{Metrics, replace};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FeatureLabels {
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    status: &'static str,
}

/// The metrics of a coordinator.
#[derive(Debug, Clone)]
pub struct CoordinatorMetrics {
    features: Family<FeatureLabels, Gauge>,
    policies: Family<StatusLabels, Gauge>,
}

impl CoordinatorMetrics {
    pub fn register(metrics: &Metrics) -> Self {
        Self {
            features: metrics.register(
                "kubernetes_nmstate_features_applied",
                "Features of NMState that some policy makes use of",
                Family::default(),
            ),
            policies: metrics.register(
                "kubernetes_nmstate_policies_status",
                "Number of policies by status",
                Family::default(),
            ),
        }
    }

    pub(super) fn count(&self, view: &View) {
        let features: BTreeSet<&str> =
            view.enactments().flat_map(|it| it.features.iter().map(String::as_str)).collect();
        let labels = |name: &str| FeatureLabels { name: name.to_owned() };
        replace(&self.features, features.into_iter().map(|name| (labels(name), 1)));
        let statuses = ["Available", "Degraded", "Progressing", "Ignored", "Unknown"];
        let mut counts: BTreeMap<&'static str, i64> = statuses.map(|it| (it, 0)).into();
        for (_, facts) in view.policies() {
            let conditions = facts.policy.conditions();
            let holds = conditions.iter().find(|it| it.status == ConditionStatus::True);
            let holds = holds.map_or("Unknown", |it| it.type_.as_str());
            let known = statuses.into_iter().find(|it| *it == holds).unwrap_or("Unknown");
            *counts.entry(known).or_default() += 1;
        }
        let labels = |status| StatusLabels { status };
        replace(&self.policies, counts.into_iter().map(|(status, count)| (labels(status), count)));
    }
}
