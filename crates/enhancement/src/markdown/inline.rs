//! Rules for code, links and images within a line.

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
                    let message = "a space stands between backtick and code; leave it out";
                    report(offset, Rule::NoSpaceInCode, message);
                }
            }
            Token::Link(Link { start, text_end, text, address, is_bare }) => {
                if text.trim() != text && !is_bare {
                    let offset = if text.trim_end() == text { *start } else { text_end - 1 };
                    let message = "the text of the link begins or ends with a space; leave it out";
                    report(offset, Rule::NoSpaceInLinks, message);
                }
                if matches!(address.as_str(), "" | "#") {
                    let message = "the link leads nowhere; write its address, or the words alone";
                    report(*start, Rule::NoEmptyLinks, message);
                }
            }
            Token::Image { start, has_text: false, .. } => {
                let message = "the image has no text; say in the brackets what it shows";
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

/// Where a space stands that does not belong there. One space on both sides is
/// how code with backticks in it is written.
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
