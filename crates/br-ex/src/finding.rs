//! What is wrong with a document, and where.

use std::fmt;

use diagnostic::Severity;
use located_yaml::Position;

use crate::rule::RuleId;

/// One problem of a document. Its rule has the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub at: Position,
    pub rule: RuleId,
    pub severity: Severity,
    /// What is wrong here.
    pub message: String,
}

/// `line:column: severity: message [rule]`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, rule, severity, message } = self;
        write!(f, "{at}: {severity}: {message} [{rule}]")
    }
}

/// Where checks leave what they found.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// Reports with the weight of the rule.
    pub(crate) fn report(&mut self, rule: RuleId, at: Position, message: impl Into<String>) {
        self.report_as(rule.rule().severity, rule, at, message);
    }

    pub(crate) fn report_as(
        &mut self,
        severity: Severity,
        rule: RuleId,
        at: Position,
        message: impl Into<String>,
    ) {
        self.0.push(Finding { at, rule, severity, message: message.into() });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// In the order of the text, each once.
    pub(crate) fn into_sorted(mut self) -> Vec<Finding> {
        self.0.sort_by(|a, b| {
            (a.at, a.severity, a.rule, &a.message).cmp(&(b.at, b.severity, b.rule, &b.message))
        });
        self.0.dedup();
        self.0
    }
}
