//! The programs that are released.

use anyhow::{Context, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// For package managers: a few sentences.
    pub(crate) description: &'static str,
    /// The profile of cargo.
    pub(crate) profile: &'static str,
    /// Whether the package includes the units in `deploy/systemd` that begin with its name.
    pub(crate) has_units: bool,
    /// The name below `oc` and `kubectl`, if it is a plugin.
    pub(crate) plugin: Option<&'static str>,
}

pub(crate) const PROGRAMS: [Program; 6] = [
    Program {
        name: "oc-mirror",
        summary: "Mirror OpenShift content to disk and into registries",
        description: "Mirrors OpenShift releases, operator catalogs, Helm charts and images to disk \
                      and into a registry, for sites without internet access. Accepts the \
                      configuration files and flags of oc-mirror v2.",
        profile: "release",
        has_units: false,
        plugin: Some("mirror"),
    },
    Program {
        name: "oc-brex",
        summary: "Write, check and change the br-ex bridge of OpenShift nodes",
        description: "Writes, checks, packages and changes the NMState documents that define the \
                      br-ex bridge of OpenShift nodes.",
        profile: "release",
        has_units: false,
        plugin: Some("brex"),
    },
    Program {
        name: "brex-firstboot",
        summary: "Configure br-ex at the first boot of an OpenShift node",
        description: "Configures the br-ex bridge of a node at first boot from an NMState document, \
                      verifies it, and rolls back on failure. No unit is enabled by the package: \
                      the MachineConfig of `oc-brex render --service` enables them.",
        profile: "node",
        has_units: true,
        plugin: None,
    },
    Program {
        name: "brex-report",
        summary: "Report the result of a node's first boot to the cluster",
        description: "Writes how the br-ex bridge of a node was configured at first boot to its \
                      Node object: an annotation and an event. No unit is enabled by the package: \
                      the MachineConfig of `oc-brex render --service` enables it.",
        profile: "node",
        has_units: true,
        plugin: None,
    },
    Program {
        name: "nmstate-operator",
        summary: "Apply node network policies in OpenShift clusters",
        description: "The operator, coordinator and handlers for NodeNetworkConfigurationPolicies. \
                      In a cluster they run from the container image; this package is for builders \
                      of release payloads, who need the command `manifests`.",
        profile: "release",
        has_units: false,
        plugin: None,
    },
    Program {
        name: "enhance",
        summary: "Create and lint OpenShift enhancement documents",
        description: "Creates, lints and reports enhancement documents in the form that the \
                      OpenShift community uses.",
        profile: "release",
        has_units: false,
        plugin: None,
    },
];

/// The program with this name, the value of `option`.
pub(crate) fn find(option: &str, name: &str) -> Result<Program> {
    let found = PROGRAMS.into_iter().find(|program| program.name == name);
    found.with_context(|| {
        let names = PROGRAMS.map(|program| program.name).join(", ");
        format!("invalid value for {option}: expected one of {names}, found `{name}`")
    })
}
