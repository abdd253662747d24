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
        assert_eq!(diagnoses[0].severity, DiagnosisSeverity::Broken);
        assert!(diagnoses[0].remedy.contains(word), "{:?}", diagnoses[0]);
    }
}

#[test]
fn a_confirmed_node_is_fine() {
    let diagnoses = diagnose(&report(|entry| entry.result = Ending::Confirmed));
    assert_eq!(diagnoses.len(), 1);
    assert_eq!(diagnoses[0].severity, DiagnosisSeverity::Fine);
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
fn a_previous_network_that_is_not_restored_is_reported() {
    let diagnoses = diagnose(&report(|entry| {
        entry.result = Ending::TakenBack;
        entry.restored = Some(Restored { not_in_use: vec!["nic0".into()], ..Restored::default() });
    }));
    assert!(diagnoses.iter().any(|one| one.because.contains("not in use again: nic0")));
}

#[test]
fn staging_that_was_not_confirmed_is_a_warning() {
    let diagnoses = diagnose(&report(|entry| {
        entry.command = Command::Stage;
        entry.result = Ending::Staged;
    }));
    assert!(diagnoses.iter().any(|one| one.severity == DiagnosisSeverity::Warning));
}

#[test]
fn a_state_without_br_ex_is_broken_in_every_way_and_a_good_one_in_none() {
    let bad = NetworkState::new_from_yaml("interfaces: [{name: nic0, type: ethernet}]").unwrap();
    assert_eq!(diagnose_state(&bad).len(), 5);
    let good = NetworkState::new_from_yaml(
        "interfaces:
- {name: nic0, type: ethernet, state: up}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: nic0}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface, state: up, ipv4: {enabled: true, address: [{ip: 192.0.2.2, prefix-length: 24}]}}
routes: {running: [{destination: 0.0.0.0/0, next-hop-interface: br-ex, next-hop-address: 192.0.2.1}]}",
    );
    assert_eq!(diagnose_state(&good.unwrap()), []);
}

#[test]
fn a_flag_is_judged_by_what_it_holds() {
    let hash = DocumentHash::of(b"new");
    let document = ("worker-0.yml", &hash);
    let problem = |flag: Option<&[u8]>, document| {
        let flag = flag.map(DocumentHash::of);
        diagnose_flag(flag.as_ref(), document).map(|d| d.problem)
    };
    assert_eq!(problem(Some(b"new"), Some(document)), None);
    assert_eq!(problem(None, None), None);
    assert!(problem(Some(b""), None).unwrap().contains("empty"));
    assert!(problem(Some(b"old"), Some(document)).unwrap().contains("was changed"));
    assert!(problem(None, Some(document)).unwrap().contains("was not configured"));
}
