//! The required headings of a document.

use std::fmt;

use crate::finding::{Finding, Position};
use crate::rule::Rule;
use crate::source::Source;

/// A heading: its level and its text.
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

/// The headings that the community requires, in the order of its template. A
/// section can state why it does not apply; its heading is required.
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

/// The required headings that `source` lacks. As in the community's linter, a
/// heading is present if any line starts with it, even inside a code block and
/// whatever follows it.
pub(crate) fn missing(source: &Source<'_>) -> Vec<Heading> {
    let is_missing = |heading: &Heading| {
        let expected = heading.to_string();
        !source.lines().any(|line| line.starts_with(&expected))
    };
    REQUIRED.into_iter().filter(is_missing).collect()
}

pub(crate) fn check(source: &Source<'_>, findings: &mut Vec<Finding>) {
    // A missing heading is reported where it would be added.
    let end = Position { line: last_line(source), column: 1 };
    if !source.lines().any(|line| line.starts_with("# ")) {
        let message = "expected a line that starts with `# `; write the title, below the metadata";
        findings.push(Finding::new(end, Rule::MissingTitleLine, message));
    }
    for heading in missing(source) {
        let (at, message) = match find_similar(source, heading) {
            Some(line) => (
                Position { line: line + 1, column: 1 },
                format!(
                    "the heading `{heading}` is missing, and this one is similar; write \
                     `{heading}`"
                ),
            ),
            None => (
                end,
                format!(
                    "the heading `{heading}` is missing; add it, and write the section or state \
                     why it does not apply"
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

/// The line of a heading that was probably intended to be this one: the same
/// words at another level, in another case, or without the part in
/// parentheses.
fn find_similar(source: &Source<'_>, heading: Heading) -> Option<usize> {
    let expected = heading.words.to_lowercase();
    let first_words = expected.split(" (").next().unwrap_or(&expected);
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
    fn a_document_with_all_headings_passes() {
        assert!(found(&complete()).is_empty());
        assert!(found(&complete().replace("## Summary", "## Summary of it")).is_empty());
        assert!(found(&complete().replace('\n', "\r\n")).is_empty());
    }

    #[test]
    fn each_missing_heading_is_reported() {
        for heading in REQUIRED {
            let without = complete().replace(&format!("\n{heading}\n"), "\n");
            assert_eq!(missing(&Source::new(&without)), [heading]);
        }
    }

    #[test]
    fn a_heading_at_another_level_is_not_accepted_and_its_line_is_reported() {
        for (written, line) in [
            ("### Test Plan", 19),
            (" ## Test Plan", 19),
            ("##Test Plan", 19),
            ("## Test plan", 19),
        ] {
            let text = complete().replace("\n## Test Plan\n", &format!("\n{written}\n"));
            let expected = format!(
                "{line}:1: error: the heading `## Test Plan` is missing, and this one is similar; \
                 write `## Test Plan` [missing-heading]"
            );
            assert_eq!(found(&text), [expected], "{written}");
        }
    }

    #[test]
    fn the_line_of_a_shortened_heading_is_reported() {
        let text = complete().replace("## Alternatives (Not Implemented)", "## Alternatives");
        assert_eq!(found(&text).len(), 1);
        assert!(found(&text)[0].starts_with("18:1: "), "{:?}", found(&text));
    }

    #[test]
    fn a_missing_title_line_is_reported() {
        let text = complete().replace("# Title\n", "#Title\n");
        let expected = "27:1: error: expected a line that starts with `# `; write the title, below the \
                        metadata [missing-title-line]";
        assert_eq!(found(&text), [expected]);
    }
}
