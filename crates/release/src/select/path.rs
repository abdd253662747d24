//! The shortest path between two releases.

use std::collections::{BTreeMap, VecDeque};

use crate::graph::Graph;

/// The places on a shortest path from `from` to `to` over listed updates, both
/// included. Among paths of the same length, the one that goes to the newer
/// release first.
pub(crate) fn shortest_listed_path(graph: &Graph, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut came_from = BTreeMap::from([(from, from)]);
    let mut queue = VecDeque::from([from]);
    while let Some(place) = queue.pop_front() {
        if place == to {
            break;
        }
        for update in graph.updates(place).rev().filter(|update| update.is_listed()) {
            came_from.entry(update.to).or_insert_with(|| {
                queue.push_back(update.to);
                place
            });
        }
    }
    let mut path = vec![to];
    let mut place = to;
    while place != from {
        place = *came_from.get(&place)?;
        path.push(place);
    }
    path.reverse();
    Some(path)
}
