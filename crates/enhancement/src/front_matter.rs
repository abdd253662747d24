//! The position of the metadata in a document.
//!
//! There are two definitions. The community's linter splits the text at every
//! `---`, even inside a line, and uses the second part. Other programs, such as
//! markdownlint and static site generators, expect the metadata at the top,
//! between two lines that consist of `---`. The first definition determines the
//! verdict, the second where the Markdown begins; a difference is a warning.

use std::ops::Range;

use crate::finding::{Finding, Position};
use crate::rule::Rule;
use crate::source::Source;

const DASHES: &str = "---";

/// The metadata as the community's linter locates them: the bytes between the
/// first two `---`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrontMatter {
    pub(crate) yaml: Range<usize>,
}

/// Locates the metadata. Reports why they are missing, and if other programs
/// do not find them.
pub(crate) fn locate(source: &Source<'_>, findings: &mut Vec<Finding>) -> Option<FrontMatter> {
    let top = Position { line: 1, column: 1 };
    let mut delimiters = source.text.match_indices(DASHES).map(|(at, _)| at);
    let Some(first) = delimiters.next() else {
        let message = "expected metadata; start the document with a line `---`, the metadata as \
                       YAML, and another line `---`";
        findings.push(Finding::new(top, Rule::FrontMatter, message));
        return None;
    };
    let Some(second) = delimiters.next() else {
        let message = "expected a second `---` that ends the metadata; write a line `---` after \
                       them";
        findings.push(Finding::new(source.position(first), Rule::FrontMatter, message));
        return None;
    };
    if !source.text[..first].trim_start_matches('\u{feff}').trim().is_empty() {
        let message = "expected the metadata at the top of the document, found text before them; \
                       move the text below the metadata, which are displayed as text otherwise";
        findings.push(Finding::new(top, Rule::FrontMatterPlace, message));
    }
    if !is_line_of_dashes(source, first) {
        let message = "the metadata begin inside this line, because the community's linter splits \
                       the document at every `---`; write a line that consists of `---`";
        findings.push(Finding::new(source.position(first), Rule::FrontMatterPlace, message));
    }
    if !is_line_of_dashes(source, second) {
        let message = "the metadata end inside this line, because the community's linter splits \
                       the document at every `---`; write the line without `---`";
        findings.push(Finding::new(source.position(second), Rule::FrontMatterPlace, message));
    }
    Some(FrontMatter { yaml: first + DASHES.len()..second })
}

fn is_line_of_dashes(source: &Source<'_>, at: usize) -> bool {
    let line = source.line(source.line_at(at));
    line.trim_start_matches('\u{feff}').trim_end() == DASHES
}

/// The line where the Markdown begins, counted from 0: after metadata at the
/// top, else the first.
pub(crate) fn first_body_line(source: &Source<'_>) -> usize {
    let is_dashes = |line: &str| line.trim_end() == DASHES;
    if !is_dashes(source.line(0).trim_start_matches('\u{feff}')) {
        return 0;
    }
    source.lines().skip(1).position(is_dashes).map_or(0, |end| end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(text: &str) -> (Option<&str>, Vec<String>) {
        let mut findings = Vec::new();
        let found = locate(&Source::new(text), &mut findings);
        let found_rules =
            findings.iter().map(|finding| format!("{} {}", finding.at, finding.rule.id()));
        (found.map(|found| &text[found.yaml]), found_rules.collect())
    }

    #[test]
    fn the_metadata_are_located_like_in_the_communitys_linter() {
        for (text, yaml, rules) in [
            ("---\na: 1\n---\n# T\n", Some("\na: 1\n"), vec![]),
            ("\u{feff}---\r\na: 1\r\n---\r\n", Some("\r\na: 1\r\n"), vec![]),
            ("# T\n", None, vec!["1:1 front-matter"]),
            ("# T\n---\n", None, vec!["2:1 front-matter"]),
            ("Hi\n---\na: 1\n---\n", Some("\na: 1\n"), vec!["1:1 front-matter-place"]),
            ("---\na: b---c\n---\n", Some("\na: b"), vec!["2:5 front-matter-place"]),
            // Four dashes are three and one.
            ("----\na: 1\n---\n", Some("-\na: 1\n"), vec!["1:1 front-matter-place"]),
            ("---\na: 1 # -------\n---\n", Some("\na: 1 # "), vec!["2:8 front-matter-place"]),
        ] {
            let rules = rules.into_iter().map(str::to_owned).collect();
            assert_eq!(located(text), (yaml, rules), "{text:?}");
        }
    }

    #[test]
    fn the_markdown_begins_after_metadata_at_the_top() {
        for (text, line) in [
            ("---\na: 1\n---\n# T\n", 3),
            ("--- \na: b---c\n---\t\n# T\n", 3),
            ("Hi\n---\na: 1\n---\n", 0),
            ("---\nno end\n", 0),
            ("", 0),
        ] {
            assert_eq!(first_body_line(&Source::new(text)), line, "{text:?}");
        }
    }
}
