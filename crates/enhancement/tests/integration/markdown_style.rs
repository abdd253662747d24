//! The style rules find what markdownlint finds: `tests/markdown/expected.txt`
//! was written by it, see `expected.js` there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use enhancement::{Document, Group, Rule, Surroundings, Target};

struct Everything;

impl Surroundings for Everything {
    fn find(&self, _: &str) -> Target {
        Target::Present
    }
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/markdown"))
}

fn expected() -> Vec<String> {
    let text = fs::read_to_string(folder().join("expected.txt")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_document_is_judged_as_markdownlint_judges_it() {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    let mut found = Vec::new();
    for name in names {
        let text = fs::read_to_string(folder().join(&name)).unwrap();
        let mut keys: Vec<(usize, &str)> = Document::parse(&name, text)
            .findings(&Everything)
            .iter()
            .filter(|finding| finding.rule.group() == Group::Markdown)
            .map(|finding| (finding.at.line, finding.rule.id()))
            .collect();
        keys.sort_unstable();
        found.extend(keys.into_iter().map(|(line, rule)| format!("{name}:{line} {rule}")));
    }
    assert_eq!(found, expected());
}

#[test]
fn every_style_rule_is_broken_somewhere_in_the_documents() {
    let expected = expected();
    let broken: BTreeSet<&str> =
        expected.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    let rules: BTreeSet<&str> = Rule::ALL
        .into_iter()
        .filter(|rule| rule.group() == Group::Markdown)
        .map(Rule::id)
        .collect();
    assert_eq!(broken, rules);
}
