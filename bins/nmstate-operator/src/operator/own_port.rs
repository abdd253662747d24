//! The operator's own metrics port: its metrics, and the cluster's TLS settings, which it applies
//! without a restart.

use nmstate_deployment::decide::{Decision, Operand};
use nmstate_deployment::rollout::Rollout;
use nmstate_deployment::tls_profile::TlsProfile;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::watch;

use crate::metrics::LateGauge;
use crate::metrics_port::ServedTls;
use crate::service_port::ServiceState;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

pub(super) struct OwnPort {
    reconciliations: Family<OutcomeLabels, Counter>,
    wanted: LateGauge,
    not_ready: LateGauge,
    served_tls: watch::Sender<ServedTls>,
}

impl OwnPort {
    pub(super) fn new(service: &ServiceState) -> Self {
        let reconciliations: Family<OutcomeLabels, Counter> = service.metrics.register(
            "nmstate_operator_looks",
            "Reconciliations of the cluster, by outcome",
            Family::default(),
        );
        for outcome in ["done", "failed"] {
            drop(reconciliations.get_or_create(&OutcomeLabels { outcome }));
        }
        Self {
            reconciliations,
            wanted: service.metrics.register(
                "nmstate_operator_operand_wanted",
                "Whether handlers and coordinator are deployed in this cluster",
                LateGauge::default(),
            ),
            not_ready: service.metrics.register(
                "nmstate_operator_handlers_not_ready",
                "Ready nodes whose handler is not ready",
                LateGauge::default(),
            ),
            served_tls: watch::Sender::new(ServedTls::NotYet),
        }
    }

    pub(super) fn served_tls(&self) -> watch::Receiver<ServedTls> {
        self.served_tls.subscribe()
    }

    pub(super) fn follow(&self, profile: &TlsProfile) {
        let served_tls = profile.settings.clone().map_or(ServedTls::Nothing, ServedTls::Tls);
        self.served_tls.send_if_modified(|held| {
            let differs = *held != served_tls;
            *held = served_tls;
            differs
        });
    }

    pub(super) fn observed(&self, rollout: &Rollout) {
        let count = rollout.handlers_not_ready().len();
        self.not_ready.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn decided(&self, decision: &Decision) {
        match decision.operand {
            Operand::Deploy(_) => self.wanted.set(1),
            Operand::Remove => self.wanted.set(0),
            Operand::Leave => {}
        }
    }

    pub(super) fn reconciled<T, E>(&self, result: &Result<T, E>) {
        let outcome = if result.is_ok() { "done" } else { "failed" };
        self.reconciliations.get_or_create(&OutcomeLabels { outcome }).inc();
    }
}
