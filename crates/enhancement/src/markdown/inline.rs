//! Rules for code spans, links and images.

use super::outline::{Link, Outline, Token};
use crate::finding::Finding;
use crate::rule::Rule;
use crate::source::Source;

/// MD038, MD039, MD042, MD045.
pub(super) fn check(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let mut report = |offset, rule, message: &str| {
        findings.push(Finding::new(source.position(offset), rule, message));
    };
    for token in &outline.tokens {
        match token {
            Token::CodeSpan { bytes } => {
                let code = source.text[bytes.clone()].trim_matches('`');
                let ticks = (bytes.len() - code.len()) / 2;
                if let Some(side) = stray_space(code) {
                    let offset = match side {
                        Side::Left => bytes.start,
                        Side::Right => bytes.end - ticks,
                    };
                    let message = "the code span starts or ends with a space; remove it";
                    report(offset, Rule::NoSpaceInCode, message);
                }
            }
            Token::Link(Link { start, text_end, text, address, is_bare }) => {
                if text.trim() != text && !is_bare {
                    let offset = if text.trim_end() == text { *start } else { text_end - 1 };
                    let message = "the text of the link starts or ends with a space; remove it";
                    report(offset, Rule::NoSpaceInLinks, message);
                }
                if matches!(address.as_str(), "" | "#") {
                    let message =
                        "the link has no target; add one, or write the text without a link";
                    report(*start, Rule::NoEmptyLinks, message);
                }
            }
            Token::Image { start, has_text: false, .. } => {
                let message = "the image has no alternative text; describe it in the brackets";
                report(*start, Rule::NoAltText, message);
            }
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The side of a superfluous space. One space on both sides is valid: it
/// separates the delimiters from backticks in the code.
fn stray_space(code: &str) -> Option<Side> {
    let starts = |text: &str| text.starts_with(char::is_whitespace);
    let ends = |text: &str| text.ends_with(char::is_whitespace);
    let mut characters = code.chars();
    let left = characters.next().is_some_and(char::is_whitespace)
        && characters.next().is_none_or(|next| next != '`');
    let mut characters = code.chars().rev();
    let right = characters.next().is_some_and(char::is_whitespace)
        && characters.next().is_some_and(|before| before != '`');
    let inner = code.trim_matches(char::is_whitespace);
    let padded_once = starts(code)
        && ends(code)
        && !inner.is_empty()
        && !inner.contains('\n')
        && code.chars().count() == inner.chars().count() + 2;
    match (left, right) {
        _ if padded_once => None,
        (true, _) => Some(Side::Left),
        (false, true) => Some(Side::Right),
        (false, false) => None,
    }
}
