//! Findings as SARIF 2.1.0, which code hosts display next to the lines.

use std::fmt::Write as _;
use std::path::{Component, Path};

use diagnostic::{Position, Severity};
use serde_json::{Value, json};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A rule of the program that reports findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub id: &'static str,
    /// What it requires, in a sentence.
    pub about: &'static str,
    /// The remedy; may be empty.
    pub help: &'static str,
    pub severity: Severity,
    pub tag: &'static str,
}

/// One finding, at a position of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding<'a> {
    pub rule: &'a str,
    pub severity: Severity,
    pub message: &'a str,
    pub path: &'a Path,
    pub at: Position,
}

/// The log of one run of `program`.
pub fn log<'a>(
    program: &str,
    version: &str,
    rules: &[Rule],
    findings: impl IntoIterator<Item = Finding<'a>>,
) -> String {
    let results: Vec<Value> = findings.into_iter().map(|finding| result(rules, &finding)).collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": program,
                "version": version,
                "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

/// The name that SARIF has for a severity.
fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn rule(rule: &Rule) -> Value {
    let mut value = json!({
        "id": rule.id,
        "shortDescription": {"text": rule.about},
        "defaultConfiguration": {"level": level(rule.severity)},
        "properties": {"tags": [rule.tag]},
    });
    if !rule.help.is_empty() {
        value["help"] = json!({"text": rule.help});
    }
    value
}

fn result(rules: &[Rule], finding: &Finding<'_>) -> Value {
    json!({
        "ruleId": finding.rule,
        "ruleIndex": rules.iter().position(|known| known.id == finding.rule),
        "level": level(finding.severity),
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri(finding.path)},
            "region": {"startLine": finding.at.line, "startColumn": finding.at.column},
        }}],
    })
}

/// A path as a relative URI. A root, `.` and `..` are left out.
fn uri(path: &Path) -> String {
    let mut uri = String::new();
    for part in path.components() {
        let Component::Normal(part) = part else { continue };
        if !uri.is_empty() {
            uri.push('/');
        }
        for byte in part.as_encoded_bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                uri.push(char::from(*byte));
            } else {
                // Writing to a String cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        id: "R1",
        about: "Be brief",
        help: "Shorten it",
        severity: Severity::Warning,
        tag: "style",
    };

    #[test]
    fn a_path_is_percent_encoded() {
        assert_eq!(uri(Path::new("enhancements/a b#c.md")), "enhancements/a%20b%23c.md");
        assert_eq!(uri(Path::new("./ä.md")), "%C3%A4.md");
    }

    #[test]
    fn a_finding_refers_to_its_rule_and_its_position() {
        let path = Path::new("a.yml");
        let (severity, at) = (Severity::Error, Position { line: 3, column: 5 });
        let finding = Finding { rule: "R1", severity, message: "long", path, at };
        let log: Value = serde_json::from_str(&log("check", "1.0", &[RULE], [finding])).unwrap();
        let run = &log["runs"][0];
        assert_eq!(run["tool"]["driver"]["rules"][0]["help"]["text"], "Shorten it");
        let result = &run["results"][0];
        assert_eq!((&result["ruleIndex"], &result["level"]), (&json!(0), &json!("error")));
        let region = &result["locations"][0]["physicalLocation"]["region"];
        assert_eq!(region, &json!({"startLine": 3, "startColumn": 5}));
    }
}
