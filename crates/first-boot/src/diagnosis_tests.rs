use node_network::{Message, Observation};

use super::*;
use crate::report::{FindingLine, Restored};

fn report(edit: impl FnOnce(&mut Entry)) -> Report {
    let mut entry = Entry::new(Command::Confirm, "2026-11-16T00:00:00Z".into());
    edit(&mut entry);
    let mut report = Report::new("brex-firstboot 0".into(), "boot".into(), "worker-0".into());
    report.add(entry);
    report
}

fn failing(name: FactName) -> Report {
    report(|entry| {
        entry.result = Ending::TakenBack;
        let fact = Fact { name, holds: false, detail: "x".into() };
        entry.observation = Some(Observation { facts: vec![fact], ..Observation::default() });
    })
}

#[test]
fn each_missing_fact_has_advice_of_its_own() {
    let names = [
        (FactName::Bridge, "journalctl -u nmstate"),
        (FactName::Uplink, "ip link"),
        (FactName::InternalPort, "ports of the bridge"),
        (FactName::Address, "DHCP"),
        (FactName::DefaultRoute, "metric 48"),
        (FactName::NodeAddress, "nodeip-configuration"),
    ];
    for (name, word) in names {
        let diagnoses = diagnose(&failing(name));
        assert_eq!(diagnoses[0].weight, Weight::Broken);
        assert!(diagnoses[0].remedy.contains(word), "{:?}", diagnoses[0]);
    }
}

#[test]
fn a_confirmed_node_is_fine() {
    let diagnoses = diagnose(&report(|entry| entry.result = Ending::Confirmed));
    assert_eq!(diagnoses.len(), 1);
    assert_eq!(diagnoses[0].weight, Weight::Fine);
}

#[test]
fn findings_name_rule_and_place() {
    let diagnoses = diagnose(&report(|entry| {
        entry.result = Ending::Refused;
        entry.findings.push(FindingLine {
            rule: "B3".into(),
            severity: "error".into(),
            line: 7,
            column: 3,
            message: Message::new("x"),
        });
    }));
    assert!(
        diagnoses.iter().any(|one| one.because.contains("rule B3") && one.because.contains(":7:3"))
    );
}

#[test]
fn a_former_network_that_is_not_back_is_said() {
    let diagnoses = diagnose(&report(|entry| {
        entry.result = Ending::TakenBack;
        entry.restored = Some(Restored { not_in_use: vec!["nic0".into()], ..Restored::default() });
    }));
    assert!(diagnoses.iter().any(|one| one.because.contains("not in use again: nic0")));
}

#[test]
fn staging_that_nobody_confirmed_is_a_warning() {
    let diagnoses = diagnose(&report(|entry| {
        entry.command = Command::Stage;
        entry.result = Ending::Staged;
    }));
    assert!(diagnoses.iter().any(|one| one.weight == Weight::Warning));
}
