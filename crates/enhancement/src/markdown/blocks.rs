//! Rules for block quotes, code blocks and horizontal rules.

use super::margin::margin;
use super::outline::{Outline, Token};
use crate::finding::{Finding, Position};
use crate::rule::Rule;
use crate::source::Source;

/// MD027, MD028, MD035, MD040, MD046, MD048.
pub(super) fn check(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    check_quotes(source, outline, findings);
    check_code(source, outline, findings);
    let mut first: Option<&str> = None;
    for token in &outline.tokens {
        let Token::HorizontalRule { line, markup } = token else { continue };
        let first = *first.get_or_insert(markup);
        if markup != first {
            let message =
                format!("expected `{first}` like the first horizontal rule, found `{markup}`");
            let at = Position { line: line + 1, column: 1 };
            findings.push(Finding::new(at, Rule::HrStyle, message));
        }
    }
}

fn check_quotes(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let (mut quotes, mut items) = (0_usize, 0_usize);
    let mut just_ended = false;
    let mut last_end = 0;
    for token in &outline.tokens {
        match token {
            Token::QuoteStart { lines } => {
                if just_ended {
                    for line in last_end..lines.start {
                        let message = "a blank line separates two block quotes; start it with `>` \
                                       to join them, or write text between them";
                        let at = Position { line: line + 1, column: 1 };
                        findings.push(Finding::new(at, Rule::NoBlanksBlockquote, message));
                    }
                }
                last_end = lines.end;
                quotes += 1;
            }
            Token::QuoteEnd => quotes -= 1,
            Token::Item { .. } => items += 1,
            Token::ItemEnd => items -= 1,
            Token::Inline { lines, .. } if quotes > 0 => {
                for index in lines.clone() {
                    check_quote_space(source, index, items > 0, findings);
                }
            }
            _ => {}
        }
        just_ended = *token == Token::QuoteEnd;
    }
}

fn check_quote_space(
    source: &Source<'_>,
    index: usize,
    in_list: bool,
    findings: &mut Vec<Finding>,
) {
    let line = source.line(index);
    let words = margin(line);
    let markers: Vec<usize> = line[..words].match_indices('>').map(|(at, _)| at + 1).collect();
    let Some(last) = markers.last() else { return };
    let gap = |from: usize, to: usize| line[from..to].chars().count();
    let wide = if gap(*last, words) >= 2 {
        // In a list, these spaces can be the indentation of its items.
        (words < line.len() && !in_list).then_some(*last)
    } else {
        markers.windows(2).rev().find(|two| gap(two[0], two[1] - 1) >= 2).map(|two| two[0])
    };
    if let Some(offset) = wide {
        let at = source.position_in_line(index, offset);
        let message = "expected 1 space after `>`, found more";
        findings.push(Finding::new(at, Rule::NoMultipleSpaceBlockquote, message));
    }
}

fn check_code(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    let mut first_is_fenced = None;
    let mut first_marker = None;
    for token in &outline.tokens {
        let (lines, is_fenced) = match token {
            Token::Fence { lines, .. } => (lines, true),
            Token::IndentedCode { lines } => (lines, false),
            _ => continue,
        };
        let line = source.line(lines.start);
        let at = source.position_in_line(lines.start, line.len() - line.trim_start().len());
        let expected = *first_is_fenced.get_or_insert(is_fenced);
        if is_fenced != expected {
            let style = if expected { "a fenced" } else { "an indented" };
            let message = format!("expected {style} code block like the first one");
            findings.push(Finding::new(at, Rule::CodeBlockStyle, message));
        }
        let Token::Fence { language, marker, .. } = token else { continue };
        if language.trim().is_empty() {
            let message = "the code block has no language; write it after the fence, such as \
                           ```yaml, or ```text for none";
            findings.push(Finding::new(at, Rule::FencedCodeLanguage, message));
        }
        let expected = *first_marker.get_or_insert(*marker);
        if *marker != expected {
            let fence = String::from(expected).repeat(3);
            let message = format!("expected `{fence}` like the first code fence");
            findings.push(Finding::new(at, Rule::CodeFenceStyle, message));
        }
    }
}
