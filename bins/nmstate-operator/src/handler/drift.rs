//! Policies that were made true and no longer are: told, and put right where that is asked for.

use std::time::Instant;

use nmstate::NetworkState;
use nmstate_api::annotations::Drift;
use nmstate_api::{EnactmentConditionType, EnactmentStatus, condition};
use node_policy::{Phase, rendering};

use super::desk::Desk;
use super::numbers;
use crate::events::Reason;
use crate::service_port::Standing;

const DRIFTED: &str = "the network is no longer what the policy made it";
const RIGHT_AGAIN: &str = "the network is again what the policy made it";

/// Whether a report says that the network has drifted.
pub(super) fn says_drifted(report: &EnactmentStatus) -> bool {
    let available = condition::find(&report.conditions, EnactmentConditionType::Available);
    available.and_then(|it| it.message.as_deref()) == Some(DRIFTED)
}

/// What a look at the network found about a policy.
struct Finding {
    policy: String,
    is_drifted: bool,
    /// It is put right now, which is reported as every change is.
    is_put_right: bool,
}

impl Desk {
    /// Compares what policies made of the network with what it is.
    pub(super) async fn notice_drift(&mut self, state: &NetworkState, standing: &Standing) {
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
            let mut is_put_right = false;
            if is_drifted && memory.options.drift == Drift::Enforce {
                let next = memory.corrections.next(now);
                is_put_right = next <= now;
                if is_put_right {
                    memory.corrections.made(now);
                    evaluated.differs = true;
                } else {
                    self.look_at = Some(self.look_at.map_or(next, |at| at.min(next)));
                }
            }
            if is_drifted != memory.is_drift_told {
                memory.is_drift_told = is_drifted;
                findings.push(Finding { policy: policy.clone(), is_drifted, is_put_right });
            }
        }
        numbers::drift(&standing.metrics, drifted);
        for finding in findings {
            self.tell_of_drift(&finding).await;
        }
    }

    async fn tell_of_drift(&mut self, finding: &Finding) {
        let Finding { policy, is_drifted, is_put_right } = finding;
        let message = if *is_drifted { DRIFTED } else { RIGHT_AGAIN };
        tracing::warn!(policy, "{message}");
        if !is_put_right && let Some(memory) = self.memory.get(policy) {
            let saying = memory.saying(Phase::Available, message, None);
            if let Err(error) = self.write(policy, saying).await {
                tracing::warn!(policy, "{error:#}");
            }
        }
        let reason = if *is_drifted { Reason::Drift } else { Reason::DriftCorrected };
        self.tell(policy, reason, message).await;
    }
}
