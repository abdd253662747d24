//! Which document is for which host of which role.
//!
//! Documents come as files in folders, or as part of an install-config. On the node the short
//! host name chooses the file, so that is what a document is kept under.

mod files;
mod written;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use machine_config::{NameError, Role};

pub use machine_identity::short_name;

pub use files::{FileProblem, FoundFile, Placement, place_files};

use crate::install_config::{ConfiguredHost, InstallConfig};
use br_ex::ClusterFacts;
use br_ex::Document;
use br_ex::Finding;
use br_ex::hosts::{HostDocument, Naming, check_hosts};

/// The stem of the document for every host without its own.
const CLUSTER: &str = "cluster";
/// The stem of the flag that marks a document as applied.
const FLAG: &str = "applied";
/// The longest part of a host name.
const MAX_LABEL: usize = 63;

/// The name of a document without its ending: a short host name, or `cluster`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentNameError {
    #[error(
        "{0:?} is not a short host name; nodes look for `hostname -s`: lower-case letters, digits \
         and `-`, nothing after a dot"
    )]
    Name(String),
    #[error("a host cannot be named `{FLAG}`: that is the name of the flag file on nodes")]
    Flag,
}

/// A document and the bytes that the node gets.
#[derive(Debug, Clone)]
pub struct InventoryDocument {
    /// Byte for byte.
    pub bytes: Vec<u8>,
    /// The file it comes from, for messages.
    pub origin: String,
    /// Read in place, so that findings have the line in the origin.
    pub host: HostDocument,
}

/// All documents by role and host.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    roles: BTreeMap<Role, BTreeMap<DocumentName, InventoryDocument>>,
}

impl DocumentName {
    pub fn cluster() -> Self {
        Self(CLUSTER.to_owned())
    }

    pub fn is_cluster(&self) -> bool {
        self.0 == CLUSTER
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The stem for a host that may be given with its domain.
    pub fn of_host(name: &str) -> Result<Self, DocumentNameError> {
        short_name(name)
            .parse()
            .map_err(|_: DocumentNameError| DocumentNameError::Name(name.to_owned()))
    }

    /// The role at the beginning of the name: `master-0`, `worker-1`.
    pub fn role(&self) -> Option<Role> {
        ["master", "worker"]
            .iter()
            .find(|role| self.0.strip_prefix(**role).is_some_and(|rest| rest.starts_with('-')))
            .and_then(|role| role.parse().ok())
    }
}

impl FromStr for DocumentName {
    type Err = DocumentNameError;

    fn from_str(text: &str) -> Result<Self, DocumentNameError> {
        let inner = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let is_label = text.bytes().all(inner)
            && (1..=MAX_LABEL).contains(&text.len())
            && !text.starts_with('-')
            && !text.ends_with('-');
        match text {
            FLAG => Err(DocumentNameError::Flag),
            _ if is_label => Ok(Self(text.to_owned())),
            _ => Err(DocumentNameError::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host of an install-config that cannot be given a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    #[error("line {line}")]
    Name { line: usize, source: DocumentNameError },
    #[error("line {line}")]
    Role { line: usize, source: NameError },
    #[error("line {line}: {role} {stem} has a document already; a host has one")]
    Twice { line: usize, role: Role, stem: DocumentName },
}

/// The documents of an install-config called `origin`. `role` is that of hosts whose role the
/// install-config does not contain; without it their documents are placed in both roles.
pub fn from_install_config(
    origin: &str,
    config: &InstallConfig,
    role: Option<&Role>,
) -> Result<Inventory, Vec<HostProblem>> {
    let mut inventory = Inventory::default();
    let mut problems = Vec::new();
    for host in &config.hosts {
        let line = host.at.line;
        let stem = match DocumentName::of_host(&host.name) {
            Ok(stem) => stem,
            Err(source) => {
                problems.push(HostProblem::Name { line, source });
                continue;
            }
        };
        for role in host.roles(role.map(Role::as_str)) {
            match role.parse::<Role>() {
                Ok(role) => {
                    let placed = InventoryDocument::from_install_config(origin, host, &role);
                    if inventory.insert(role.clone(), stem.clone(), placed).is_some() {
                        problems.push(HostProblem::Twice { line, role, stem: stem.clone() });
                    }
                }
                Err(source) => problems.push(HostProblem::Role { line, source }),
            }
        }
    }
    if problems.is_empty() { Ok(inventory) } else { Err(problems) }
}

impl InventoryDocument {
    /// A file of its own.
    pub fn from_file(role: &Role, path: &str, bytes: &[u8]) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let document = Document::parse(bytes);
        let role = role.to_string();
        Self {
            bytes: bytes.to_owned(),
            origin: path.to_owned(),
            host: HostDocument { role, name, naming: Naming::File, document },
        }
    }

    /// A part of an install-config.
    fn from_install_config(origin: &str, host: &ConfiguredHost, role: &Role) -> Self {
        Self {
            bytes: written::yaml(&host.config).into_bytes(),
            origin: origin.to_owned(),
            host: HostDocument {
                role: role.to_string(),
                name: host.name.clone(),
                naming: Naming::Host,
                document: Document::from_node(&host.config),
            },
        }
    }
}

impl Inventory {
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    pub fn roles(
        &self,
    ) -> impl Iterator<Item = (&Role, &BTreeMap<DocumentName, InventoryDocument>)> {
        self.roles.iter()
    }

    /// All documents, by role and name.
    pub fn documents(&self) -> impl Iterator<Item = (&Role, &DocumentName, &InventoryDocument)> {
        self.roles.iter().flat_map(|(role, documents)| {
            documents.iter().map(move |(stem, document)| (role, stem, document))
        })
    }

    /// Inserts a document. Returns the one that it replaces.
    pub fn insert(
        &mut self,
        role: Role,
        stem: DocumentName,
        document: InventoryDocument,
    ) -> Option<InventoryDocument> {
        self.roles.entry(role).or_default().insert(stem, document)
    }

    /// Replaces and extends these documents by those of `other`.
    pub fn overlay(&mut self, other: Self) {
        for (role, documents) in other.roles {
            self.roles.entry(role).or_default().extend(documents);
        }
    }

    /// Everything wrong with the documents, each by itself and between them, with its
    /// file.
    pub fn check(&self, around: &ClusterFacts) -> Vec<(String, Finding)> {
        let placed: Vec<&InventoryDocument> =
            self.documents().map(|(_, _, placed)| placed).collect();
        let hosts: Vec<HostDocument> = placed.iter().map(|placed| placed.host.clone()).collect();
        let between = check_hosts(&hosts, around)
            .into_iter()
            .map(|(number, finding)| (placed[number].origin.clone(), finding));
        let own = placed.iter().flat_map(|placed| {
            let findings = br_ex::check(&placed.host.document, around);
            findings.into_iter().map(|finding| (placed.origin.clone(), finding))
        });
        let mut all: Vec<_> = between.chain(own).collect();
        all.sort_by(|(file, a), (other, b)| {
            (file, a.at, a.rule, &a.message).cmp(&(other, b.at, b.rule, &b.message))
        });
        // A file for every role is in several of them, which is not an error.
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_under_the_short_name_of_its_host() {
        assert_eq!(DocumentName::of_host("worker-0.example.com").unwrap().as_str(), "worker-0");
        assert!("worker-0.example.com".parse::<DocumentName>().is_err());
        for bad in ["", "Worker-0", "a_b", "-a", "a-", &"a".repeat(64)] {
            assert!(bad.parse::<DocumentName>().is_err(), "{bad}");
        }
        assert_eq!("applied".parse::<DocumentName>(), Err(DocumentNameError::Flag));
    }

    #[test]
    fn the_beginning_of_a_name_is_the_role() {
        let role = |name: &str| name.parse::<DocumentName>().unwrap().role();
        assert_eq!(role("master-0"), Some(Role::master()));
        assert_eq!(role("worker-a-1"), Some(Role::worker()));
        assert_eq!(role("workers"), None);
        assert_eq!(role("infra-0"), None);
    }
}
