//! The Markdown rules have the findings of markdownlint, which has written
//! `markdown/expected.txt`; see `expected.js` there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use enhancement::{Document, Group, LinkResolver, LinkTarget, Rule, TemplateSentences};

struct AllLinksResolve;

impl LinkResolver for AllLinksResolve {
    fn resolve(&self, _: &str) -> LinkTarget {
        LinkTarget::Present
    }
}

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/markdown"))
}

fn expected() -> Vec<String> {
    let text = fs::read_to_string(directory().join("expected.txt")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_findings_are_those_of_markdownlint() {
    let mut names: Vec<String> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    let mut found = Vec::new();
    for name in names {
        let text = fs::read_to_string(directory().join(&name)).unwrap();
        let mut keys: Vec<(usize, &str)> = Document::parse(&name, text)
            .findings(&AllLinksResolve, &TemplateSentences::default())
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
fn every_markdown_rule_is_violated_in_the_documents() {
    let expected = expected();
    let violated: BTreeSet<&str> =
        expected.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    let rules: BTreeSet<&str> = Rule::ALL
        .into_iter()
        .filter(|rule| rule.group() == Group::Markdown)
        .map(Rule::id)
        .collect();
    assert_eq!(violated, rules);
}
