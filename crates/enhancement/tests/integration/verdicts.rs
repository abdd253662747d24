//! The result of the community's linter for metadata. The verdicts were compared
//! with an implementation of its rules that uses Go's YAML library.

use enhancement::{Document, Finding, Group, LinkResolver, LinkTarget, TemplateSentences, Verdict};

struct AllLinksResolve;

impl LinkResolver for AllLinksResolve {
    fn resolve(&self, _: &str) -> LinkTarget {
        LinkTarget::Present
    }
}

const GOOD: &str = "\
---
title: a-good-one
authors:
  - \"@ann\"
reviewers:
  - \"@bob, for the network\"
approvers:
  - \"@eve\"
api-approvers: # there is no API
  - None
creation-date: 2024-02-03
last-updated: 2024-02-04
tracking-link:
  - https://issues.example.com/browse/X-1
---

# A good one
";

fn findings(text: &str) -> Vec<Finding> {
    let document = Document::parse("a-good-one.md", text.to_owned());
    document.findings(&AllLinksResolve, &TemplateSentences::default())
}

/// `GOOD` with one part replaced.
#[track_caller]
fn replace(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from:?}");
    GOOD.replace(from, to)
}

#[track_caller]
fn assert_passes(text: &str) {
    let findings = findings(text);
    assert!(Verdict::of(&findings).metadata, "{text}\n{findings:#?}");
}

/// Asserts the findings in the metadata.
#[track_caller]
fn assert_fails(text: &str, expected: &[&str]) {
    let findings = findings(text);
    assert!(!Verdict::of(&findings).metadata, "{text}");
    let messages: Vec<String> = findings
        .iter()
        .filter(|finding| finding.rule.group() == Group::Metadata)
        .map(ToString::to_string)
        .collect();
    assert_eq!(messages, expected, "{text}");
}

const MISSING_PEOPLE: &str = "error: `authors` is empty; list the authors of the document";

#[test]
fn valid_metadata_pass_in_any_notation() {
    assert_passes(GOOD);
    assert_passes(&GOOD.replace('\n', "\r\n"));
    assert_passes(&format!("Words before.\n\n{GOOD}"));
    for (from, to) in [
        ("title: a-good-one", "title: 'a-good-one'"),
        ("title: a-good-one", "status: [x, {y: z}]\ntitle: a-good-one"),
        ("  - \"@ann\"", "- \"@ann\"\n- null"),
        ("authors:\n  - \"@ann\"", "authors: [\"@ann\", 3]"),
        ("authors:\n  - \"@ann\"", "x: &who [\"@ann\"]\nauthors: *who"),
        ("  - None", "  - tbd"),
        ("  - None", "  - TBD, but soon"),
        ("creation-date: 2024-02-03", "creation-date: yesterday"),
        ("https://issues.example.com/browse/X-1", "https://x.example/a b (the epic)"),
        ("https://issues.example.com/browse/X-1", "'X-1: later'"),
        // What follows `---` is not read; required keys precede it.
        ("X-1\n---", "X-1\n# ---- the end\nmore: 1\n---"),
    ] {
        assert_passes(&replace(from, to));
    }
}

#[test]
fn missing_metadata_are_reported() {
    assert_fails(
        "# A good one\n",
        &["1:1: error: expected metadata; start the document with a line `---`, the metadata as \
           YAML, and another line `---` [front-matter]"],
    );
    assert_fails(
        "---\ntitle: a-good-one\n",
        &[
            "1:1: error: expected a second `---` that ends the metadata; write a line `---` after them \
           [front-matter]",
        ],
    );
}

#[test]
fn three_dashes_end_the_metadata_even_inside_a_line() {
    let text = replace("title: a-good-one", "title: a-good-one # --- see below");
    let found = findings(&text);
    assert!(!Verdict::of(&found).metadata);
    let messages: Vec<String> = found.iter().take(2).map(ToString::to_string).collect();
    assert_eq!(
        messages[0],
        "2:21: error: `tracking-link` is empty; link the issue or epic that tracks the work \
         [metadata-tracking-link]"
    );
    let reason = "2:21: warning: the metadata end inside this line, because the community's linter \
                  splits the document at every `---`; write the line without `---` \
                  [front-matter-place]";
    assert!(found.iter().any(|finding| finding.to_string() == reason), "{found:#?}");
}

#[test]
fn text_before_the_metadata_is_a_warning_only() {
    let found = findings(&format!("Words before.\n\n{GOOD}"));
    let expected = "1:1: warning: expected the metadata at the top of the document, found text before \
                    them; move the text below the metadata, which are displayed as text otherwise \
                    [front-matter-place]";
    assert!(found.iter().any(|finding| finding.to_string() == expected), "{found:#?}");
    assert!(Verdict::of(&found).metadata);
}

#[test]
fn invalid_yaml_and_unexpected_types_fail() {
    let quotes = "error: invalid YAML: a string cannot start with `@`; put it in quotes, for example \
                  \"@name\" [metadata-yaml]";
    assert_fails(&replace("\"@ann\"", "@ann"), &[&format!("4:5: {quotes}")]);
    assert_fails(
        &GOOD.replace("\"@ann\"", "@ann").replace("\"@eve\"", "@eve"),
        &[&format!("4:5: {quotes}"), &format!("8:5: {quotes}")],
    );
    for (from, to, expected) in [
        (
            "authors:\n",
            "title: a-good-one\nauthors:\n",
            "3:1: error: `title` is a duplicate of line 2; remove one of them [metadata-yaml]",
        ),
        (
            "creation-date: 2024-02-03\n",
            "x: 1\nx: 2\n",
            "12:1: error: `x` is a duplicate of line 11; remove one of them [metadata-yaml]",
        ),
        (
            "authors:\n  - \"@ann\"",
            "authors: \"@ann\"",
            "3:10: error: expected a list as `authors`; write each entry on a line `  - …` \
             [metadata-yaml]",
        ),
        (
            "\"@bob, for the network\"",
            "TODO: somebody",
            "6:5: error: expected a string as an entry of `reviewers`; put it in quotes if it \
             contains a colon or a bracket [metadata-yaml]",
        ),
        (
            "title: a-good-one",
            "title: [a-good-one]",
            "2:8: error: expected a string as `title`; write `title: a-good-one` [metadata-yaml]",
        ),
    ] {
        assert_fails(&replace(from, to), &[expected]);
    }
    let text = replace("  - \"@ann\"", "  - [unfinished");
    assert!(!Verdict::of(&findings(&text)).metadata);
    assert!(findings(&text)[0].to_string().contains("error: invalid YAML: "));
}

#[test]
fn the_title_must_match_the_file_name() {
    assert_fails(
        &replace("title: a-good-one", "title: A good one"),
        &[
            "2:8: error: the title \"A good one\" does not match the file name a-good-one.md; write \
           `title: a-good-one`, or rename the file [metadata-title]",
        ],
    );
    let none = "error: expected a title; write `title: a-good-one`, the file name without .md \
                [metadata-title]";
    assert_fails(&replace("title: a-good-one", "title:"), &[&format!("2:1: {none}")]);
    assert_fails(&replace("title: a-good-one\n", ""), &[&format!("14:1: {none}")]);
}

#[test]
fn people_and_links_are_required() {
    for (from, to, expected) in [
        ("authors:\n  - \"@ann\"", "authors:", format!("3:1: {MISSING_PEOPLE} [metadata-people]")),
        ("authors:\n  - \"@ann\"\n", "", format!("13:1: {MISSING_PEOPLE} [metadata-people]")),
        ("\"@ann\"", "", format!("3:1: {MISSING_PEOPLE} [metadata-people]")),
        (
            "\"@ann\"",
            "TBD",
            "4:5: error: `authors` is still TBD; list the authors of the document [metadata-people]"
                .to_owned(),
        ),
        (
            "\"@eve\"",
            "\"@eve\"\n  - TBD",
            "9:5: error: `approvers` is still TBD; name one person who approves the document \
             [metadata-people]"
                .to_owned(),
        ),
        (
            "None",
            "''",
            "10:5: error: `api-approvers` has an empty entry; name who approves the API change, or \
             write None if there is none [metadata-people]"
                .to_owned(),
        ),
        (
            "https://issues.example.com/browse/X-1",
            "TBD",
            "14:5: error: `tracking-link` is still TBD; link the issue or epic that tracks the work \
             [metadata-tracking-link]"
                .to_owned(),
        ),
        (
            "https://issues.example.com/browse/X-1",
            "None",
            "14:5: error: invalid URL in `tracking-link`: expected a scheme such as https://, found \
             \"None\"; link the issue or epic that tracks the work [metadata-tracking-link]"
                .to_owned(),
        ),
        (
            "tracking-link:\n  - https://issues.example.com/browse/X-1\n",
            "",
            "13:1: error: `tracking-link` is empty; link the issue or epic that tracks the work \
             [metadata-tracking-link]"
                .to_owned(),
        ),
    ] {
        assert_fails(&replace(from, to), &[&expected]);
    }
}

#[test]
fn invalid_dates_are_warnings() {
    let found = |text: &str| -> Vec<String> {
        let dates = |finding: &&Finding| finding.rule == enhancement::Rule::Dates;
        findings(text).iter().filter(dates).map(ToString::to_string).collect()
    };
    assert!(found(GOOD).is_empty());
    assert_eq!(
        found(&replace("2024-02-03", "03.02.2024")),
        ["11:16: warning: `creation-date` is not a date; write it as yyyy-mm-dd [dates]"]
    );
    assert_eq!(
        found(&replace("2024-02-04", "2023-02-04")),
        ["12:1: warning: `last-updated` 2023-02-04 is before `creation-date` 2024-02-03; correct \
          one of them [dates]"]
    );
}
