//! One more host for a role, and the proof that nothing else changes.

mod objects;

use br_ex::hosts::{HostDocument, Naming, Reader, check_hosts};
use br_ex::{ClusterFacts, Document, Finding};
use machine_config::{
    BR_EX_FOLDER, Change, Disruption, DisruptionPolicy, Encoding, File, FileChange, MachineConfig,
    Outcome, Pool, Role, difference,
};

use crate::folder_reader;
use crate::inventory::DocumentName;
use crate::render::path_of;

pub use objects::{Bmc, Machine, Manifest, ManifestError, manifests};

#[derive(Debug, thiserror::Error)]
pub enum ScaleOutError {
    #[error("{0} has no role, so no node gets what is in it; label it with its pool")]
    NoRole(String),
    #[error("{0} is written in Ignition 2; rebuild it with `oc-brex decode` and `oc-brex render`")]
    OldIgnition(String),
    #[error(
        "{config} has a document for {host} already; a node that runs gets a change of it by a \
         policy, and its file acts again at the next reboot: see `oc-brex plan`"
    )]
    Present { config: String, host: DocumentName },
    #[error(transparent)]
    Path(#[from] machine_config::FilePathError),
    #[error("adding {host} to {config} would change more than its file, which must not be: {more}")]
    More { config: String, host: DocumentName, more: String },
}

/// A MachineConfig with one more host.
#[derive(Debug, Clone)]
pub struct Addition {
    pub role: Role,
    pub config: MachineConfig,
    /// What it does to the nodes that run.
    pub disruption: Disruption,
}

impl Addition {
    /// Whether nodes that run notice nothing of it.
    pub fn is_silent(&self) -> bool {
        self.disruption.outcome() == Outcome::Nothing
    }
}

/// Adds a document to the MachineConfig of its role.
///
/// All that was there stays as it is, to the byte; that is compared again afterwards.
pub fn add(
    old: &MachineConfig,
    host: &DocumentName,
    bytes: &[u8],
    policy: &DisruptionPolicy,
) -> Result<Addition, ScaleOutError> {
    let name = || old.name.to_string();
    let role = old.role.clone().ok_or_else(|| ScaleOutError::NoRole(name()))?;
    if old.ignition.is_old() {
        return Err(ScaleOutError::OldIgnition(name()));
    }
    let path = path_of(host)?;
    let other_ending = format!("{BR_EX_FOLDER}/{host}.yaml");
    if old.file(path.as_str()).or(old.file(&other_ending)).is_some() {
        return Err(ScaleOutError::Present { config: name(), host: host.clone() });
    }
    // Written like its neighbours.
    let is_gzip = |file: &File| file.contents.encoding() == Encoding::Gzip;
    let encoding = if old.files.iter().any(is_gzip) { Encoding::Gzip } else { Encoding::Plain };
    let mut config = old.clone();
    config.files.push(File::new(path.clone(), bytes, encoding));
    let changes = difference(old, &config);
    let wanted = Change::File { path, what: FileChange::Added };
    if changes != [wanted.clone()] {
        let others = changes.iter().filter(|change| **change != wanted);
        let more = others.map(ToString::to_string).collect::<Vec<_>>().join("; ");
        return Err(ScaleOutError::More { config: name(), host: host.clone(), more });
    }
    Ok(Addition { role, config, disruption: policy.disruption(&changes) })
}

/// Everything wrong with the new document, by itself and beside the documents that are there:
/// names, addresses and MAC addresses are one host's alone.
pub fn check_beside(
    configs: &[MachineConfig],
    role: &Role,
    file_name: &str,
    bytes: &[u8],
    around: &ClusterFacts,
) -> Vec<Finding> {
    let mut hosts: Vec<HostDocument> = Vec::new();
    for config in configs {
        let reader = match &config.role {
            Some(role) => folder_reader::of_pool(&Pool::new(role, configs)),
            None => Reader::Unknown,
        };
        for file in config.files.iter().filter(|file| file.path.is_within(BR_EX_FOLDER)) {
            hosts.push(HostDocument {
                role: config.role.as_ref().map(ToString::to_string).unwrap_or_default(),
                name: file.path.file_name().to_owned(),
                naming: Naming::FileOnNode(reader),
                document: Document::parse(file.contents.bytes()),
            });
        }
    }
    let number = hosts.len();
    let document = Document::parse(bytes);
    let mut findings = br_ex::check(&document, around);
    let name = file_name.to_owned();
    hosts.push(HostDocument { role: role.to_string(), name, naming: Naming::File, document });
    let between = check_hosts(&hosts, around).into_iter();
    findings.extend(between.filter(|(of, _)| *of == number).map(|(_, finding)| finding));
    findings.sort_by_key(|finding| finding.at);
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> MachineConfig {
        let mut config = MachineConfig::new("10-br-ex-worker".parse().unwrap(), Role::worker());
        for name in ["worker-0", "worker-1"] {
            let path = path_of(&name.parse().unwrap()).unwrap();
            config.files.push(File::new(path, b"interfaces: []\n", Encoding::Plain));
        }
        config
    }

    #[test]
    fn a_host_is_added_and_no_node_notices() {
        let (old, host) = (worker(), "worker-2".parse().unwrap());
        let policy = DisruptionPolicy::default();
        let Addition { config, disruption, .. } = add(&old, &host, b"text", &policy).unwrap();
        assert_eq!(disruption.outcome(), Outcome::Nothing);
        assert_eq!(config.files[..2], old.files[..]);
        assert_eq!(config.files[2].path.as_str(), "/etc/nmstate/openshift/worker-2.yml");
        assert_eq!(config.files[2].contents.bytes(), b"text");
        let (before, after) = (old.to_yaml().unwrap(), config.to_yaml().unwrap());
        assert!(after.starts_with(&before), "{after}");
    }

    #[test]
    fn a_policy_of_the_cluster_that_reboots_is_seen() {
        let text = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nspec: \
                    {nodeDisruptionPolicy: {files: [{path: /etc/nmstate/openshift, actions: [{type: \
                    Reboot}]}]}}\n";
        let policy = machine_config::parse_disruption_policy(text).unwrap();
        let added = add(&worker(), &"worker-2".parse().unwrap(), b"", &policy).unwrap();
        assert!(!added.is_silent());
    }

    #[test]
    fn a_host_that_is_there_is_refused() {
        let error = add(&worker(), &"worker-1".parse().unwrap(), b"", &DisruptionPolicy::default());
        assert!(error.unwrap_err().to_string().starts_with(
            "10-br-ex-worker has a document for worker-1 already; a node that runs gets a change"
        ));
    }

    #[test]
    fn a_compressed_neighbourhood_stays_compressed() {
        let mut old = worker();
        let path = path_of(&"worker-9".parse().unwrap()).unwrap();
        old.files.push(File::new(path, b"x", Encoding::Gzip));
        let policy = DisruptionPolicy::default();
        let added = add(&old, &"worker-2".parse().unwrap(), b"y", &policy).unwrap();
        assert_eq!(added.config.files[3].contents.encoding(), Encoding::Gzip);
    }
}
