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
    sections.map(change).collect()
}

/// The change of this title.
pub(crate) fn find(title: &str) -> Change {
    let found = changes().into_iter().find(|change| change.title == title);
    found.unwrap_or_else(|| panic!("the page has no section {title}"))
}

fn change(section: &str) -> Change {
    let title = section.lines().next().expect("a title").to_owned();
    let policy = block(section, "yaml");
    let (node, file) = DOCUMENTS
        .into_iter()
        .find(|(node, _)| policy.contains(&format!("kubernetes.io/hostname: {node}.example.com\n")))
        .unwrap_or_else(|| panic!("{title}: a policy for no node of the page"));
    let old = read(&format!("examples/br-ex/{file}"));
    let new = edited(&old, &block(section, "diff"), &title);
    let says = block(section, "text");
    Change { title, node: node.to_owned(), old, new, says, policy, text: section.to_owned() }
}

/// The fenced block of this language.
fn block(section: &str, language: &str) -> String {
    let (_, rest) = section.split_once(&format!("```{language}\n")).unwrap_or_else(|| {
        panic!("{}: no block {language}", section.lines().next().unwrap_or_default())
    });
    rest.split_once("```").expect("the end of a block").0.to_owned()
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
