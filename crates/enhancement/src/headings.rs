//! The headings a document must have.

use std::fmt;

use crate::finding::{Finding, Position};
use crate::rule::Rule;
use crate::source::Source;

/// A heading: how many hashes, and the words behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading {
    pub level: usize,
    pub words: &'static str,
}

impl fmt::Display for Heading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", "#".repeat(self.level), self.words)
    }
}

const fn heading(level: usize, words: &'static str) -> Heading {
    Heading { level, words }
}

/// What the community requires, in the order of its template. A section may
/// say why it does not apply; it may not be left out.
pub const REQUIRED: [Heading; 26] = [
    heading(2, "Summary"),
    heading(2, "Motivation"),
    heading(3, "User Stories"),
    heading(3, "Goals"),
    heading(3, "Non-Goals"),
    heading(2, "Proposal"),
    heading(3, "Workflow Description"),
    heading(3, "API Extensions"),
    heading(3, "Topology Considerations"),
    heading(4, "Hypershift / Hosted Control Planes"),
    heading(4, "Standalone Clusters"),
    heading(4, "Single-node Deployments or MicroShift"),
    heading(4, "OpenShift Kubernetes Engine"),
    heading(3, "Implementation Details/Notes/Constraints"),
    heading(3, "Risks and Mitigations"),
    heading(3, "Drawbacks"),
    heading(2, "Alternatives (Not Implemented)"),
    heading(2, "Test Plan"),
    heading(2, "Graduation Criteria"),
    heading(3, "Dev Preview -> Tech Preview"),
    heading(3, "Tech Preview -> GA"),
    heading(3, "Removing a deprecated feature"),
    heading(2, "Upgrade / Downgrade Strategy"),
    heading(2, "Version Skew Strategy"),
    heading(2, "Operational Aspects of API Extensions"),
    heading(2, "Support Procedures"),
];

/// The required headings that `source` lacks. The community's linter asks
/// whether a line begins with the heading, wherever that line is and however
/// it goes on; so does this.
pub(crate) fn missing(source: &Source<'_>) -> Vec<Heading> {
    let is_missing = |heading: &Heading| {
        let due = heading.to_string();
        !source.lines().any(|line| line.starts_with(&due))
    };
    REQUIRED.into_iter().filter(is_missing).collect()
}

pub(crate) fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    // What is missing is reported where it would be added.
    let end = Position { line: last_line(source), column: 1 };
    if !source.lines().any(|line| line.starts_with("# ")) {
        let message = "no line starts with `# `; write the title there, below the metadata";
        findings.push(Finding::new(end, Rule::MissingTitleLine, message));
    }
    for heading in missing(source) {
        let (at, message) = match near(source, heading) {
            Some(line) => (
                Position { line: line + 1, column: 1 },
                format!(
                    "the heading `{heading}` is missing, and this is not quite it; write \
                     `{heading}`"
                ),
            ),
            None => (
                end,
                format!(
                    "the heading `{heading}` is missing; add it, and say there why when it does \
                     not apply"
                ),
            ),
        };
        findings.push(Finding::new(at, Rule::MissingHeading, message));
    }
}

fn last_line(source: &Source<'_>) -> usize {
    let has_text = |index: &usize| !source.line(*index).trim().is_empty();
    (0..source.line_count()).rev().find(has_text).map_or(1, |index| index + 1)
}

/// The line of a heading that was probably meant to be this one: the same
/// words at another level, in other letters, or with a part left out.
fn near(source: &Source<'_>, heading: Heading) -> Option<usize> {
    let due = heading.words.to_lowercase();
    let first_words = due.split(" (").next().unwrap_or(&due);
    source.lines().position(|line| {
        let words = line.trim_start().trim_start_matches('#');
        let is_heading = words.len() < line.trim_start().len();
        is_heading && words.trim().to_lowercase().starts_with(first_words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Source::new(text), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    fn complete() -> String {
        let headings: Vec<String> = REQUIRED.iter().map(ToString::to_string).collect();
        format!("# Title\n{}\n", headings.join("\n"))
    }

    #[test]
    fn a_document_with_all_headings_passes_whatever_follows_them() {
        assert!(found(&complete()).is_empty());
        assert!(found(&complete().replace("## Summary", "## Summary of it")).is_empty());
        assert!(found(&complete().replace('\n', "\r\n")).is_empty());
    }

    #[test]
    fn each_heading_is_missed_when_it_is_not_there() {
        for heading in REQUIRED {
            let without = complete().replace(&format!("\n{heading}\n"), "\n");
            assert_eq!(missing(&Source::new(&without)), [heading]);
        }
    }

    #[test]
    fn a_heading_at_another_level_does_not_count_and_is_pointed_at() {
        for (written, line) in [
            ("### Test Plan", 19),
            (" ## Test Plan", 19),
            ("##Test Plan", 19),
            ("## Test plan", 19),
        ] {
            let text = complete().replace("\n## Test Plan\n", &format!("\n{written}\n"));
            let wanted = format!(
                "{line}:1: error: the heading `## Test Plan` is missing, and this is not quite it; \
                 write `## Test Plan` [missing-heading]"
            );
            assert_eq!(found(&text), [wanted], "{written}");
        }
    }

    #[test]
    fn a_shortened_heading_is_pointed_at() {
        let text = complete().replace("## Alternatives (Not Implemented)", "## Alternatives");
        assert_eq!(found(&text).len(), 1);
        assert!(found(&text)[0].starts_with("18:1: "), "{:?}", found(&text));
    }

    #[test]
    fn the_line_with_the_title_is_asked_for() {
        let text = complete().replace("# Title\n", "#Title\n");
        let wanted = "27:1: error: no line starts with `# `; write the title there, below the \
                      metadata [missing-title-line]";
        assert_eq!(found(&text), [wanted]);
    }
}
