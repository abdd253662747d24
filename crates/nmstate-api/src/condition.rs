//! The condition record that all kinds of this API share.
//!
//! It is older than Kubernetes' own: it has a heartbeat and no observed generation, and lists of it
//! have no keys. A writer therefore replaces the whole list.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Whether something holds. Text that is neither `True` nor `False` is read as `Unknown`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConditionStatus {
    True,
    False,
    #[default]
    #[serde(other)]
    Unknown,
}

impl JsonSchema for ConditionStatus {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ConditionStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A condition: True, False or Unknown, with reason and message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "A condition: True, False or Unknown, with reason and message.")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: ConditionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

impl Condition {
    /// A condition without times, reason and message.
    pub fn new(type_: impl Into<&'static str>, status: ConditionStatus) -> Self {
        Self {
            type_: type_.into().to_owned(),
            status,
            reason: None,
            message: None,
            last_heartbeat_time: None,
            last_transition_time: None,
        }
    }

    pub fn reason(mut self, reason: impl Into<&'static str>) -> Self {
        self.reason = Some(reason.into().to_owned());
        self
    }

    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// The condition of this type.
pub fn find(conditions: &[Condition], type_: impl Into<&'static str>) -> Option<&Condition> {
    let type_ = type_.into();
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether there is a condition of this type, and it holds.
pub fn is_true(conditions: &[Condition], type_: impl Into<&'static str>) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Sets the times of `wanted`, given what is held: a transition is a change of the status, a
/// heartbeat a change of anything. Where nothing changed the times stay too, so that the result
/// equals what is held and nothing needs to be written.
pub fn stamped(wanted: Vec<Condition>, held: &[Condition], now: &Time) -> Vec<Condition> {
    wanted
        .into_iter()
        .map(|mut condition| {
            let before = held.iter().find(|held| held.type_ == condition.type_);
            let same_status = before.filter(|held| held.status == condition.status);
            let same = same_status.filter(|held| {
                held.reason == condition.reason && held.message == condition.message
            });
            condition.last_transition_time = same_status
                .and_then(|held| held.last_transition_time.clone())
                .or_else(|| Some(now.clone()));
            condition.last_heartbeat_time = same
                .and_then(|held| held.last_heartbeat_time.clone())
                .or_else(|| Some(now.clone()));
            condition
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn available(status: ConditionStatus, message: &str) -> Condition {
        Condition::new("Available", status).reason("Some").message(message)
    }

    #[test]
    fn a_new_condition_gets_both_times() {
        let made = stamped(vec![available(ConditionStatus::True, "a")], &[], &at(7));
        assert_eq!(made[0].last_transition_time, Some(at(7)));
        assert_eq!(made[0].last_heartbeat_time, Some(at(7)));
    }

    #[test]
    fn a_condition_that_did_not_change_keeps_its_times() {
        let held = stamped(vec![available(ConditionStatus::True, "a")], &[], &at(7));
        assert_eq!(stamped(vec![available(ConditionStatus::True, "a")], &held, &at(9)), held);
    }

    #[test]
    fn another_message_is_a_heartbeat_and_not_a_transition() {
        let held = stamped(vec![available(ConditionStatus::True, "a")], &[], &at(7));
        let made = stamped(vec![available(ConditionStatus::True, "b")], &held, &at(9));
        assert_eq!(made[0].last_transition_time, Some(at(7)));
        assert_eq!(made[0].last_heartbeat_time, Some(at(9)));
    }

    #[test]
    fn another_status_is_a_transition() {
        let held = stamped(vec![available(ConditionStatus::True, "a")], &[], &at(7));
        let made = stamped(vec![available(ConditionStatus::False, "a")], &held, &at(9));
        assert_eq!(made[0].last_transition_time, Some(at(9)));
    }

    #[test]
    fn an_unsupported_status_is_unknown_and_not_an_error() {
        let condition: Condition =
            serde_json::from_str(r#"{"type":"Available","status":"Perhaps"}"#).unwrap();
        assert_eq!(condition.status, ConditionStatus::Unknown);
    }
}
