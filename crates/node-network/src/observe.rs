//! Looks at the network until it is as it should be, or until time is up.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::facts::{self, Expectation, Fact};
use crate::probe::{self, ClauseReport, Gate};
use crate::transaction::Network;
use crate::{Message, NetworkState};

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How a network should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aim {
    pub bridge: Option<Expectation>,
    pub gate: Gate,
}

/// How it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    pub facts: Vec<Fact>,
    pub probes: Vec<ClauseReport>,
    /// Why the state could not be read, when it could not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unread: Option<Message>,
}

impl Observation {
    pub fn is_good(&self) -> bool {
        self.unread.is_none()
            && facts::all_hold(&self.facts)
            && self.probes.iter().all(|clause| clause.holds)
    }

    /// What is not as it should be, in one line.
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

/// Looks once.
pub async fn look(network: &impl Network, aim: &Aim, limit: Duration) -> Observation {
    match network.state().await {
        Ok(state) => look_at(network, &state, aim, limit).await,
        Err(error) => {
            Observation { unread: Some(error.to_string().into()), ..Observation::default() }
        }
    }
}

/// Looks at a state that was just read.
pub async fn look_at(
    network: &impl Network,
    state: &NetworkState,
    aim: &Aim,
    limit: Duration,
) -> Observation {
    let facts = aim.bridge.as_ref().map(|bridge| bridge.check(state)).unwrap_or_default();
    // Without a bridge there is nobody to ask, and asking takes time.
    let probes = match facts::all_hold(&facts) {
        true => network.ask(&aim.gate.questions(state), limit).await,
        false => Vec::new(),
    };
    Observation { facts, probes, unread: None }
}

/// Looks until all is good or `patience` is at its end: a lease may come late, a switch may need
/// some seconds until it forwards. Returns what was seen last.
pub async fn wait(
    network: &impl Network,
    aim: &Aim,
    patience: Duration,
    limit: Duration,
) -> Observation {
    let deadline = Instant::now() + patience;
    loop {
        let seen = look(network, aim, limit).await;
        if seen.is_good() || Instant::now() + LOOK_AGAIN >= deadline {
            return seen;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
