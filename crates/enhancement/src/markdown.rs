//! The Markdown rules that the community has enabled.
//!
//! They are the rules of markdownlint 0.25 with the community's configuration.
//! A Markdown parser provides blocks and inline elements; the rules check these
//! and their lines.

mod blocks;
mod comments;
mod directives;
mod headings;
mod inline;
mod lines;
mod lists;
mod margin;
mod outline;

use crate::finding::Finding;
use crate::front_matter;
use crate::source::Source;

pub(crate) use comments::mask;
pub(crate) use outline::{Link, Outline, Token};

/// Checks the Markdown of a document: `masked` is its text with the content of
/// comments replaced, `outline` the elements of that text.
pub(crate) fn check(masked: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let mut found = Vec::new();
    headings::check(masked, outline, &mut found);
    headings::check_first_line(masked, outline, &mut found);
    lists::check(masked, outline, &mut found);
    blocks::check(masked, outline, &mut found);
    inline::check(masked, outline, &mut found);
    lines::check(masked, outline, &mut found);
    let directives = directives::parse(masked, front_matter::first_body_line(masked));
    findings.extend(found.into_iter().filter(|finding| directives.is_enabled(finding)));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `line:column rule` of each finding in `text`.
    pub(crate) fn found(text: &str) -> Vec<String> {
        let masked = mask(text);
        let source = Source::new(&masked);
        let outline = Outline::parse(&source);
        let mut findings = Vec::new();
        check(&source, &outline, &mut findings);
        findings.sort_by_key(|found| (found.at, found.rule));
        findings.iter().map(|found| format!("{} {}", found.at, found.rule.id())).collect()
    }

    #[track_caller]
    pub(crate) fn assert_table(table: &[(&str, &[&str])]) {
        for (text, expected) in table {
            assert_eq!(found(text), *expected, "{text}");
        }
    }
}
