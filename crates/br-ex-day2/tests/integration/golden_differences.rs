//! Our comparison beside nmstate's own, on the cases that nmstate tests its own with.
//!
//! They are not part of this repository; without them these tests are skipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use br_ex_day2::{Basis, State, Subject, differences};
use data_tier::data_tier;
use nmstate::NetworkState;
use serde_json::Value;

fn read(path: &Path) -> NetworkState {
    NetworkState::new_from_yaml(&fs::read_to_string(path).expect("a state")).expect("a state")
}

#[test]
fn what_nmstate_reports_as_different_differs_and_nothing_else() {
    let Some(folder) = data_tier("nmstate-golden/gen_diff") else { return };
    let mut cases = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let case = entry.unwrap().path();
        let current = State::new(&read(&case.join("current.yml")), Basis::Node).unwrap();
        let desired = State::new(&read(&case.join("desired.yml")), Basis::Document).unwrap();
        let ours: BTreeSet<String> = differences(&current, &desired)
            .into_iter()
            .map(|difference| match difference.subject {
                Subject::Interface { name, .. } => name,
                Subject::Route(_) => "routes".to_owned(),
                Subject::Dns => "dns-resolver".to_owned(),
                Subject::Section(name) => name,
            })
            .collect();
        let theirs = serde_json::to_value(read(&case.join("diff.yml"))).unwrap();
        let mut expected = BTreeSet::new();
        for (section, value) in theirs.as_object().unwrap() {
            match (section.as_str(), value) {
                ("interfaces", Value::Array(list)) => {
                    expected.extend(list.iter().map(|it| it["name"].as_str().unwrap().to_owned()));
                }
                _ => {
                    expected.insert(section.clone());
                }
            }
        }
        assert_eq!(ours, expected, "{}", case.display());
        cases += 1;
    }
    assert!(cases >= 7, "{cases} cases");
}
