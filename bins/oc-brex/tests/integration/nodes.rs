//! Changes of nodes that run: what the page about them shows is what `oc-brex plan` writes, and
//! what `oc-brex plan` writes does it.

// A test that cannot continue panics with the reason and its location.
mod bonded;
mod change;
mod doubtful;
mod page;
mod plain;
use crate::support;

use page::Change;
use support::WorkDir;

/// What the tests on nodes prove, each under its title on the page.
const PROVED: [&str; 7] = [
    plain::DNS,
    plain::MTU,
    bonded::VLAN,
    bonded::MIIMON,
    bonded::MODE,
    bonded::QOS,
    plain::FAILED,
];

#[test]
fn the_page_shows_what_plan_prints_and_writes_for_each_change() {
    let changes = page::changes();
    let titles: Vec<&str> = changes.iter().map(|change| change.title.as_str()).collect();
    assert_eq!(titles, PROVED);
    for Change { title, node, old, new, says, policy, .. } in &changes {
        let work_dir = WorkDir::new();
        work_dir.put("old.yml", old).put("new.yml", new);
        let node = format!("{node}.example.com");
        let from = ["plan", "--from", "old.yml", "--to", "new.yml", "--node", &node, "--out", "p"];
        let ended = work_dir.done(&from);
        assert!(ended.out.starts_with(says), "{title}: {}", ended.out);
        assert_eq!(work_dir.text("p/policy.yaml"), *policy, "{title}");
    }
}

/// A document or policy for a node of the lab, whose NICs have other names.
fn for_the_lab(text: &str) -> String {
    text.replace("eno1", "nic0").replace("eno2", "nic1")
}
