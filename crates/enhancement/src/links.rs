//! The targets of links: other documents, files and headings.
//!
//! Web addresses are not checked: they change without a change of the document,
//! and a linter that needs the internet cannot be used everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::document::Document;
use crate::finding::Finding;
use crate::markdown::{Link, Outline, Token};
use crate::metadata::Related;
use crate::pattern::pattern;
use crate::rule::Rule;
use crate::source::Source;

/// Resolves the links of a document.
pub trait LinkResolver {
    /// Returns the target of `path`, which is relative to the top of the
    /// repository if it starts with `/`, else to the document.
    fn resolve(&self, path: &str) -> LinkTarget;
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkTarget {
    Missing,
    /// Outside the repository.
    Outside,
    /// A directory, or a file without headings.
    Present,
    /// A document with these anchors.
    Document(BTreeSet<String>),
}

/// The anchors of a Markdown text, which links contain after `#`.
pub fn anchors(text: String) -> BTreeSet<String> {
    Document::parse("", text).anchors()
}

/// Checks that the documents in the metadata exist.
pub(crate) fn check_related(
    related: &[Related<'_>],
    links: &dyn LinkResolver,
    findings: &mut Vec<Finding>,
) {
    for Related { key, text, at } in related.iter().filter(|related| is_path(related.text)) {
        // Paths from the top of the repository are used with and without a slash.
        let from_top = format!("/{}", text.trim_start_matches('/'));
        let is_found = |path: &str| {
            let path = path.split('#').next().unwrap_or(path);
            matches!(links.resolve(path), LinkTarget::Present | LinkTarget::Document(_))
        };
        if !is_found(&from_top) && !is_found(text) {
            let message = format!(
                "{text} in `{key}` does not exist; write the path from the top of the repository, \
                 such as /enhancements/network/name.md"
            );
            findings.push(Finding::new(*at, Rule::RelatedDocument, message));
        }
    }
}

/// Whether an entry is a path. URLs, `NA` and sentences are used there, too.
fn is_path(text: &str) -> bool {
    !text.contains("://")
        && !text.contains(char::is_whitespace)
        && !text.eq_ignore_ascii_case("n/a")
        && (text.contains('/') || text.ends_with(".md"))
}

/// Checks the links and images of the text.
pub(crate) fn check(
    source: &Source<'_>,
    outline: &Outline,
    links: &dyn LinkResolver,
    findings: &mut Vec<Finding>,
) {
    let own_anchors = anchors_of(source, outline);
    for token in &outline.tokens {
        let (start, address) = match token {
            Token::Link(Link { start, address, is_bare: false, .. })
            | Token::Image { start, address, .. } => (*start, address),
            _ => continue,
        };
        if let Some((rule, message)) = problem(address, &own_anchors, links) {
            findings.push(Finding::new(source.position(start), rule, message));
        }
    }
}

fn problem(
    address: &str,
    own_anchors: &BTreeSet<String>,
    links: &dyn LinkResolver,
) -> Option<(Rule, String)> {
    let (path, anchor) = address.split_once('#').unwrap_or((address, ""));
    let path = path.split('?').next().unwrap_or(path);
    if has_scheme(path) || path.starts_with("//") {
        return None;
    }
    let anchor = decode(anchor);
    if path.is_empty() {
        return (!anchor.is_empty() && !own_anchors.contains(&anchor)).then(|| {
            let hint = anchor_hint(&anchor, own_anchors);
            (Rule::Anchor, format!("this document has no anchor #{anchor}{hint}"))
        });
    }
    let path = decode(path);
    match links.resolve(&path) {
        LinkTarget::Missing => {
            Some((Rule::RelativeLink, format!("{path} does not exist; correct the path")))
        }
        LinkTarget::Outside => {
            let message = format!("{path} is outside the repository; link its URL");
            Some((Rule::RelativeLink, message))
        }
        LinkTarget::Document(anchors) if !anchor.is_empty() && !anchors.contains(&anchor) => {
            let hint = anchor_hint(&anchor, &anchors);
            Some((Rule::Anchor, format!("{path} has no anchor #{anchor}{hint}")))
        }
        LinkTarget::Document(_) | LinkTarget::Present => None,
    }
}

fn anchor_hint(anchor: &str, known: &BTreeSet<String>) -> String {
    let similar = known.iter().find(|known| {
        !known.is_empty() && (known.starts_with(anchor) || anchor.starts_with(known.as_str()))
    });
    match similar {
        Some(similar) => format!("; did you mean #{similar}?"),
        None => "; write the heading in lower case, with a dash for each space".to_owned(),
    }
}

fn has_scheme(address: &str) -> bool {
    address.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

/// Decodes escapes such as `%20`; invalid ones are kept.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, following)) = rest.split_first() {
        let digits = following.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &following[2..];
            }
            None => {
                bytes.push(first);
                rest = following;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

static HTML_ANCHOR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?i)<[a-z][^>]*\s(?:id|name)\s*=\s*["']([^"']+)["']"#));

/// The anchors that GitHub generates from headings, and those in HTML.
pub(crate) fn anchors_of(source: &Source<'_>, outline: &Outline) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors: BTreeSet<String> =
        HTML_ANCHOR.captures_iter(source.text).map(|found| found[1].to_owned()).collect();
    for token in &outline.tokens {
        let Token::Heading { words, .. } = token else { continue };
        let name = slug(words);
        let times = seen.entry(name.clone()).or_default();
        anchors.insert(if *times == 0 { name } else { format!("{name}-{times}") });
        *times += 1;
    }
    anchors
}

fn slug(words: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let lower = words.trim().to_lowercase();
    lower.chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Position;

    /// Resolves links from `/enhancements/a.md` in a repository with two files.
    struct TwoFiles;

    impl LinkResolver for TwoFiles {
        fn resolve(&self, path: &str) -> LinkTarget {
            match path {
                "/enhancements/b.md" | "b.md" => LinkTarget::Document(anchors(
                    "# B\n\n## A & B's `x`\n\n## Same\n\n## Same\n".into(),
                )),
                "pictures/a b.png" | "/" => LinkTarget::Present,
                path if path.starts_with("../..") => LinkTarget::Outside,
                _ => LinkTarget::Missing,
            }
        }
    }

    fn found(text: &str) -> Vec<String> {
        let source = Source::new(text);
        let mut findings = Vec::new();
        check(&source, &Outline::parse(&source), &TwoFiles, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_with_a_target_and_web_addresses_pass() {
        for text in [
            "[b](b.md) [b](/enhancements/b.md#a--bs-x) [b](b.md#same-1) [web](https://x/y#z)",
            "![p](pictures/a%20b.png) [mail](mailto:a@b) <https://x> [other](//host/x)",
            "# One two\n\n[up](#one-two)",
            "<a name=\"here\"></a>\n\n[there](#here)",
            "[ref][b]\n\n[b]: b.md#b",
        ] {
            assert!(found(text).is_empty(), "{text}: {:?}", found(text));
        }
    }

    #[test]
    fn links_without_a_target_are_reported() {
        for (text, expected) in [
            ("[c](c.md)", "1:1: error: c.md does not exist; correct the path [relative-link]"),
            (
                "a [c](../../x/y.md)",
                "1:3: error: ../../x/y.md is outside the repository; link its URL [relative-link]",
            ),
            (
                "# One two\n\n[up](#one)",
                "3:1: error: this document has no anchor #one; did you mean #one-two? [anchor]",
            ),
            (
                "[b](b.md#Same)",
                "1:1: error: b.md has no anchor #Same; write the heading in lower case, with a dash \
                 for each space [anchor]",
            ),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
    }

    #[test]
    fn related_documents_are_found_with_and_without_a_slash() {
        let at = Position { line: 7, column: 5 };
        let count = |text: &str| {
            let mut findings = Vec::new();
            let related = [Related { key: "see-also", text, at }];
            check_related(&related, &TwoFiles, &mut findings);
            findings.len()
        };
        for fine in [
            "/enhancements/b.md",
            "enhancements/b.md",
            "b.md",
            "/enhancements/b.md#same",
            "NA",
            "N/A",
            "https://x/y.md",
            "the other one, see x/y",
        ] {
            assert_eq!(count(fine), 0, "{fine}");
        }
        for missing in ["/enhancements/c.md", "c.md", "network/b.md"] {
            assert_eq!(count(missing), 1, "{missing}");
        }
    }
}
