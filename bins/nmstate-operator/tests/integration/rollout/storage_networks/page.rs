//! The section about storage networks in the operator's page: its policy, and the edits of it.

use std::fs;
use std::path::Path;

const PAGE: &str = "docs/nmstate-operator.md";
const TITLE: &str = "### A network for storage";

/// What the section shows.
pub(crate) struct Section {
    /// The policy.
    pub(crate) policy: String,
    /// The edits.
    edits: Vec<String>,
}

impl Section {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
        let page = fs::read_to_string(path).unwrap();
        let (_, rest) = page.split_once(TITLE).unwrap_or_else(|| panic!("{PAGE} has no {TITLE}"));
        let section = rest.split_once("\n#").map_or(rest, |(section, _)| section);
        let [policy] = blocks(section, "yaml").try_into().unwrap();
        Self { policy, edits: blocks(section, "diff") }
    }

    /// A policy after the edit that adds a line with this text.
    pub(crate) fn edited(&self, policy: &str, added: &str) -> String {
        let adds =
            |edit: &&String| edit.lines().any(|line| line.starts_with('+') && line.contains(added));
        let edit = self.edits.iter().find(adds).unwrap_or_else(|| panic!("no edit adds {added}"));
        let side = |other: char| -> String {
            let lines = edit.lines().filter(|line| !line.starts_with(other));
            lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect()
        };
        let (old, new) = (side('+'), side('-'));
        assert_eq!(policy.matches(&old).count(), 1, "in the policy once:\n{old}");
        policy.replace(&old, &new)
    }
}

/// The fenced blocks of this language.
fn blocks(section: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let parts = section.split(&fence).skip(1);
    parts.map(|part| part.split_once("```").unwrap().0.to_owned()).collect()
}
