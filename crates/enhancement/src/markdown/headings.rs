//! Rules for headings.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::margin::margin;
use super::outline::{Outline, Token};
use crate::finding::{Finding, Position};
use crate::pattern::pattern;
use crate::rule::Rule;
use crate::source::Source;

/// The style of a heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `# Text`
    Hashes,
    /// `# Text #`
    ClosedHashes,
    /// A line of `=` or `-` below.
    Underlined,
}

impl Style {
    fn of(lines: usize, line: &str) -> Self {
        let trimmed = line.trim_end();
        match trimmed.strip_suffix('#') {
            _ if lines > 1 => Self::Underlined,
            Some(before) if !before.is_empty() && !before.ends_with('\\') => Self::ClosedHashes,
            _ => Self::Hashes,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Hashes => "`# Text`",
            Self::ClosedHashes => "`# Text #`",
            Self::Underlined => "underlined",
        }
    }
}

/// MD001, MD003, MD019, MD021, MD023, MD024, MD026.
pub(super) fn check(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let mut previous_level = 0;
    let mut first_style = None;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for token in &outline.tokens {
        let Token::Heading { level, lines, content, .. } = token else { continue };
        let line = source.line(lines.start);
        let mut report = |offset: usize, rule, message: String| {
            let at = source.position_in_line(lines.start, offset);
            findings.push(Finding::new(at, rule, message));
        };
        let indent = line.len() - line.trim_start().len();
        if previous_level > 0 && *level > previous_level + 1 {
            let expected = "#".repeat(previous_level + 1);
            let message = format!("the heading skips a level; write it with `{expected}`");
            report(indent, Rule::HeadingIncrement, message);
        }
        previous_level = *level;

        let style = Style::of(lines.len(), line);
        let expected = *first_style.get_or_insert(style);
        if style != expected {
            let message =
                format!("expected the style of the first heading: {}", expected.description());
            report(indent, Rule::HeadingStyle, message);
        }
        match style {
            Style::Hashes => {
                if let Some(found) = MANY_SPACES.captures(line) {
                    let message = "expected 1 space after the hashes, found more";
                    report(found[1].len(), Rule::NoMultipleSpaceAtx, message.into());
                }
            }
            Style::ClosedHashes => {
                if let Some(found) = MANY_SPACES_CLOSED.captures(line)
                    && (found[2].len() > 1 || found[3].len() > 1)
                {
                    let message = "expected 1 space between the hashes and the text, found more";
                    report(0, Rule::NoMultipleSpaceClosedAtx, message.into());
                }
            }
            Style::Underlined => {}
        }
        if is_indented(line) {
            let message = "expected the heading at the start of the line";
            report(0, Rule::HeadingStartLeft, message.into());
        }
        match seen.get(&source.text[content.clone()]) {
            Some(first) => {
                let message =
                    format!("the heading is a duplicate of line {first}; write another text");
                report(indent, Rule::NoDuplicateHeading, message);
            }
            None => {
                seen.insert(&source.text[content.clone()], lines.start + 1);
            }
        }
        let words = line.trim_end_matches(|c: char| c.is_whitespace() || c == '#');
        let without =
            words.trim_end_matches(['.', ',', ';', ':', '!', '。', '，', '；', '：', '！']);
        if without.len() < words.len() && !ENTITY.is_match(words) {
            let message = format!("the heading ends with `{}`; remove it", &words[without.len()..]);
            report(without.len(), Rule::NoTrailingPunctuation, message);
        }
    }
}

static MANY_SPACES: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(#+)[ \t]{2,}\S"));

static MANY_SPACES_CLOSED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(#+)([ \t]+)[^#]+?([ \t]+)#+\s*$"));

/// `&amp;` ends with a semicolon that is not punctuation.
static ENTITY: LazyLock<Regex> = LazyLock::new(|| pattern(r"&#?[0-9a-zA-Z]+;$"));

/// Whether a heading is indented; in a block quote, one space is allowed.
fn is_indented(line: &str) -> bool {
    let before = &line[..margin(line)];
    let spaces = before.len() - before.trim_end().len();
    let allowed = if before.contains('>') { 1 } else { 0 };
    before.len() < line.len() && spaces > allowed
}

static TITLE_KEY: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?i)^\s*"?title"?\s*[:=]"#));

/// MD041.
pub(super) fn check_first_line(
    source: &Source<'_>,
    outline: &Outline,
    findings: &mut Vec<Finding>,
) {
    if (0..outline.first_line).any(|line| TITLE_KEY.is_match(source.line(line))) {
        return;
    }
    let starts_with = |start: usize, what: &str| {
        source.text[start..].get(..what.len()).is_some_and(|it| it.eq_ignore_ascii_case(what))
    };
    let is_comment =
        |token: &&Token| matches!(token, Token::Html { start, .. } if starts_with(*start, "<!--"));
    let first = outline.tokens.iter().find(|token| !is_comment(token));
    let is_heading = match first {
        Some(Token::Html { start, .. }) => {
            ["<h1 ", "<h1/", "<h1>"].iter().any(|tag| starts_with(*start, tag))
        }
        Some(token) => matches!(token, Token::Heading { level: 1, .. }),
        None => true,
    };
    if let Some(line) = first.filter(|_| !is_heading).and_then(first_line) {
        let message = "expected the title as the first line; write `# ` and the title here, or \
                       `title:` in the metadata";
        let at = Position { line: line + 1, column: 1 };
        findings.push(Finding::new(at, Rule::FirstLineHeading, message));
    }
}

fn first_line(token: &Token) -> Option<usize> {
    match token {
        Token::Heading { lines, .. }
        | Token::QuoteStart { lines }
        | Token::Fence { lines, .. }
        | Token::IndentedCode { lines }
        | Token::Html { lines, .. }
        | Token::Inline { lines, .. } => Some(lines.start),
        Token::ListStart { line, .. }
        | Token::Item { line }
        | Token::HorizontalRule { line, .. }
        | Token::Table { line } => Some(*line),
        _ => None,
    }
}
