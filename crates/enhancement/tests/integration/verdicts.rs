//! What the community's linter says of metadata. The verdicts were compared
//! with a reading of its rules on top of Go's own YAML library.

use enhancement::{Document, Finding, Group, Surroundings, Target, Verdict};

struct Everything;

impl Surroundings for Everything {
    fn find(&self, _: &str) -> Target {
        Target::Present
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
    Document::parse("a-good-one.md", text.to_owned()).findings(&Everything)
}

/// `GOOD` with one part replaced.
#[track_caller]
fn edited(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from:?}");
    GOOD.replace(from, to)
}

#[track_caller]
fn assert_passes(text: &str) {
    let findings = findings(text);
    assert!(Verdict::of(&findings).metadata, "{text}\n{findings:#?}");
}

/// What is said of the metadata.
#[track_caller]
fn assert_fails(text: &str, wanted: &[&str]) {
    let findings = findings(text);
    assert!(!Verdict::of(&findings).metadata, "{text}");
    let said: Vec<String> = findings
        .iter()
        .filter(|finding| finding.rule.group() == Group::Metadata)
        .map(ToString::to_string)
        .collect();
    assert_eq!(said, wanted, "{text}");
}

const MISSING_PEOPLE: &str = "error: `authors` names nobody; name who writes the document";

#[test]
fn good_metadata_pass_however_they_are_written() {
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
        // The rest is cut off, and was not needed.
        ("X-1\n---", "X-1\n# ---- the end\nmore: 1\n---"),
    ] {
        assert_passes(&edited(from, to));
    }
}

#[test]
fn metadata_that_cannot_be_found_are_asked_for() {
    assert_fails(
        "# A good one\n",
        &[
            "1:1: error: there is no metadata; start the document with a line `---`, the metadata as \
           YAML, and another line `---` [front-matter]",
        ],
    );
    assert_fails(
        "---\ntitle: a-good-one\n",
        &[
            "1:1: error: this `---` begins the metadata, and none ends it; write a line `---` behind \
           the metadata [front-matter]",
        ],
    );
}

#[test]
fn three_dashes_end_the_metadata_wherever_they_are() {
    let text = edited("title: a-good-one", "title: a-good-one # --- see below");
    let found = findings(&text);
    assert!(!Verdict::of(&found).metadata);
    let said: Vec<String> = found.iter().take(2).map(ToString::to_string).collect();
    assert_eq!(
        said[0],
        "2:21: error: `tracking-link` has no address; link the ticket or epic that tracks the work \
         [metadata-tracking-link]"
    );
    let why = "2:21: warning: the metadata end here, inside a line, because the community's linter \
               cuts the document at every `---`; write the line without three dashes in a row \
               [front-matter-place]";
    assert!(found.iter().any(|finding| finding.to_string() == why), "{found:#?}");
}

#[test]
fn text_before_the_metadata_is_a_warning_only() {
    let found = findings(&format!("Words before.\n\n{GOOD}"));
    let due = "1:1: warning: text stands before the metadata; move it below them, as metadata that \
               are not at the top are shown as text [front-matter-place]";
    assert!(found.iter().any(|finding| finding.to_string() == due), "{found:#?}");
    assert!(Verdict::of(&found).metadata);
}

#[test]
fn what_is_no_yaml_of_the_right_shape_fails() {
    let quotes = "error: not valid YAML: a text cannot begin with `@`; put the text in quotes, for \
                  example \"@name\" [metadata-yaml]";
    assert_fails(&edited("\"@ann\"", "@ann"), &[&format!("4:5: {quotes}")]);
    assert_fails(
        &GOOD.replace("\"@ann\"", "@ann").replace("\"@eve\"", "@eve"),
        &[&format!("4:5: {quotes}"), &format!("8:5: {quotes}")],
    );
    for (from, to, wanted) in [
        (
            "authors:\n",
            "title: a-good-one\nauthors:\n",
            "3:1: error: `title` is given twice, first on line 2; keep one [metadata-yaml]",
        ),
        (
            "creation-date: 2024-02-03\n",
            "x: 1\nx: 2\n",
            "12:1: error: `x` is given twice, first on line 11; keep one [metadata-yaml]",
        ),
        (
            "authors:\n  - \"@ann\"",
            "authors: \"@ann\"",
            "3:10: error: `authors` must be a list; write each entry on a line `  - …` \
             [metadata-yaml]",
        ),
        (
            "\"@bob, for the network\"",
            "TODO: somebody",
            "6:5: error: an entry of `reviewers` must be a text; put it in quotes when it has a \
             colon or a bracket [metadata-yaml]",
        ),
        (
            "title: a-good-one",
            "title: [a-good-one]",
            "2:8: error: `title` must be a text; write `title: a-good-one` [metadata-yaml]",
        ),
    ] {
        assert_fails(&edited(from, to), &[wanted]);
    }
    let text = edited("  - \"@ann\"", "  - [unfinished");
    assert!(!Verdict::of(&findings(&text)).metadata);
    assert!(findings(&text)[0].to_string().contains("error: not valid YAML: "));
}

#[test]
fn the_title_is_the_name_of_the_file() {
    assert_fails(
        &edited("title: a-good-one", "title: A good one"),
        &["2:8: error: the title is \"A good one\" and the file is a-good-one.md; write `title: \
           a-good-one`, or rename the file [metadata-title]"],
    );
    let none = "error: there is no title; write `title: a-good-one`, as the file is named \
                [metadata-title]";
    assert_fails(&edited("title: a-good-one", "title:"), &[&format!("2:1: {none}")]);
    assert_fails(&edited("title: a-good-one\n", ""), &[&format!("14:1: {none}")]);
}

#[test]
fn people_and_links_are_named() {
    for (from, to, wanted) in [
        ("authors:\n  - \"@ann\"", "authors:", format!("3:1: {MISSING_PEOPLE} [metadata-people]")),
        ("authors:\n  - \"@ann\"\n", "", format!("13:1: {MISSING_PEOPLE} [metadata-people]")),
        ("\"@ann\"", "", format!("3:1: {MISSING_PEOPLE} [metadata-people]")),
        (
            "\"@ann\"",
            "TBD",
            "4:5: error: `authors` is still TBD; name who writes the document [metadata-people]"
                .to_owned(),
        ),
        (
            "\"@eve\"",
            "\"@eve\"\n  - TBD",
            "9:5: error: `approvers` is still TBD; name one person who decides [metadata-people]"
                .to_owned(),
        ),
        (
            "None",
            "''",
            "10:5: error: `api-approvers` has an empty entry; name who approves the change of the \
             API, or write None when there is none [metadata-people]"
                .to_owned(),
        ),
        (
            "https://issues.example.com/browse/X-1",
            "TBD",
            "14:5: error: `tracking-link` is still TBD; link the ticket or epic that tracks the \
             work [metadata-tracking-link]"
                .to_owned(),
        ),
        (
            "https://issues.example.com/browse/X-1",
            "None",
            "14:5: error: `tracking-link` has \"None\", which is no address: it has no scheme such \
             as https://; link the ticket or epic that tracks the work [metadata-tracking-link]"
                .to_owned(),
        ),
        (
            "tracking-link:\n  - https://issues.example.com/browse/X-1\n",
            "",
            "13:1: error: `tracking-link` has no address; link the ticket or epic that tracks the \
             work [metadata-tracking-link]"
                .to_owned(),
        ),
    ] {
        assert_fails(&edited(from, to), &[&wanted]);
    }
}

#[test]
fn dates_are_looked_at_with_a_warning() {
    let found = |text: &str| -> Vec<String> {
        let dates = |finding: &&Finding| finding.rule == enhancement::Rule::Dates;
        findings(text).iter().filter(dates).map(ToString::to_string).collect()
    };
    assert!(found(GOOD).is_empty());
    assert_eq!(
        found(&edited("2024-02-03", "03.02.2024")),
        ["11:16: warning: `creation-date` is no day; write it as yyyy-mm-dd [dates]"]
    );
    assert_eq!(
        found(&edited("2024-02-04", "2023-02-04")),
        ["12:1: warning: `last-updated` 2023-02-04 is before `creation-date` 2024-02-03; correct \
          one of them [dates]"]
    );
}
