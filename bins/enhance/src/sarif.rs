//! Findings as SARIF 2.1.0, which code hosts show beside the lines.

use std::fmt::Write as _;
use std::path::{Component, Path};

use anyhow::Result;
use enhancement::{Finding, Rule};
use serde_json::{Value, json};

use crate::lint_command::Linted;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

pub(crate) fn log(linted: &[Linted]) -> Result<String> {
    let results: Vec<Value> = linted
        .iter()
        .flat_map(|linted| {
            let uri = uri(&linted.path_in_repository);
            linted.findings.iter().map(move |finding| result(&uri, finding))
        })
        .collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "enhance",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": Rule::ALL.map(rule).to_vec(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&log)?))
}

fn rule(rule: Rule) -> Value {
    json!({
        "id": rule.id(),
        "shortDescription": {"text": rule.about()},
        "defaultConfiguration": {"level": rule.severity().to_string()},
        "properties": {"tags": [rule.group().name()]},
    })
}

fn result(uri: &str, finding: &Finding) -> Value {
    let Finding { at, rule, message } = finding;
    json!({
        "ruleId": rule.id(),
        "ruleIndex": Rule::ALL.iter().position(|known| known == rule),
        "level": rule.severity().to_string(),
        "message": {"text": message},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": uri},
            "region": {"startLine": at.line, "startColumn": at.column},
        }}],
    })
}

/// A path from the top of the repository as a relative address.
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

    #[test]
    fn a_path_becomes_an_address_that_means_nothing_else() {
        assert_eq!(uri(Path::new("enhancements/a b#c.md")), "enhancements/a%20b%23c.md");
        assert_eq!(uri(Path::new("./ä.md")), "%C3%A4.md");
    }
}
