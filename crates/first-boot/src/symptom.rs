//! What lines of journals mean: those of nmstate, NetworkManager and Open vSwitch that explain why
//! a bridge did not come up.

use crate::diagnosis::{Diagnosis, DiagnosisSeverity};

/// A line that contains all of `marks` means `problem`.
struct Symptom {
    marks: &'static [&'static str],
    problem: &'static str,
    remedy: &'static str,
}

const SYMPTOMS: [Symptom; 7] = [
    Symptom {
        marks: &["VerificationError"],
        problem: "nmstate applied the change and rolled it back: the result differs from the document",
        remedy: "compare the document with what the line names; `oc-brex check --nns` tries it against the state of the node",
    },
    Symptom {
        marks: &["NmstateError", "InvalidArgument"],
        problem: "nmstate rejected the document",
        remedy: "correct what the line names; `oc-brex check` finds it before the node boots",
    },
    Symptom {
        marks: &["InvalidArgument:"],
        problem: "nmstate rejected the document",
        remedy: "correct what the line names; `oc-brex check` finds it before the node boots",
    },
    Symptom {
        marks: &["could not open network device", "No such device"],
        problem: "the document names an interface that this machine does not have",
        remedy: "compare the names of ports with `ip link` of the node",
    },
    Symptom {
        marks: &["(br-ex)", "ip-config-unavailable"],
        problem: "br-ex got no address",
        remedy: "is there a DHCP server on the uplink's network (VLAN?), and does it know this MAC? `copy-mac-from` keeps the lease of the NIC",
    },
    Symptom {
        marks: &["MissingPlugin", "ovs"],
        problem: "NetworkManager has no plugin for Open vSwitch",
        remedy: "install NetworkManager-ovs in the image of the node",
    },
    Symptom {
        marks: &["not able to connect OVS daemon"],
        problem: "Open vSwitch did not run when the document was applied",
        remedy: "read the journal of openvswitch.service; it must be up before nmstate.service",
    },
];

/// What a journal shows, each thing once, with the last line that shows it.
pub fn symptoms(journal: &str, text: &str) -> Vec<Diagnosis> {
    let found = SYMPTOMS.iter().filter_map(|symptom| {
        let line =
            text.lines().rev().find(|line| symptom.marks.iter().all(|m| line.contains(m)))?;
        Some((symptom, line))
    });
    let mut seen: Vec<Diagnosis> = Vec::new();
    for (symptom, line) in found {
        if !seen.iter().any(|one| one.problem == symptom.problem) {
            seen.push(Diagnosis {
                severity: DiagnosisSeverity::Warning,
                problem: symptom.problem.into(),
                because: format!("{journal}: {}", node_network::Message::new(line.trim())),
                remedy: symptom.remedy.into(),
            });
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are as Open vSwitch 4.0 and nmstate 2.2.62 write them.
    #[test]
    fn lines_of_journals_are_understood_once_each() {
        let text = "\
2026-11-16T02:28:39.470Z|00036|bridge|WARN|could not open network device nic7 (No such device)
2026-11-16T02:28:40.470Z|00037|bridge|WARN|could not open network device nic7 (No such device)
[2026-11-16T02:28:41Z ERROR nmstatectl] VerificationError: Verification failure: br-ex.interface
all is well\n";
        let found = symptoms("nmstate.log", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].because.contains("02:28:40"), "{found:?}");
        assert!(symptoms("x.log", "all is well\n").is_empty());
    }
}
