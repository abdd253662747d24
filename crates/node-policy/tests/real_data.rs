//! Decisions on real states and policies, and on the cases that nmstate tests itself with.
//!
//! They are not part of this repository; without them these tests are skipped.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use data_tier::data_tier;
use nmstate::NetworkState;
use node_policy::{rendering, report};
use serde_json::Value;

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> NetworkState {
    NetworkState::new_from_yaml(&fs::read_to_string(path).unwrap()).unwrap()
}

fn names(state: &NetworkState) -> BTreeSet<String> {
    state.interfaces.iter().map(|interface| interface.name().to_owned()).collect()
}

#[test]
fn what_nmstate_would_change_differs() {
    let Some(folder) = data_tier("nmstate-golden/gen_diff") else { return };
    let mut cases = 0;
    for case in entries(&folder) {
        let (current, desired) = (read(&case.join("current.yml")), read(&case.join("desired.yml")));
        let wanted = serde_json::to_value(read(&case.join("diff.yml"))).unwrap();
        let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        let changes = wanted.as_object().unwrap().values().any(|value| !is_empty(value));
        assert_eq!(rendering::differs(&desired, &current), Ok(changes), "{}", case.display());
        cases += 1;
    }
    assert!(cases >= 7, "{cases} cases");
}

#[test]
fn captures_find_on_a_node_what_nmstate_finds() {
    let Some(folder) = data_tier("nmstate-golden/policy") else { return };
    let mut cases = 0;
    for case in entries(&folder) {
        let policy = fs::read_to_string(case.join("policy.yml")).unwrap();
        let policy: Value = serde_saphyr::from_str(&policy).unwrap();
        let part = |name: &str| policy.get(name).cloned().unwrap_or_default();
        let desired = match policy.get("desiredState") {
            Some(desired) => desired.clone(),
            None => part("desired"),
        };
        let spec = serde_json::json!({"capture": part("capture"), "desiredState": desired});
        let Ok(spec) = serde_json::from_value(spec) else { continue };
        let current = read(&case.join("current.yml"));
        // One case has a capture that only a cache can fill.
        let Ok(rendered) = rendering::render(&spec, &BTreeMap::new(), &current) else { continue };
        let expected = read(&case.join("expected.yml"));
        let ours = rendered.desired.gen_diff(&current).unwrap();
        assert_eq!(names(&ours), names(&expected), "{}", case.display());
        cases += 1;
    }
    assert!(cases >= 6, "{cases} cases");
}

#[test]
fn reports_of_real_nodes_stay_as_they_are_when_reported_again() {
    let Some(folder) = data_tier("node-network-state") else { return };
    let mut states = 0;
    for path in entries(&folder) {
        let text = fs::read_to_string(&path).unwrap();
        let Ok(object) = serde_saphyr::from_str::<Value>(&text) else { continue };
        let current = object["status"]["currentState"].clone();
        let Ok(state) = serde_json::from_value::<NetworkState>(current) else { continue };
        let once = report::report(&state).unwrap();
        let again = serde_json::from_value::<NetworkState>(once.to_value()).unwrap();
        assert_eq!(report::report(&again).unwrap(), once, "{}", path.display());
        let text = once.to_value().to_string();
        for volatile in ["valid-life-time", "preferred-life-time", "gc-timer", "hello-timer"] {
            assert!(!text.contains(volatile), "{}: {volatile}", path.display());
        }
        states += 1;
    }
    assert!(states >= 1, "{states} states");
}
