//! Findings as SARIF, which code hosts display beside the lines.

use command_line::sarif;
use enhancement::Rule;

use crate::lint_command::LintResult;

pub(crate) fn log(result: &LintResult) -> String {
    let findings = result.documents.iter().flat_map(|document| {
        document.findings.iter().map(|finding| sarif::Finding {
            rule: finding.rule.id(),
            severity: finding.rule.severity(),
            message: &finding.message,
            path: &document.path_in_repository,
            at: finding.at,
        })
    });
    sarif::log("enhance", env!("CARGO_PKG_VERSION"), &Rule::ALL.map(rule), findings)
}

fn rule(rule: Rule) -> sarif::Rule {
    sarif::Rule {
        id: rule.id(),
        about: rule.description(),
        help: "",
        severity: rule.severity(),
        tag: rule.group().name(),
    }
}
