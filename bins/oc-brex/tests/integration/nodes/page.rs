//! The page about changes of running nodes: its edits, and the policies it shows for them.

use std::fs;
use std::path::Path;

/// A change that the page shows.
pub(crate) struct Change {
    pub(crate) title: String,
    /// The node it is for, by its short name.
    pub(crate) node: String,
    /// The document before and after.
    pub(crate) old: String,
    pub(crate) new: String,
    /// The beginning of what `oc-brex plan` prints.
    pub(crate) says: String,
    pub(crate) policy: String,
    /// All of the section.
    pub(crate) text: String,
}

/// The documents of the nodes of the page, among the examples.
const DOCUMENTS: [(&str, &str); 2] =
    [("worker-0", "nic-static.yml"), ("worker-1", "vlan-on-bond-static.yml")];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All changes of the page.
pub(crate) fn changes() -> Vec<Change> {
    let page = read("docs/br-ex-day2.md");
    let sections = page.split("\n## ").filter(|section| section.contains("```diff\n"));
    sections.map(|section| change(&page, section)).collect()
}

/// The change of this title.
pub(crate) fn find(title: &str) -> Change {
    let found = changes().into_iter().find(|change| change.title == title);
    found.unwrap_or_else(|| panic!("the page has no section {title}"))
}

fn change(page: &str, section: &str) -> Change {
    let title = section.lines().next().expect("a title").to_owned();
    let (node, file) = DOCUMENTS
        .into_iter()
        .find(|(node, _)| section.contains(&format!("On `{node}`:\n\n```diff\n")))
        .unwrap_or_else(|| panic!("{title}: a change of no node of the page"));
    let old = read(&format!("examples/br-ex/{file}"));
    let mut edits = blocks(section, "diff").into_iter();
    let edit = edits.next().expect("an edit of the document");
    let new = edited(&old, &edit, &title);
    let mut policy = edited(&complete_policy(page, node), &of_policy(&edit), &title);
    // What a policy needs besides is shown as an edit of its own.
    for further in edits {
        policy = edited(&policy, &further, &title);
    }
    let says = blocks(section, "text").remove(0);
    Change { title, node: node.to_owned(), old, new, says, policy, text: section.to_owned() }
}

/// The policy of a node without any change.
fn complete_policy(page: &str, node: &str) -> String {
    let name = format!("kubernetes.io/hostname: {node}.example.com\n");
    let policies = blocks(page, "yaml").into_iter();
    policies.into_iter().find(|policy| policy.contains(&name)).expect("a policy of the node")
}

/// The edit of a document, as one of the policy: the state is below `desiredState`.
fn of_policy(edit: &str) -> String {
    let line = |line: &str| match line.split_at_checked(1) {
        Some((sign @ (" " | "+" | "-"), rest)) => format!("{sign}    {rest}\n"),
        _ => format!("{line}\n"),
    };
    edit.lines().map(line).collect()
}

/// The fenced blocks of this language.
fn blocks(section: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    let parts = section.split(&start).skip(1);
    let block = |part: &str| part.split_once("```").expect("the end of a block").0.to_owned();
    let blocks: Vec<String> = parts.map(block).collect();
    let title = section.lines().next().unwrap_or_default();
    assert!(!blocks.is_empty(), "{title}: no block {language}");
    blocks
}

/// Makes an edit, given as lines that stay, go and come. Each part of it must be in the document
/// once.
fn edited(document: &str, edit: &str, title: &str) -> String {
    let mut document = document.to_owned();
    for part in edit.split("@@\n") {
        let side = |other: char| -> String {
            let lines = part.lines().filter(|line| !line.starts_with(other));
            lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect()
        };
        let (old, new) = (side('+'), side('-'));
        assert_eq!(document.matches(&old).count(), 1, "{title}: in the document once:\n{old}");
        document = document.replace(&old, &new);
    }
    document
}
