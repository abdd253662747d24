//! The operator's own port for numbers: what it counts, and the cluster's terms of TLS, which it
//! follows without a restart.

use std::sync::Arc;

use nmstate_deployment::decide::{Decision, Operand};
use nmstate_deployment::rollout::Rollout;
use nmstate_deployment::tls_profile::TlsProfile;
use tokio::sync::watch;

use crate::metrics::{Family, Kind};
use crate::metrics_port::ServedTls;
use crate::service_port::ServiceState;

const RECONCILIATIONS: Family = Family {
    name: "nmstate_operator_looks_total",
    help: "Reconciliations of the cluster, by outcome.",
    kind: Kind::Counter,
};
const WANTED: Family = Family {
    name: "nmstate_operator_operand_wanted",
    help: "Whether handlers and coordinator are deployed in this cluster.",
    kind: Kind::Gauge,
};

const NOT_READY: Family = Family {
    name: "nmstate_operator_handlers_not_ready",
    help: "Ready nodes whose handler is not ready.",
    kind: Kind::Gauge,
};

pub(super) struct OwnPort {
    service: Arc<ServiceState>,
    served_tls: watch::Sender<ServedTls>,
}

impl OwnPort {
    pub(super) fn new(service: Arc<ServiceState>) -> Self {
        for outcome in ["done", "failed"] {
            service.metrics.start(RECONCILIATIONS, &[("outcome", outcome)]);
        }
        Self { service, served_tls: watch::Sender::new(ServedTls::NotYet) }
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

    #[allow(clippy::cast_precision_loss, reason = "a cluster has far fewer nodes")]
    pub(super) fn observed(&self, rollout: &Rollout) {
        let count = rollout.handlers_not_ready().len() as f64;
        self.service.metrics.replace(NOT_READY, [(String::new(), count)]);
    }

    pub(super) fn decided(&self, decision: &Decision) {
        let wanted = match decision.operand {
            Operand::Deploy(_) => 1.0,
            Operand::Remove => 0.0,
            Operand::Leave => return,
        };
        self.service.metrics.replace(WANTED, [(String::new(), wanted)]);
    }

    pub(super) fn reconciled<T, E>(&self, result: &Result<T, E>) {
        let outcome = if result.is_ok() { "done" } else { "failed" };
        self.service.metrics.add(RECONCILIATIONS, &[("outcome", outcome)]);
    }
}
