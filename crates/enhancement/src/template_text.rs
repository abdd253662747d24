//! Text of the community's template that a document still contains.
//!
//! Sentences are compared, not lines, so that wrapping, markup and letter case
//! do not matter. The crate contains fingerprints of the sentences instead of
//! the template itself: a document is often older than the current template,
//! and the fingerprints cover several versions of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::Hasher as _;
use std::ops::Range;

use fnv::FnvHasher;

use crate::finding::{Finding, Position};
use crate::markdown::{self, Outline, Token};
use crate::rule::Rule;
use crate::source::Source;

/// Written by `cargo run --example template_fingerprints -- TEMPLATE…`.
const FINGERPRINTS: &str = include_str!("template_fingerprints.txt");

/// A shorter sentence can occur in any document by chance.
const MIN_INSTRUCTION_WORDS: usize = 7;

/// A section with fewer words of the template is not reported: a single label
/// such as "Examples:" is not a remainder.
const MIN_SECTION_WORDS: usize = 3;

/// Sections whose list items in the template are usable as they are. Authors
/// select from them, so an item in a section with other text is legitimate.
const CRITERIA_HEADINGS: [&str; 3] = ["Dev Preview", "Tech Preview", "Removing a deprecated"];

/// A checklist is kept on purpose.
const CHECKLIST: &str = "checklist";

/// The sentences of one or more versions of the template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateSentences {
    kinds: BTreeMap<u64, Kind>,
}

/// What a sentence of the template is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Tells the author what to write. It does not belong in any document.
    Instruction,
    /// An example, a question or a short phrase, which a document can contain
    /// on purpose. It counts only in a section without any other text.
    Example,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Example => "example",
        }
    }
}

impl TemplateSentences {
    /// The sentences of the community's template, in those versions from 2019 to
    /// 2026 that this crate has fingerprints of.
    pub fn community() -> Self {
        let parse = |line: &str| {
            let (kind, fingerprint) = line.split_once(' ')?;
            let kind = [Kind::Instruction, Kind::Example].into_iter().find(|k| k.name() == kind)?;
            Some((u64::from_str_radix(fingerprint, 16).ok()?, kind))
        };
        Self { kinds: FINGERPRINTS.lines().filter_map(parse).collect() }
    }

    /// Adds the sentences of a template, for example that of the repository in
    /// which the documents are.
    pub fn add(&mut self, template: &str) {
        let masked = markdown::mask(template);
        let outline = Outline::parse(&Source::new(&masked));
        let mut heading_lines = 0..0;
        let (mut is_criteria, mut is_checklist) = (false, false);
        let mut list_depth = 0_usize;
        // The depth of the list item that introduces examples.
        let mut examples_from = None;
        for token in &outline.tokens {
            match token {
                Token::Heading { words, lines, .. } => {
                    heading_lines = lines.clone();
                    is_criteria = CRITERIA_HEADINGS.iter().any(|start| words.starts_with(start));
                    is_checklist = words.to_lowercase().contains(CHECKLIST);
                    examples_from = None;
                }
                Token::ListStart { .. } => list_depth += 1,
                Token::ListEnd => list_depth = list_depth.saturating_sub(1),
                Token::Item { .. } if examples_from.is_some_and(|depth| list_depth <= depth) => {
                    examples_from = None;
                }
                Token::Inline { lines, words, .. }
                    if !is_checklist && !heading_lines.contains(&lines.start) =>
                {
                    for sentence in sentences(words) {
                        if introduces_examples(sentence) {
                            examples_from = Some(list_depth);
                        }
                        let is_example = examples_from.is_some()
                            || (is_criteria && list_depth > 0)
                            || sentence.ends_with('?')
                            || word_count(sentence) < MIN_INSTRUCTION_WORDS;
                        let kind = if is_example { Kind::Example } else { Kind::Instruction };
                        let known = self.kinds.entry(fingerprint(sentence)).or_insert(kind);
                        // The weaker kind avoids false positives.
                        if kind == Kind::Example {
                            *known = kind;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The fingerprints, one per line, as this crate contains them.
    pub fn fingerprints(&self) -> String {
        let mut text = String::new();
        for (fingerprint, kind) in &self.kinds {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {fingerprint:016x}", kind.name());
        }
        text
    }

    /// Reports each section that consists of text of the template, and each
    /// that contains one of its instructions.
    pub(crate) fn check(
        &self,
        source: &Source<'_>,
        outline: &Outline,
        findings: &mut Vec<Finding>,
    ) {
        let mut section = Section::default();
        for token in &outline.tokens {
            match token {
                Token::Heading { lines, words, .. } => {
                    findings.extend(section.finding());
                    section = Section::new(words, lines.clone());
                }
                Token::Inline { lines, words, .. }
                    if !section.heading_lines.contains(&lines.start) =>
                {
                    for sentence in sentences(words) {
                        section.add(sentence, lines.start, self.kind(sentence));
                    }
                }
                Token::Fence { .. }
                | Token::IndentedCode { .. }
                | Token::Image { .. }
                | Token::Table { .. } => section.has_own_text = true,
                Token::Html { start, .. } if !source.text[*start..].starts_with("<!--") => {
                    section.has_own_text = true;
                }
                _ => {}
            }
        }
        findings.extend(section.finding());
    }

    fn kind(&self, sentence: &str) -> Option<Kind> {
        self.kinds.get(&fingerprint(sentence)).copied()
    }
}

/// The text between a heading and the next one.
#[derive(Debug, Default)]
struct Section<'a> {
    /// `None` before the first heading.
    heading: Option<&'a str>,
    heading_lines: Range<usize>,
    /// Whether it contains anything that is not from the template.
    has_own_text: bool,
    /// How many words are from the template.
    template_words: usize,
    /// The line of the first text of the template.
    first_line: Option<usize>,
    /// The first instruction and its line.
    instruction: Option<(usize, &'a str)>,
}

impl<'a> Section<'a> {
    fn new(heading: &'a str, heading_lines: Range<usize>) -> Self {
        Self { heading: Some(heading.trim()), heading_lines, ..Self::default() }
    }

    fn add(&mut self, sentence: &'a str, line: usize, kind: Option<Kind>) {
        let Some(kind) = kind else {
            self.has_own_text |= !is_placeholder(sentence);
            return;
        };
        self.template_words += word_count(sentence);
        self.first_line.get_or_insert(line);
        if kind == Kind::Instruction {
            self.instruction.get_or_insert((line, sentence.trim()));
        }
    }

    fn finding(&self) -> Option<Finding> {
        let section = match self.heading {
            Some(heading) => format!("the section `{heading}`"),
            None => "the text before the first heading".to_owned(),
        };
        let remedy = "replace it, or state why the section does not apply";
        let (line, message) = if !self.has_own_text && self.template_words >= MIN_SECTION_WORDS {
            let line = self.heading.map_or(self.first_line?, |_| self.heading_lines.start);
            (line, format!("{section} contains only text of the template; {remedy}"))
        } else {
            let (line, sentence) = self.instruction?;
            let quoted = beginning(sentence);
            (line, format!("{section} still contains text of the template ({quoted}); {remedy}"))
        };
        let at = Position { line: line + 1, column: 1 };
        Some(Finding::new(at, Rule::TemplateText, message))
    }
}

/// Splits text where a mark that ends a sentence is followed by white space.
/// Pieces without a letter or digit are left out.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let ends = rest.match_indices(['.', '?', '!', ':']).map(|(start, _)| start + 1);
            let is_end = |end: &usize| rest[*end..].chars().next().is_none_or(char::is_whitespace);
            let end = { ends }.find(is_end).unwrap_or(rest.len());
            let (sentence, following) = rest.split_at(end);
            rest = following;
            if sentence.contains(char::is_alphanumeric) {
                return Some(sentence);
            }
        }
        None
    })
}

fn words(sentence: &str) -> impl Iterator<Item = &str> {
    sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn word_count(sentence: &str) -> usize {
    words(sentence).count()
}

/// A hash of the words in lower case. It is part of the file of fingerprints,
/// therefore it must not change between versions of the standard library.
fn fingerprint(sentence: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    for word in words(&sentence.to_lowercase()) {
        hasher.write(word.as_bytes());
        hasher.write(b" ");
    }
    hasher.finish()
}

/// Whether what follows is an example: "For example:", "Examples:", "Examples
/// (metrics, alerts, operator conditions)".
fn introduces_examples(sentence: &str) -> bool {
    let mut words = words(sentence).map(str::to_lowercase);
    match words.next().as_deref() {
        Some("for") => words.eq(["example"]),
        Some("example" | "examples") => words.count() < MIN_INSTRUCTION_WORDS - 1,
        _ => false,
    }
}

fn is_placeholder(sentence: &str) -> bool {
    words(sentence).all(|word| matches!(word, "TBD" | "TODO"))
}

/// The first words of a sentence, in quotation marks.
fn beginning(sentence: &str) -> String {
    const WORDS: usize = 6;
    let words: Vec<&str> = sentence.split_whitespace().take(WORDS + 1).collect();
    match words.get(..WORDS).filter(|_| words.len() > WORDS) {
        Some(first) => format!("\"{} …\"", first.join(" ")),
        None => format!("\"{}\"", words.join(" ")),
    }
}

#[cfg(test)]
mod tests;
