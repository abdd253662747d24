//! What a change of a MachineConfig does to a running node, and why.
//!
//! The effect of a changed file is in the cluster's disruption policy: the policy for the longest path that
//! is the file or a folder above it counts. What no policy covers reboots the node, and one such
//! change makes all others reboot it, too.

use std::collections::BTreeMap;
use std::fmt;

use crate::BR_EX_FOLDER;
use crate::difference::Change;

/// What is done on a node for a change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    None,
    Drain,
    DaemonReload,
    Reload(String),
    Restart(String),
    /// The operator decides by the contents whether to drain before it reloads the runtime.
    Special,
    Reboot,
}

/// Which change causes which actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionPolicy {
    pub(crate) files: BTreeMap<String, Vec<Action>>,
    pub(crate) units: BTreeMap<String, Vec<Action>>,
    pub(crate) ssh_keys: Vec<Action>,
}

/// A change, and what it causes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    pub change: Change,
    pub actions: Vec<Action>,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The policy for this path or unit requires it.
    Policy(String),
    /// No policy covers it.
    NoPolicy,
    /// It takes effect at boot only.
    OnlyAtBoot,
    /// It takes effect when a machine is installed, and the operator refuses to change it later.
    OnlyAtInstall,
    /// The operator does it in place.
    InPlace,
}

/// All effects of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    pub effects: Vec<Effect>,
}

/// What happens on each node in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Files are written, and that is all.
    Nothing,
    /// These actions, without a reboot.
    Actions(Vec<Action>),
    Reboot,
    /// The operator refuses, and the pool is degraded until the change is reverted.
    Refused,
}

impl Default for DisruptionPolicy {
    /// What a cluster does by default. Later releases support some more paths.
    fn default() -> Self {
        let crio = || "crio.service".to_owned();
        let reload = || vec![Action::Reload(crio())];
        let files = [
            (BR_EX_FOLDER, vec![Action::None]),
            ("/var/lib/kubelet/config.json", vec![Action::None]),
            ("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", reload()),
            ("/etc/containers/policy.json", reload()),
            ("/etc/containers/registries.d", reload()),
            ("/etc/containers/registries.conf", vec![Action::Special]),
            (
                "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
                vec![
                    Action::Restart("coreos-update-ca-trust.service".to_owned()),
                    Action::Restart(crio()),
                ],
            ),
        ];
        Self {
            files: files.map(|(path, actions)| (path.to_owned(), actions)).into(),
            units: BTreeMap::new(),
            ssh_keys: vec![Action::None],
        }
    }
}

impl DisruptionPolicy {
    /// What these changes do to a node.
    pub fn disruption(&self, changes: &[Change]) -> Disruption {
        Disruption { effects: changes.iter().map(|change| self.effect(change)).collect() }
    }

    fn effect(&self, change: &Change) -> Effect {
        let reboot = |reason| (vec![Action::Reboot], reason);
        let (actions, reason) = match change {
            Change::File { path, .. } => {
                let covering = self.files.iter().filter(|(covered, _)| path.is_within(covered));
                match covering.max_by_key(|(covered, _)| covered.len()) {
                    Some((covered, actions)) => (actions.clone(), Reason::Policy(covered.clone())),
                    None => reboot(Reason::NoPolicy),
                }
            }
            Change::Unit { name } => match self.units.get(name) {
                Some(actions) => (actions.clone(), Reason::Policy(name.clone())),
                None => reboot(Reason::NoPolicy),
            },
            Change::SshKeys => (self.ssh_keys.clone(), Reason::Policy("SSH keys".to_owned())),
            Change::PasswordHash => (vec![Action::None], Reason::InPlace),
            Change::System(_) => reboot(Reason::OnlyAtBoot),
            Change::InstallOnly(_) => (Vec::new(), Reason::OnlyAtInstall),
        };
        Effect { change: change.clone(), actions, reason }
    }
}

impl Disruption {
    pub fn outcome(&self) -> Outcome {
        if self.effects.iter().any(|effect| effect.reason == Reason::OnlyAtInstall) {
            return Outcome::Refused;
        }
        let all = || self.effects.iter().flat_map(|effect| &effect.actions);
        if all().any(|action| *action == Action::Reboot) {
            return Outcome::Reboot;
        }
        let mut actions = Vec::new();
        for action in all().filter(|action| **action != Action::None) {
            if !actions.contains(action) {
                actions.push(action.clone());
            }
        }
        if actions.is_empty() { Outcome::Nothing } else { Outcome::Actions(actions) }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("nothing"),
            Self::Drain => f.write_str("drain"),
            Self::DaemonReload => f.write_str("systemctl daemon-reload"),
            Self::Reload(unit) => write!(f, "reload {unit}"),
            Self::Restart(unit) => write!(f, "restart {unit}"),
            Self::Special => f.write_str("reload crio.service, after a drain if need be"),
            Self::Reboot => f.write_str("reboot"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(covered) => write!(f, "by the disruption policy for {covered}"),
            Self::NoPolicy => f.write_str("no disruption policy covers it"),
            Self::OnlyAtBoot => f.write_str("it takes effect at boot only"),
            Self::OnlyAtInstall => {
                f.write_str("the machine config operator applies it at installation only")
            }
            Self::InPlace => f.write_str("it is changed in place"),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.change)?;
        match self.actions.as_slice() {
            [] => f.write_str("refused")?,
            actions => {
                let actions: Vec<_> = actions.iter().map(ToString::to_string).collect();
                f.write_str(&actions.join(", "))?;
            }
        }
        write!(f, " ({})", self.reason)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("only the files change on running nodes"),
            Self::Actions(actions) => {
                let actions: Vec<_> = actions.iter().map(ToString::to_string).collect();
                write!(f, "no reboot, but on every node: {}", actions.join(", "))
            }
            Self::Reboot => f.write_str("every node of the pool is drained and rebooted"),
            Self::Refused => f.write_str(
                "the machine config operator rejects it, and the pool is degraded until it is \
                 reverted",
            ),
        }
    }
}
