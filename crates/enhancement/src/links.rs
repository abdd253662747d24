//! Where links lead: other documents, files, headings.
//!
//! Web addresses are left alone; they change without anybody touching the
//! document, and a linter that needs the internet is one that is switched off.

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

/// The files around a document.
pub trait Surroundings {
    /// What `path` leads to. It starts with `/` when it counts from the top of
    /// the repository, else it counts from the document.
    fn find(&self, path: &str) -> Target;
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Missing,
    /// It leads out of the repository.
    Outside,
    /// A folder, or a file that has no headings.
    Present,
    /// A document with these anchors.
    Document(BTreeSet<String>),
}

/// The anchors of a Markdown text: what links may give behind `#`.
pub fn anchors(text: String) -> BTreeSet<String> {
    Document::parse("", text).anchors()
}

/// Checks the documents that the metadata name.
pub(crate) fn check_related(
    related: &[Related<'_>],
    surroundings: &dyn Surroundings,
    findings: &mut Vec<Finding>,
) {
    for Related { key, text, at } in related.iter().filter(|related| is_path(related.text)) {
        // Both ways of writing are in use: from the top with and without a slash.
        let from_top = format!("/{}", text.trim_start_matches('/'));
        let is_found = |path: &str| {
            let path = path.split('#').next().unwrap_or(path);
            matches!(surroundings.find(path), Target::Present | Target::Document(_))
        };
        if !is_found(&from_top) && !is_found(text) {
            let message = format!(
                "`{key}` names {text}, which is not there; write the path from the top of the \
                 repository, such as /enhancements/network/name.md"
            );
            findings.push(Finding::new(*at, Rule::RelatedDocument, message));
        }
    }
}

/// People also write addresses, `NA` and whole sentences there.
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
    surroundings: &dyn Surroundings,
    findings: &mut Vec<Finding>,
) {
    let own = anchors_of(source, outline);
    for token in &outline.tokens {
        let (start, address) = match token {
            Token::Link(Link { start, address, is_bare: false, .. })
            | Token::Image { start, address, .. } => (*start, address),
            _ => continue,
        };
        if let Some((rule, message)) = trouble(address, &own, surroundings) {
            findings.push(Finding::new(source.position(start), rule, message));
        }
    }
}

fn trouble(
    address: &str,
    own: &BTreeSet<String>,
    surroundings: &dyn Surroundings,
) -> Option<(Rule, String)> {
    let (path, anchor) = address.split_once('#').unwrap_or((address, ""));
    let path = path.split('?').next().unwrap_or(path);
    if has_scheme(path) || path.starts_with("//") {
        return None;
    }
    let anchor = decode(anchor);
    if path.is_empty() {
        return (!anchor.is_empty() && !own.contains(&anchor)).then(|| {
            let near = nearest(&anchor, own);
            (Rule::Anchor, format!("no heading of this document is #{anchor}{near}"))
        });
    }
    let path = decode(path);
    match surroundings.find(&path) {
        Target::Missing => {
            Some((Rule::RelativeLink, format!("{path} is not there; correct the path")))
        }
        Target::Outside => {
            let message =
                format!("{path} leads out of the repository; link it by its address on the web");
            Some((Rule::RelativeLink, message))
        }
        Target::Document(anchors) if !anchor.is_empty() && !anchors.contains(&anchor) => {
            let near = nearest(&anchor, &anchors);
            Some((Rule::Anchor, format!("no heading of {path} is #{anchor}{near}")))
        }
        Target::Document(_) | Target::Present => None,
    }
}

fn nearest(anchor: &str, known: &BTreeSet<String>) -> String {
    let near = known.iter().find(|known| {
        !known.is_empty() && (known.starts_with(anchor) || anchor.starts_with(known.as_str()))
    });
    match near {
        Some(near) => format!("; did you mean #{near}?"),
        None => "; take the words of the heading in small letters, with a dash for each space"
            .to_owned(),
    }
}

fn has_scheme(address: &str) -> bool {
    address.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

/// Turns `%20` and the like into what they stand for, where they stand for
/// something.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

static NAMED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?i)<[a-z][^>]*\s(?:id|name)\s*=\s*["']([^"']+)["']"#));

/// The anchors GitHub makes of headings, and those written in HTML.
pub(crate) fn anchors_of(source: &Source<'_>, outline: &Outline) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors: BTreeSet<String> =
        NAMED.captures_iter(source.text).map(|found| found[1].to_owned()).collect();
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
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let lower = words.trim().to_lowercase();
    lower.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Position;

    /// A repository with two files, as seen from `/enhancements/a.md`.
    struct Two;

    impl Surroundings for Two {
        fn find(&self, path: &str) -> Target {
            match path {
                "/enhancements/b.md" | "b.md" => Target::Document(anchors(
                    "# B\n\n## A & B's `x`\n\n## Same\n\n## Same\n".into(),
                )),
                "pictures/a b.png" | "/" => Target::Present,
                path if path.starts_with("../..") => Target::Outside,
                _ => Target::Missing,
            }
        }
    }

    fn found(text: &str) -> Vec<String> {
        let source = Source::new(text);
        let mut findings = Vec::new();
        check(&source, &Outline::read(&source), &Two, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_and_web_addresses_are_fine() {
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
    fn links_that_lead_nowhere_are_named() {
        for (text, wanted) in [
            ("[c](c.md)", "1:1: error: c.md is not there; correct the path [relative-link]"),
            (
                "a [c](../../x/y.md)",
                "1:3: error: ../../x/y.md leads out of the repository; link it by its address on \
                 the web [relative-link]",
            ),
            (
                "# One two\n\n[up](#one)",
                "3:1: error: no heading of this document is #one; did you mean #one-two? [anchor]",
            ),
            (
                "[b](b.md#Same)",
                "1:1: error: no heading of b.md is #Same; take the words of the heading in small \
                 letters, with a dash for each space [anchor]",
            ),
        ] {
            assert_eq!(found(text), [wanted], "{text}");
        }
    }

    #[test]
    fn related_documents_are_found_with_and_without_a_slash() {
        let at = Position { line: 7, column: 5 };
        let said = |text: &str| {
            let mut findings = Vec::new();
            let related = [Related { key: "see-also", text, at }];
            check_related(&related, &Two, &mut findings);
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
            assert_eq!(said(fine), 0, "{fine}");
        }
        for missing in ["/enhancements/c.md", "c.md", "network/b.md"] {
            assert_eq!(said(missing), 1, "{missing}");
        }
    }
}
