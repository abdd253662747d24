//! Why an image failed, and what can help against it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an image failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    #[serde(rename = "error")]
    pub text: String,
    #[serde(default, skip_serializing_if = "Remedy::is_unknown")]
    pub remedy: Remedy,
}

/// What can help against a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Remedy {
    /// The cause may pass: the same command may succeed later.
    RunAgain,
    /// The host never responded: its name, the proxy or the network is wrong, or it is switched off.
    CheckConnection,
    /// The registry does not have the image.
    CheckName,
    /// The registry refuses access.
    CheckAccess,
    /// The text of the error is sufficient.
    #[default]
    Unknown,
}

impl Remedy {
    /// What helps against an error of a registry.
    pub(crate) fn of(error: &registry::Error) -> Self {
        if error.is_unreachable() && !error.may_pass_soon() {
            Self::CheckConnection
        } else if error.is_retryable() {
            Self::RunAgain
        } else if error.is_denied() {
            Self::CheckAccess
        } else if error.is_absent() {
            Self::CheckName
        } else {
            Self::Unknown
        }
    }

    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl Reason {
    pub fn new(text: impl Into<String>, remedy: Remedy) -> Self {
        Self { text: text.into(), remedy }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::new(text, Remedy::Unknown)
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_worth_the_same_command_again() {
        let refused = |contact| registry::Error::Timeout {
            request_line: "GET https://q.io/v2/".into(),
            wait: registry::Wait::Connect,
            route: registry::Route { proxy: None, contact },
            after: std::time::Duration::from_secs(30),
        };
        assert_eq!(Remedy::of(&refused(registry::Contact::Established)), Remedy::RunAgain);
        assert_eq!(Remedy::of(&refused(registry::Contact::New)), Remedy::CheckConnection);
        let absent = || registry::Error::Absent { place: "q.io/a".into() };
        assert_eq!(Remedy::of(&absent()), Remedy::CheckName);
        let endless = registry::Error::Endless { what: "the list of tags".into() };
        assert_eq!(Remedy::of(&endless), Remedy::Unknown);
        let everywhere = |tried| registry::Error::Everywhere { name: "a".into(), tried };
        assert_eq!(Remedy::of(&everywhere(vec![absent(), absent()])), Remedy::CheckName);
        assert_eq!(Remedy::of(&everywhere(vec![absent(), endless])), Remedy::Unknown);
    }

    #[test]
    fn a_report_has_the_remedy_beside_the_error() {
        let reason = Reason::new("503", Remedy::RunAgain);
        let json = serde_json::to_string(&reason).unwrap_or_default();
        assert_eq!(json, r#"{"error":"503","remedy":"runAgain"}"#);
        let json = serde_json::to_string(&Reason::from("x")).unwrap_or_default();
        assert_eq!(json, r#"{"error":"x"}"#);
    }
}
