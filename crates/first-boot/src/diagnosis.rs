//! What a report means, and what to do about it.

use serde::Serialize;

use crate::document_hash::DocumentHash;
use crate::report::{Command, Ending, Entry, Report};
use node_network::facts::{Expectation, Fact, FactName};
use node_network::{Cause, NetworkState, Outcome, Recovery};

/// One problem, or useful information.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    // The key that scripts read.
    #[serde(rename = "weight")]
    pub severity: DiagnosisSeverity,
    /// What is wrong.
    pub problem: String,
    /// How it is known.
    pub because: String,
    /// What to do.
    pub remedy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiagnosisSeverity {
    /// The node does not have the network of its document.
    Broken,
    /// It has, but a problem is expected later.
    Warning,
    /// Nothing is wrong.
    Fine,
}

impl DiagnosisSeverity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Warning => "warning",
            Self::Fine => "fine",
        }
    }
}

/// Diagnoses from the report of a boot. Never empty.
pub fn diagnose(report: &Report) -> Vec<Diagnosis> {
    let Some(last) = report.last() else {
        return vec![Diagnosis {
            severity: DiagnosisSeverity::Warning,
            problem: "the report is empty".into(),
            because: format!("no command has ended in boot {}", report.boot_id),
            remedy: "check `systemctl status 'brex-firstboot-*'` on the node".into(),
        }];
    };
    let mut all = vec![about(last)];
    all.extend(staged_but_not_confirmed(report, last));
    all.extend(findings(report));
    all.extend(not_restored(last));
    all
}

/// Diagnoses from a state of the node. Empty if br-ex is correct.
pub fn diagnose_state(state: &NetworkState) -> Vec<Diagnosis> {
    let expectation = Expectation { bridge: "br-ex".into(), ..Expectation::default() };
    let failed = expectation.check(state).into_iter().filter(|fact| !fact.holds);
    let diagnosis = |fact: Fact| Diagnosis {
        severity: DiagnosisSeverity::Broken,
        problem: fact.detail.to_string(),
        because: "the network state of the node shows it".into(),
        remedy: fact_remedy(fact.name).into(),
    };
    failed.map(diagnosis).collect()
}

/// Compares the flag with the document that it should contain. Both are absent on a node whose
/// bridge configure-ovs creates. The flag is given by its hash.
pub fn diagnose_flag(
    flag: Option<&DocumentHash>,
    document: Option<(&str, &DocumentHash)>,
) -> Option<Diagnosis> {
    let warning = |problem: String, remedy: &str| Diagnosis {
        severity: DiagnosisSeverity::Warning,
        problem,
        because: "/etc/nmstate/openshift/applied on the node shows it".into(),
        remedy: remedy.into(),
    };
    match (flag, document) {
        (Some(flag), _) if *flag == DocumentHash::of(b"") => Some(warning(
            "the flag is empty: an older nmstate-configuration set it before anything was applied"
                .into(),
            "an upgraded node may delete br-ex and stage its document again; adopt the bridge with `oc-brex adopt`",
        )),
        (Some(flag), Some((file, document))) if flag != document => Some(warning(
            format!("{file} was changed after br-ex was configured from it"),
            "nmstate-configuration.service applies the changed document at the next reboot and undoes later policies; brex-firstboot does not. Bring both together with `oc-brex plan`",
        )),
        (None, Some((file, _))) => Some(warning(
            format!("br-ex was not configured from {file}: the flag is not set"),
            "the reports in /var/log/brex-firstboot state why; configure-ovs created the bridge",
        )),
        _ => None,
    }
}

fn about(entry: &Entry) -> Diagnosis {
    let because = format!("{}: {}", entry.command.name(), entry.message);
    let broken = |problem: &str, remedy: String| Diagnosis {
        severity: DiagnosisSeverity::Broken,
        problem: problem.into(),
        because: because.clone(),
        remedy,
    };
    match entry.result {
        Ending::Confirmed | Ending::NothingToDo => Diagnosis {
            severity: DiagnosisSeverity::Fine,
            problem: "br-ex is as the document has it".into(),
            because,
            remedy: "nothing to do; later changes are made by NodeNetworkConfigurationPolicies".into(),
        },
        Ending::Staged | Ending::AlreadyStaged => Diagnosis {
            severity: DiagnosisSeverity::Fine,
            problem: "a document is staged".into(),
            because,
            remedy: "nmstate.service applies it, brex-firstboot-confirm.service confirms it".into(),
        },
        Ending::NoDocument => Diagnosis {
            severity: DiagnosisSeverity::Warning,
            problem: "configure-ovs created br-ex; no document is for this node".into(),
            because,
            remedy: "add `<short host name>.yml` or `cluster.yml` to the MachineConfig of the node's role before the node is installed; `oc-brex render` makes it".into(),
        },
        Ending::Refused => broken(
            "the document was rejected; configure-ovs created br-ex",
            "correct the document, check it with `oc-brex check`, render the MachineConfig again; the node takes it at its next boot".into(),
        ),
        Ending::GaveUp => broken(
            "the document reached the maximum number of attempts; it is not retried",
            "correct the document: a changed one is applied at the next boot. To try the same one again, remove /var/lib/brex-firstboot/tries.json on the node and reboot".into(),
        ),
        Ending::TakenBack => broken("br-ex did not come up; the node has its previous network", remedy(entry)),
        Ending::Recovered => Diagnosis {
            severity: DiagnosisSeverity::Warning,
            problem: "the node lost power or crashed while br-ex was configured".into(),
            because,
            remedy: "the previous network was restored; the document is retried at this boot".into(),
        },
        Ending::Failed => broken(
            "brex-firstboot failed",
            "correct the cause in the message, then reboot or run `brex-firstboot stage` again".into(),
        ),
    }
}

/// What to do when br-ex did not come up: by what was observed.
fn remedy(entry: &Entry) -> String {
    let observation = match &entry.outcome {
        Some(Outcome::RolledBack { cause: Cause::Apply | Cause::Verification, .. }) => {
            return "read the message of nmstate; most often a name, an MTU or a MAC in the document does not fit this machine".into();
        }
        Some(Outcome::RolledBack { after, .. }) => Some(after),
        _ => entry.observation.as_ref(),
    };
    let Some(observation) = observation else {
        return "read the journal of nmstate.service and NetworkManager.service".into();
    };
    let failed = |name: FactName| {
        observation.facts.iter().any(|fact: &Fact| fact.name == name && !fact.holds)
    };
    // The first that fails explains the others.
    let first = IN_ORDER.into_iter().find(|name| failed(*name));
    let silent = "bridge and addresses are correct, but neither the API server nor the gateway responds: check the cable, the switch port (VLAN, port security, LACP) and the gateway's address";
    first.map_or(silent, fact_remedy).to_owned()
}

const IN_ORDER: [FactName; 8] = [
    FactName::Bridge,
    FactName::Uplink,
    FactName::InternalPort,
    FactName::Address,
    FactName::DocumentAddresses,
    FactName::DefaultRoute,
    FactName::DocumentRoutes,
    FactName::NodeAddress,
];

fn fact_remedy(name: FactName) -> &'static str {
    match name {
        FactName::Bridge => {
            "nmstate did not apply the document: its journal (`journalctl -u nmstate`) contains the reason"
        }
        FactName::Uplink => {
            "the bridge has no uplink: compare the port's name in the document with `ip link`; a name that does not exist becomes an internal port without an error"
        }
        FactName::InternalPort => {
            "add `br-ex` to the ports of the bridge, and an ovs-interface of that name"
        }
        FactName::Address => {
            "br-ex got no address of a family that the document enables: is there a DHCP server or router advertisements on the uplink's network (VLAN?), and does the server know this MAC? `copy-mac-from` keeps the lease of the NIC; `wait-ip` states which families are required"
        }
        FactName::DocumentAddresses => {
            "br-ex does not have the static addresses of the document: `journalctl -u nmstate` states whether the document was applied, and another host may have the same address (duplicate address detection)"
        }
        FactName::DocumentRoutes => {
            "the static routes of the document are missing: their gateways must be in a network of br-ex, or be reachable by another route"
        }
        FactName::DefaultRoute => {
            "make br-ex the preferred default route: metric 48, and `state: absent` or a higher metric for the route that is left on another interface"
        }
        FactName::NodeAddress => {
            "give br-ex the address that the node had before, or make nodeip-configuration choose the new one (machineNetwork, or NODEIP_HINT)"
        }
    }
}

fn staged_but_not_confirmed(report: &Report, last: &Entry) -> Option<Diagnosis> {
    let waiting = matches!(last.result, Ending::Staged | Ending::AlreadyStaged)
        && last.command == Command::Stage;
    waiting.then(|| Diagnosis {
        severity: DiagnosisSeverity::Warning,
        problem: "the staged document was not confirmed in this boot".into(),
        because: format!("the last entry of boot {} is that of `stage`", report.boot_id),
        remedy: "if the boot is over: is brex-firstboot-confirm.service enabled, and did nmstate.service end? Until it is confirmed, every boot takes the change back and tries again".into(),
    })
}

fn findings(report: &Report) -> Vec<Diagnosis> {
    let Some(checked) = report.entries.iter().rev().find(|entry| !entry.findings.is_empty()) else {
        return Vec::new();
    };
    let file = checked.document.as_ref().map_or("the document", |chosen| chosen.file.as_str());
    let diagnosis = |finding: &crate::report::FindingLine| Diagnosis {
        severity: if finding.severity == "error" {
            DiagnosisSeverity::Broken
        } else {
            DiagnosisSeverity::Warning
        },
        problem: finding.message.to_string(),
        because: format!("rule {} at {file}:{}:{}", finding.rule, finding.line, finding.column),
        remedy: format!("`oc-brex check {file}` explains the rule and the remedy"),
    };
    checked.findings.iter().filter(|finding| finding.severity != "info").map(diagnosis).collect()
}

fn not_restored(entry: &Entry) -> Option<Diagnosis> {
    let restored = entry.restored.as_ref();
    let left = restored.map(|restored| restored.not_in_use.as_slice()).unwrap_or_default();
    let problem = restored.and_then(|restored| restored.problem.as_ref());
    let outcome = match &entry.outcome {
        Some(Outcome::RolledBack {
            recovery: Recovery::Differs { message, .. } | Recovery::Pending { message },
            ..
        }) => Some(message),
        _ => None,
    };
    if left.is_empty() && problem.is_none() && outcome.is_none() {
        return None;
    }
    let because = [
        (!left.is_empty()).then(|| format!("not in use again: {}", left.join(", "))),
        problem.map(ToString::to_string),
        outcome.map(ToString::to_string),
    ];
    Some(Diagnosis {
        severity: DiagnosisSeverity::Broken,
        problem: "the previous network may not be completely restored".into(),
        because: because.into_iter().flatten().collect::<Vec<_>>().join("; "),
        remedy:
            "the profiles on the disk are the previous ones: a reboot restores the previous network"
                .into(),
    })
}

#[cfg(test)]
#[path = "diagnosis_tests.rs"]
mod tests;
