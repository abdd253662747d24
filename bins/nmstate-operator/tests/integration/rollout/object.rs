//! Objects of the API as a test reads them.

use nmstate_api::Condition;
use node_policy::Phase;
use serde_json::Value;

/// An object as stored by the server.
#[derive(Debug, Clone)]
pub(crate) struct Object(pub(crate) Value);

impl Object {
    pub(crate) fn status(&self) -> &Value {
        &self.0["status"]
    }

    fn conditions(&self) -> Vec<Condition> {
        serde_json::from_value(self.status()["conditions"].clone()).unwrap_or_default()
    }

    fn condition(&self, type_: &str) -> Condition {
        let found = self.conditions().into_iter().find(|it| it.type_ == type_);
        found.unwrap_or_else(|| panic!("no condition {type_}: {}", self.status()))
    }

    pub(crate) fn holds(&self, type_: &str, reason: &str) -> bool {
        let holds = |it: &Condition| {
            it.type_ == type_
                && it.status == nmstate_api::ConditionStatus::True
                && it.reason.as_deref() == Some(reason)
        };
        self.conditions().iter().any(holds)
    }

    pub(crate) fn message(&self, type_: &str) -> String {
        self.condition(type_).message.unwrap_or_default()
    }

    pub(crate) fn reason(&self, type_: &str) -> String {
        self.condition(type_).reason.unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::of(&self.conditions())
    }

    pub(crate) fn version(&self) -> String {
        self.0["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
    }

    /// When it was created, as text that sorts by time.
    pub(crate) fn created(&self) -> String {
        self.0["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned()
    }
}
