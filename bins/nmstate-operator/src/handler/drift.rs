//! Drift: policies that were applied and no longer match the network. It is reported, and
//! corrected if the policy requests that.

use std::time::Instant;

use nmstate::NetworkState;
use nmstate_api::annotations::Drift;
use nmstate_api::{EnactmentConditionType, EnactmentStatus, condition};
use node_policy::{Phase, rendering};

use super::handler_metrics::HandlerMetrics;
use super::handler_state::HandlerState;
use crate::events::Reason;

/// Identifies drift in reports of earlier handlers too; keep the text.
const DRIFTED: &str = "the network is no longer what the policy made it";
const RIGHT_AGAIN: &str = "the network is again what the policy made it";

/// Whether a report contains drift.
pub(super) fn reports_drift(report: &EnactmentStatus) -> bool {
    let available = condition::find(&report.conditions, EnactmentConditionType::Available);
    available.and_then(|it| it.message.as_deref()) == Some(DRIFTED)
}

/// The result of comparing a policy with the network.
struct DriftComparison {
    policy: String,
    is_drifted: bool,
    /// It is corrected now, which is reported as every change is.
    is_corrected: bool,
}

impl HandlerState {
    /// Compares the applied policies with the network.
    pub(super) async fn notice_drift(&mut self, state: &NetworkState, metrics: &HandlerMetrics) {
        let now = Instant::now();
        let mut drifted = 0_u32;
        let mut findings = Vec::new();
        for (policy, memory) in &mut self.memory {
            let Some(evaluated) = memory.evaluation.as_mut() else { continue };
            if memory.options.drift == Drift::Ignore || evaluated.differs {
                continue;
            }
            let is_drifted = rendering::differs(&evaluated.rendered.desired, state) == Ok(true);
            drifted += u32::from(is_drifted);
            let mut is_corrected = false;
            if is_drifted && memory.options.drift == Drift::Enforce {
                let next = memory.corrections.next(now);
                is_corrected = next <= now;
                if is_corrected {
                    memory.corrections.made(now);
                    evaluated.differs = true;
                } else {
                    self.read_network_at =
                        Some(self.read_network_at.map_or(next, |at| at.min(next)));
                }
            }
            if is_drifted != memory.is_drift_reported {
                memory.is_drift_reported = is_drifted;
                findings.push(DriftComparison { policy: policy.clone(), is_drifted, is_corrected });
            }
        }
        metrics.drift(drifted);
        for finding in findings {
            self.report_drift(&finding).await;
        }
    }

    async fn report_drift(&mut self, finding: &DriftComparison) {
        let DriftComparison { policy, is_drifted, is_corrected } = finding;
        let message = if *is_drifted { DRIFTED } else { RIGHT_AGAIN };
        tracing::warn!(policy, "{message}");
        if !is_corrected && let Some(memory) = self.memory.get(policy) {
            let update = memory.status_update(Phase::Available, message, None);
            if let Err(error) = self.write(policy, update).await {
                tracing::warn!(policy, "{error:#}");
            }
        }
        let reason = if *is_drifted { Reason::Drift } else { Reason::DriftCorrected };
        self.publish(policy, reason, message).await;
    }
}
