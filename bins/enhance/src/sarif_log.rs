//! Findings as SARIF, which code hosts show beside the lines.

use enhancement::{Rule, Severity};
use sarif::Level;

use crate::lint_command::Linted;

pub(crate) fn log(linted: &[Linted]) -> String {
    let findings = linted.iter().flat_map(|linted| {
        linted.findings.iter().map(|finding| sarif::Finding {
            rule: finding.rule.id(),
            level: level(finding.rule),
            message: &finding.message,
            path: &linted.path_in_repository,
            line: finding.at.line,
            column: finding.at.column,
        })
    });
    sarif::log("enhance", env!("CARGO_PKG_VERSION"), &Rule::ALL.map(rule), findings)
}

fn rule(rule: Rule) -> sarif::Rule {
    sarif::Rule {
        id: rule.id(),
        about: rule.about(),
        help: "",
        level: level(rule),
        tag: rule.group().name(),
    }
}

fn level(rule: Rule) -> Level {
    match rule.severity() {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
    }
}
