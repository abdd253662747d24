//! Rules for lines: markup with mistakes that a parser reads as text, and the
//! length of lines.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::outline::{Outline, Shape, Token};
use crate::finding::Finding;
use crate::pattern::pattern;
use crate::rule::Rule;
use crate::source::Source;

/// The longest line, in UTF-16 units like in JavaScript.
const MAX_LENGTH: usize = 400;

/// MD011, MD013, MD018, MD020.
pub(super) fn check(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let code: BTreeSet<usize> = outline.code_lines().into_iter().flatten().collect();
    let fences: BTreeSet<usize> = fence_lines(outline).collect();
    let link_only: BTreeSet<usize> = link_only_lines(outline).collect();
    let spans: Vec<&Range<usize>> = code_spans(outline).collect();
    for index in outline.first_line..source.line_count() {
        let line = source.line(index);
        if !link_only.contains(&index) && is_too_long(line) {
            let length = line.encode_utf16().count();
            let at = source.position_in_line(index, line.len());
            let message =
                format!("expected at most {MAX_LENGTH} characters in a line, found {length}");
            findings.push(Finding::new(at, Rule::LineLength, message));
        }
        if code.contains(&index) {
            continue;
        }
        if lacks_space(line) {
            let hashes = line.len() - line.trim_start_matches('#').len();
            let at = source.position_in_line(index, 0);
            let message = format!("expected a space after `{}`", &line[..hashes]);
            findings.push(Finding::new(at, Rule::NoMissingSpaceAtx, message));
        }
        if let Some(found) = CLOSED_HEADING.captures(line)
            && (found[2].is_empty() || found[4].is_empty() || !found[5].is_empty())
        {
            let at = source.position_in_line(index, 0);
            let message = "expected a space between the hashes and the text";
            findings.push(Finding::new(at, Rule::NoMissingSpaceClosedAtx, message));
        }
        if !fences.contains(&index) {
            check_reversed_links(source, index, &spans, findings);
        }
    }
}

fn fence_lines(outline: &Outline) -> impl Iterator<Item = usize> {
    outline.tokens.iter().flat_map(|token| match token {
        Token::Fence { lines, .. } => vec![lines.start, lines.end - 1],
        _ => Vec::new(),
    })
}

fn link_only_lines(outline: &Outline) -> impl Iterator<Item = usize> {
    outline.tokens.iter().filter_map(|token| match token {
        Token::Inline { lines, shape: Shape::LinkOnly, .. } => Some(lines.start),
        _ => None,
    })
}

fn code_spans(outline: &Outline) -> impl Iterator<Item = &Range<usize>> {
    outline.tokens.iter().filter_map(|token| match token {
        Token::CodeSpan { bytes } => Some(bytes),
        _ => None,
    })
}

static DEFINITION: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*\[.*[^\\]\]:"));

/// A long line without a space after the limit cannot be wrapped, and the
/// definition of a link must not be.
fn is_too_long(line: &str) -> bool {
    if line.len() <= MAX_LENGTH {
        return false;
    }
    let mut units = 0;
    let following = line.chars().skip_while(|c| {
        units += c.len_utf16();
        units <= MAX_LENGTH
    });
    following.into_iter().any(char::is_whitespace) && !DEFINITION.is_match(line)
}

/// `#word`, which is not a heading. With a hash at the end, MD020 applies.
fn lacks_space(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    text.len() < line.len()
        && text.starts_with(|c: char| c != ' ' && c != '\t')
        && !line.trim_end().ends_with('#')
        // The keycap emoji of a hash.
        && !line.starts_with("#\u{fe0f}\u{20e3}")
}

static CLOSED_HEADING: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(#+)([ \t]*)([^#]*?[^#\\])([ \t]*)((?:\\#)?)(#+)\s*$"));

static REVERSED_LINK: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^|[^\\])(\(([^)]+)\)\[([^\]^][^\]]*)\])"));

fn check_reversed_links(
    source: &Source<'_>,
    index: usize,
    spans: &[&Range<usize>],
    findings: &mut Vec<Finding>,
) {
    let line = source.line(index);
    let line_start = source.line_start(index);
    let mut from = 0;
    while let Some(found) = REVERSED_LINK.captures_at(line, from) {
        let Some(link) = found.get(1) else { break };
        from = link.end();
        // Spans are sorted and do not overlap.
        let next = spans.partition_point(|span| span.end <= line_start + link.start());
        let in_code = spans.get(next).is_some_and(|span| span.start < line_start + link.end());
        let is_link = !line[link.end()..].starts_with('(')
            && !found[2].ends_with('\\')
            && !found[3].ends_with('\\');
        if is_link && !in_code {
            let at = source.position_in_line(index, link.start());
            let message = format!(
                "brackets and parentheses are swapped; write [{}]({})",
                &found[2], &found[3]
            );
            findings.push(Finding::new(at, Rule::NoReversedLinks, message));
        }
    }
}
