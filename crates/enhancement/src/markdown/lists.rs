//! Rules for lists.

use std::sync::LazyLock;

use regex::Regex;

use super::margin::{indent, margin};
use super::outline::{Outline, Token};
use crate::finding::Finding;
use crate::pattern::pattern;
use crate::rule::Rule;
use crate::source::Source;

/// Spaces per level of bullets.
const INDENT: usize = 2;

/// A list, without its nested lists.
#[derive(Debug)]
struct List {
    ordered: bool,
    /// Whether all enclosing lists have bullets.
    within_bullets: bool,
    /// The number of enclosing lists, up to the nearest block quote.
    nesting: usize,
    line: usize,
    items: Vec<usize>,
}

/// MD005, MD007, MD030.
pub(super) fn check(source: &Source<'_>, outline: &Outline, findings: &mut Vec<Finding>) {
    for list in lists(outline) {
        if list.ordered {
            check_numbers(source, &list, findings);
        } else {
            check_bullets(source, &list, findings);
        }
        for &line in &list.items {
            check_marker_space(source, line, findings);
        }
    }
}

fn lists(outline: &Outline) -> Vec<List> {
    let mut done = Vec::new();
    let mut open: Vec<List> = Vec::new();
    let mut nesting = 0;
    let mut outside_quotes = Vec::new();
    for token in &outline.tokens {
        match token {
            Token::ListStart { ordered, line } => {
                let within_bullets =
                    open.last().is_none_or(|list| !list.ordered && list.within_bullets);
                let (ordered, line) = (*ordered, *line);
                open.push(List { ordered, within_bullets, nesting, line, items: Vec::new() });
                nesting += 1;
            }
            Token::ListEnd => {
                done.extend(open.pop());
                nesting -= 1;
            }
            Token::Item { line } => {
                if let Some(list) = open.last_mut() {
                    list.items.push(*line);
                }
            }
            Token::QuoteStart { .. } => {
                outside_quotes.push(nesting);
                nesting = 0;
            }
            Token::QuoteEnd => nesting = outside_quotes.pop().unwrap_or(0),
            _ => {}
        }
    }
    done
}

fn check_bullets(source: &Source<'_>, list: &List, findings: &mut Vec<Finding>) {
    let first = indent(source.line(list.line));
    for &index in &list.items {
        let line = source.line(index);
        let at = source.position_in_line(index, margin(line));
        let actual = indent(line);
        if actual != first {
            let message = format!(
                "expected an indentation of {first} spaces like the first item of the list, found \
                 {actual}"
            );
            findings.push(Finding::new(at, Rule::ListIndent, message));
        }
        let expected = list.nesting * INDENT;
        if list.within_bullets && actual != expected {
            let message = format!("expected an indentation of {expected} spaces, found {actual}");
            findings.push(Finding::new(at, Rule::UlIndent, message));
        }
    }
}

static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\s>]*0*\d+[.)]"));

/// The numbers of a list are aligned on the left or on the right.
fn check_numbers(source: &Source<'_>, list: &List, findings: &mut Vec<Finding>) {
    let first = indent(source.line(list.line));
    let mut first_end = None;
    let mut is_right_aligned = false;
    for &index in &list.items {
        let line = source.line(index);
        let Some(number) = NUMBER.find(line) else { continue };
        let (actual, end) = (indent(line), number.end());
        let expected_end = *first_end.get_or_insert(end);
        if actual == first && !is_right_aligned {
            continue;
        }
        if end == expected_end {
            is_right_aligned = true;
            continue;
        }
        let message = if is_right_aligned {
            format!("expected a number that ends in column {expected_end}, found column {end}")
        } else {
            format!(
                "expected an indentation of {first} spaces like the first item of the list, found \
                 {actual}"
            )
        };
        let at = source.position_in_line(index, margin(line));
        findings.push(Finding::new(at, Rule::ListIndent, message));
    }
}

fn check_marker_space(source: &Source<'_>, index: usize, findings: &mut Vec<Finding>) {
    let line = source.line(index);
    let marker = margin(line);
    let following = line[marker..].trim_start_matches(|c: char| !c.is_whitespace());
    let spaces = following.chars().take_while(|c| c.is_whitespace()).count();
    if !following.trim().is_empty() && spaces != 1 {
        let at = source.position_in_line(index, marker);
        let message = format!("expected 1 space after the marker of the item, found {spaces}");
        findings.push(Finding::new(at, Rule::ListMarkerSpace, message));
    }
}
