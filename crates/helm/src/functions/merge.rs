//! Merging of maps as Sprig's `merge` and `mergeOverwrite` do it: the destination is changed.

use go_template::{Budget, FunctionError, Kind, Map, Value};

/// Maps nested deeper are not merged: they may contain themselves.
const MAX_DEPTH: usize = 256;

/// Whether values that the destination has are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Keep,
    Overwrite,
}

pub(super) fn merge(
    destination: &Map,
    source: &Map,
    policy: Policy,
    depth: usize,
    budget: &mut Budget,
) -> Result<(), FunctionError> {
    if depth > MAX_DEPTH {
        return Err("the maps are nested too deep to be merged".into());
    }
    // A copy of the entries: source and destination may be the same map.
    let entries: Vec<(String, Value)> =
        source.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let overwrite = policy == Policy::Overwrite;
    for (key, value) in entries {
        budget.spend(1)?;
        let existing = destination.borrow().get(&key).cloned();
        if value.is_nil() {
            if overwrite {
                destination.borrow_mut().insert(key, Value::Nil);
            }
            continue;
        }
        if let (Some(into), Some(from)) =
            (existing.as_ref().and_then(Value::as_map), value.as_map())
        {
            merge(&into, &from, policy, depth + 1, budget)?;
            // An empty map stays empty only if the source has nothing to give.
            if !into.borrow().is_empty() {
                continue;
            }
        }
        let is_empty = existing.as_ref().is_none_or(|existing| !existing.is_true());
        if value.kind() == Kind::Slice && !is_empty {
            if overwrite {
                destination.borrow_mut().insert(key, value);
            }
            continue;
        }
        if overwrite || is_empty {
            destination.borrow_mut().insert(key, value);
        }
    }
    Ok(())
}
