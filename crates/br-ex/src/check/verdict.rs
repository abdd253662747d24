//! N1: nmstate's own verdict.
//!
//! It is asked last and only where our rules found no error: it stops at the first
//! thing it does not like and cannot say where that is.

use located_yaml::Position;
use nmstate::NetworkState;

use crate::cluster_facts::ClusterFacts;
use crate::current;
use crate::document::Document;
use crate::finding::Findings;
use crate::layout::Layout;
use crate::rule::RuleId;

pub(super) fn check(
    document: &Document,
    state: &NetworkState,
    around: &ClusterFacts,
    found: &mut Findings,
) {
    let Some(layout) = document.layout() else { return };
    let verdict = match &around.current {
        Some(current) => state.validate(Some(current)),
        None => current::made_up(&layout).and_then(|current| state.validate(Some(&current))),
    };
    if let Err(error) = verdict {
        let said = error.msg().split_whitespace().collect::<Vec<_>>().join(" ");
        found.report(RuleId::N1, place(&layout, &said), format!("nmstate reports: {said}"));
    }
}

/// The interface that is named in what was said, or else the start.
fn place(layout: &Layout<'_>, said: &str) -> Position {
    let words: Vec<&str> = said.split(|c: char| c.is_whitespace() || c == ',').collect();
    let named = layout.interfaces.iter().find(|iface| words.contains(&iface.name.value));
    named.map_or(layout.node.at, |iface| iface.at())
}
