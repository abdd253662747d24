//! Reads and probes the network until it is as expected, or until a timeout.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::facts::{self, Expectation, Fact};
use crate::probe::{self, CheckReport, Checks};
use crate::transaction::Network;
use crate::{Message, NetworkState};

/// The interval between two observations.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The expected network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedNetwork {
    pub bridge: Option<Expectation>,
    pub checks: Checks,
}

/// The observed network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    pub facts: Vec<Fact>,
    pub probes: Vec<CheckReport>,
    /// Why the state could not be read, if it could not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unread: Option<Message>,
}

impl Observation {
    pub fn is_good(&self) -> bool {
        self.unread.is_none()
            && facts::all_hold(&self.facts)
            && self.probes.iter().all(|check| check.holds)
    }

    /// The ids of the checks that failed. None if the network could not be read.
    pub fn failed_checks(&self) -> Vec<String> {
        self.probes.iter().filter(|check| !check.holds).map(|check| check.id.clone()).collect()
    }

    /// What is not as expected, in one line.
    pub fn failures(&self) -> Message {
        let unread = self.unread.as_ref().map(|why| format!("reading the network state: {why}"));
        let parts = [
            unread.unwrap_or_default(),
            facts::failures(&self.facts),
            probe::failures(&self.probes),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("; ").into()
    }
}

/// Observes once.
pub async fn observe(
    network: &impl Network,
    expected: &ExpectedNetwork,
    limit: Duration,
) -> Observation {
    match network.state().await {
        Ok(state) => observe_state(network, &state, expected, limit).await,
        Err(error) => {
            Observation { unread: Some(error.to_string().into()), ..Observation::default() }
        }
    }
}

/// Observes with a state that was just read.
pub async fn observe_state(
    network: &impl Network,
    state: &NetworkState,
    expected: &ExpectedNetwork,
    limit: Duration,
) -> Observation {
    let facts = expected.bridge.as_ref().map(|bridge| bridge.check(state)).unwrap_or_default();
    // Without a bridge no probe can succeed, and probes take time.
    let probes = match facts::all_hold(&facts) {
        true => network.probe(&expected.checks.probes(state), limit).await,
        false => Vec::new(),
    };
    Observation { facts, probes, unread: None }
}

/// Observes until everything is as expected or `patience` has elapsed: a lease may be late, a
/// switch may need some seconds until it forwards. Returns the last observation.
pub async fn wait(
    network: &impl Network,
    expected: &ExpectedNetwork,
    patience: Duration,
    limit: Duration,
) -> Observation {
    let deadline = Instant::now() + patience;
    loop {
        let seen = observe(network, expected, limit).await;
        if seen.is_good() || Instant::now() + POLL_INTERVAL >= deadline {
            return seen;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
