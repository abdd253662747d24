//! Findings as SARIF, which code hosts display beside the lines.

use command_line::sarif::{self, Level};
use enhancement::{Rule, Severity};

use crate::lint_command::LintResult;

pub(crate) fn log(result: &LintResult) -> String {
    let findings = result.documents.iter().flat_map(|document| {
        document.findings.iter().map(|finding| sarif::Finding {
            rule: finding.rule.id(),
            level: level(finding.rule),
            message: &finding.message,
            path: &document.path_in_repository,
            line: finding.at.line,
            column: finding.at.column,
        })
    });
    sarif::log("enhance", env!("CARGO_PKG_VERSION"), &Rule::ALL.map(rule), findings)
}

fn rule(rule: Rule) -> sarif::Rule {
    sarif::Rule {
        id: rule.id(),
        about: rule.description(),
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
