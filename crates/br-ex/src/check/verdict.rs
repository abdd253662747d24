//! N1: nmstate's own verdict.
//!
//! It runs last, and only if our rules found no error: nmstate stops at the first
//! problem and does not report its location.

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
        let message = error.msg().split_whitespace().collect::<Vec<_>>().join(" ");
        found.report(RuleId::N1, place(&layout, &message), format!("nmstate reports: {message}"));
    }
}

/// The interface that the message names, or else the start.
fn place(layout: &Layout<'_>, message: &str) -> Position {
    let words: Vec<&str> = message.split(|c: char| c.is_whitespace() || c == ',').collect();
    let named = layout.interfaces.iter().find(|iface| words.contains(&iface.name.value));
    named.map_or(layout.node.at, |iface| iface.at())
}
