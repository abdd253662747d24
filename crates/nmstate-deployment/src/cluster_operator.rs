//! The status of the ClusterOperator: the contract with the cluster-version operator.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A condition of a ClusterOperator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    pub last_transition_time: Timestamp,
}

/// A version that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperandVersion {
    pub name: String,
    pub version: String,
}

/// The status of the ClusterOperator, written as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOperatorStatus {
    pub conditions: Vec<ClusterCondition>,
    pub versions: Vec<OperandVersion>,
    pub related_objects: Value,
}

/// The state that is reported to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeploymentState<'a> {
    /// Nothing is deployed in this cluster.
    Disabled { reason: &'a str, message: &'a str },
    /// The operand is deployed as desired.
    Deployed,
    /// The same, but handlers do not run on some nodes that are ready.
    Unhealthy { message: &'a str, since: Timestamp },
    /// A roll-out is in progress.
    RollingOut { message: &'a str },
    /// One operator of this API is being replaced by the other.
    HandingOver { reason: &'a str, message: &'a str },
    /// A manual correction is necessary.
    Broken { reason: &'a str, message: &'a str },
}

/// Roll-outs that take longer are stuck. On fewer than 250 nodes none may.
const ROLL_OUT_SECONDS: i64 = 20 * 60;

/// The status for `state`. Times of unchanged conditions are kept. The version is the new one only
/// when no old component can run any more.
pub(crate) fn status(
    state: &DeploymentState<'_>,
    held: &ClusterOperatorStatus,
    version: &str,
    now: Timestamp,
) -> ClusterOperatorStatus {
    let rolling_since = held
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Progressing" && condition.status == "True")
        .map_or(now, |condition| condition.last_transition_time);
    let is_stuck = now.as_second() - rolling_since.as_second() > ROLL_OUT_SECONDS;
    let good = ("AsExpected", "");
    let no = |(reason, message): (&str, &str)| ("False", reason.to_owned(), message.to_owned());
    let yes = |(reason, message): (&str, &str)| ("True", reason.to_owned(), message.to_owned());
    let stuck = |reason: &str, message: &str| {
        let text = format!("For 20 minutes: {message}");
        if is_stuck { yes((reason, &text)) } else { no(good) }
    };
    let (progressing, degraded, disabled) = match state {
        DeploymentState::Disabled { reason, message } => {
            (no(good), no(good), yes((reason, message)))
        }
        DeploymentState::Deployed => (no(good), no(good), no(good)),
        DeploymentState::Unhealthy { message, since } => {
            let is_lasting = now.as_second() - since.as_second() > ROLL_OUT_SECONDS;
            let reported = ("HandlersNotReady", *message);
            (no(good), if is_lasting { yes(reported) } else { no(good) }, no(good))
        }
        DeploymentState::RollingOut { message } => {
            (yes(("RollingOut", message)), stuck("RolloutStuck", message), no(good))
        }
        DeploymentState::HandingOver { reason, message } => {
            let reported = (*reason, *message);
            (yes(reported), stuck("HandoverStuck", message), yes(reported))
        }
        DeploymentState::Broken { reason, message } => (no(good), yes((reason, message)), no(good)),
    };
    let available = match state {
        DeploymentState::Disabled { .. } | DeploymentState::HandingOver { .. } => {
            "Operational; no handlers are deployed"
        }
        _ => "Operational",
    };
    let conditions = [
        ("Available", yes(("AsExpected", available))),
        ("Progressing", progressing),
        ("Degraded", degraded),
        ("Upgradeable", yes(good)),
        ("Disabled", disabled),
    ]
    .map(|(type_, (status, reason, message))| {
        let since = held
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_ && condition.status == status)
            .map_or(now, |condition| condition.last_transition_time);
        ClusterCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason,
            message,
            last_transition_time: since,
        }
    });
    let may_be_old = match state {
        DeploymentState::RollingOut { .. } => true,
        // Components that ran before continue to run. If none ran, none is old.
        DeploymentState::Broken { .. } => !held.versions.is_empty(),
        _ => false,
    };
    let versions = if may_be_old {
        held.versions.clone()
    } else {
        vec![OperandVersion { name: "operator".to_owned(), version: version.to_owned() }]
    };
    ClusterOperatorStatus {
        conditions: conditions.into(),
        versions,
        related_objects: crate::payload::related_objects(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> &'a ClusterCondition {
        status.conditions.iter().find(|condition| condition.type_ == type_).unwrap()
    }

    fn conditions_text(status: &ClusterOperatorStatus) -> String {
        let of = |type_| format!("{type_}={}", condition(status, type_).status);
        ["Available", "Progressing", "Degraded", "Upgradeable", "Disabled"].map(of).join(" ")
    }

    #[test]
    fn conditions_for_the_cluster_version_operator() {
        let none = ClusterOperatorStatus::default();
        let disabled =
            DeploymentState::Disabled { reason: "UnsupportedPlatform", message: "Nothing" };
        let broken = DeploymentState::Broken { reason: "R", message: "m" };
        for (state, expected) in [
            (
                disabled,
                "Available=True Progressing=False Degraded=False Upgradeable=True Disabled=True",
            ),
            (
                DeploymentState::Deployed,
                "Available=True Progressing=False Degraded=False Upgradeable=True Disabled=False",
            ),
            (
                DeploymentState::RollingOut { message: "m" },
                "Available=True Progressing=True Degraded=False Upgradeable=True Disabled=False",
            ),
            (
                DeploymentState::HandingOver { reason: "TakingOver", message: "m" },
                "Available=True Progressing=True Degraded=False Upgradeable=True Disabled=True",
            ),
            (
                broken,
                "Available=True Progressing=False Degraded=True Upgradeable=True Disabled=False",
            ),
        ] {
            assert_eq!(conditions_text(&status(&state, &none, "2", at(9))), expected);
        }
    }

    #[test]
    fn the_old_version_is_reported_until_the_rollout_ends() {
        let old = status(&DeploymentState::Deployed, &ClusterOperatorStatus::default(), "1", at(0));
        let rolling = status(&DeploymentState::RollingOut { message: "m" }, &old, "2", at(1));
        assert_eq!(rolling.versions[0].version, "1");
        let broken =
            status(&DeploymentState::Broken { reason: "R", message: "m" }, &old, "2", at(1));
        assert_eq!(broken.versions[0].version, "1", "what ran before goes on");
        let done = status(&DeploymentState::Deployed, &rolling, "2", at(2));
        assert_eq!(done.versions[0].version, "2");
    }

    #[test]
    fn times_stay_while_a_condition_stays() {
        let one = status(&DeploymentState::Deployed, &ClusterOperatorStatus::default(), "1", at(5));
        assert_eq!(status(&DeploymentState::Deployed, &one, "1", at(9)), one);
    }

    #[test]
    fn a_roll_out_that_takes_too_long_is_degraded() {
        let rolling = DeploymentState::RollingOut { message: "3 of 4 handlers are ready" };
        let begun = status(&rolling, &ClusterOperatorStatus::default(), "1", at(0));
        let later = status(&rolling, &begun, "1", at(ROLL_OUT_SECONDS));
        assert_eq!(condition(&later, "Degraded").status, "False");
        let too_late = status(&rolling, &later, "1", at(ROLL_OUT_SECONDS + 1));
        assert_eq!(condition(&too_late, "Degraded").reason, "RolloutStuck");
    }
}
