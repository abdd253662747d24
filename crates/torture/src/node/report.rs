//! What a node reports about a policy.

use anyhow::{Context, Result};
use nmstate_api::Condition;
use node_policy::Phase;
use serde_json::Value;

/// An enactment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) version: String,
    pub(crate) phase: Phase,
    pub(crate) message: String,
}

/// The network that a report claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The change is made.
    New,
    /// The node has the network from before the change.
    Former,
    /// Nothing: a change or a roll-back is under way.
    Nothing,
}

impl Report {
    pub(crate) fn parse(object: &Value) -> Result<Self> {
        let conditions = &object["status"]["conditions"];
        let conditions: Vec<Condition> = match conditions {
            Value::Null => Vec::new(),
            other => serde_json::from_value(other.clone()).context("reading conditions")?,
        };
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let messages = conditions.iter().filter_map(|it| it.message.as_deref());
        let message = messages.filter(|it| !it.is_empty()).max_by_key(|it| it.len());
        Ok(Self {
            version: version.to_owned(),
            phase: Phase::of(&conditions),
            message: message.unwrap_or_default().to_owned(),
        })
    }

    pub(crate) fn claim(&self) -> Claim {
        match self.phase {
            Phase::Available => Claim::New,
            // The roll-back itself failed and is repeated.
            Phase::Retrying | Phase::Failed if self.message.contains("is repeated") => {
                Claim::Nothing
            }
            Phase::Retrying | Phase::Failed | Phase::Aborted => Claim::Former,
            Phase::Unknown | Phase::Pending | Phase::Progressing => Claim::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(phase: Phase, message: &str) -> Report {
        let conditions = phase.conditions(message);
        let object = json!({
            "metadata": {"resourceVersion": "12"},
            "status": {"conditions": conditions},
        });
        Report::parse(&object).unwrap()
    }

    #[test]
    fn a_report_claims_one_of_the_two_networks() {
        assert_eq!(report(Phase::Available, "successfully reconciled").claim(), Claim::New);
        let failed = report(Phase::Failed, "it was rolled back");
        assert_eq!(
            (failed.claim(), failed.message.as_str()),
            (Claim::Former, "it was rolled back")
        );
        let pending = report(Phase::Retrying, "the roll-back failed and is repeated (x): y");
        assert_eq!(pending.claim(), Claim::Nothing);
        assert_eq!(report(Phase::Progressing, "applying").claim(), Claim::Nothing);
        let none = Report::parse(&json!({"metadata": {"resourceVersion": "1"}})).unwrap();
        assert_eq!(none.phase, Phase::Unknown);
    }
}
