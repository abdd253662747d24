//! Which document is for which host of which role.
//!
//! Documents come as files in folders, or as part of an install-config. On the node the short
//! host name chooses the file, so that is what a document is kept under.

mod conflict;
mod files;
mod install_config;
mod written;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use located_yaml::{Located, Node};
use machine_config::Role;

pub use conflict::{Conflict, Owned, conflicts, facts_of};
pub use files::{FileProblem, FoundFile, from_files};
pub use install_config::{InstallConfig, InstallConfigProblem, from_install_config};

use crate::document::Document;

/// The stem of the document that every host without one of its own takes.
const CLUSTER: &str = "cluster";
/// The stem of the flag that says a document was applied.
const FLAG: &str = "applied";
/// The longest part of a host name.
const MAX_LABEL: usize = 63;

/// The name of a document without its ending: a short host name, or `cluster`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stem(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StemError {
    #[error(
        "{0:?} is no short host name; nodes look for `hostname -s`: small letters, digits and `-`, \
         nothing behind a dot"
    )]
    Name(String),
    #[error("a host cannot be called `{FLAG}`: that is the name of a node's flag file")]
    Flag,
}

/// A document for a host of a role, or for all hosts of it.
#[derive(Debug, Clone)]
pub struct HostDocument {
    /// Byte for byte what the node gets.
    pub bytes: Vec<u8>,
    /// The file it comes from, for messages.
    pub origin: String,
    /// Read where it stands, so that findings name a line of the origin.
    pub document: Document,
}

/// All documents by role and host.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    roles: BTreeMap<Role, BTreeMap<Stem, HostDocument>>,
}

impl Stem {
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
    pub fn of_host(name: &str) -> Result<Self, StemError> {
        let short = name.split('.').next().unwrap_or_default();
        short.parse().map_err(|_: StemError| StemError::Name(name.to_owned()))
    }

    /// The role that the name says by its beginning: `master-0`, `worker-1`.
    pub fn role(&self) -> Option<Role> {
        ["master", "worker"]
            .iter()
            .find(|role| self.0.strip_prefix(**role).is_some_and(|rest| rest.starts_with('-')))
            .and_then(|role| role.parse().ok())
    }
}

impl FromStr for Stem {
    type Err = StemError;

    fn from_str(text: &str) -> Result<Self, StemError> {
        let inner = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let is_label = text.bytes().all(inner)
            && (1..=MAX_LABEL).contains(&text.len())
            && !text.starts_with('-')
            && !text.ends_with('-');
        match text {
            FLAG => Err(StemError::Flag),
            _ if is_label => Ok(Self(text.to_owned())),
            _ => Err(StemError::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HostDocument {
    /// A file of its own.
    pub fn from_file(origin: &str, bytes: &[u8]) -> Self {
        let document = Document::parse(bytes);
        Self { bytes: bytes.to_owned(), origin: origin.to_owned(), document }
    }

    /// A part of another file.
    fn from_part(origin: &str, node: &Node) -> Self {
        let bytes = written::yaml(node).into_bytes();
        Self { bytes, origin: origin.to_owned(), document: Document::from_node(node) }
    }
}

impl Inventory {
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    pub fn roles(&self) -> impl Iterator<Item = (&Role, &BTreeMap<Stem, HostDocument>)> {
        self.roles.iter()
    }

    /// All documents, by role and name.
    pub fn documents(&self) -> impl Iterator<Item = (&Role, &Stem, &HostDocument)> {
        self.roles.iter().flat_map(|(role, documents)| {
            documents.iter().map(move |(stem, document)| (role, stem, document))
        })
    }

    /// Puts a document in its place. The one that was there is given back.
    pub fn insert(
        &mut self,
        role: Role,
        stem: Stem,
        document: HostDocument,
    ) -> Option<HostDocument> {
        self.roles.entry(role).or_default().insert(stem, document)
    }

    /// Puts the documents of `other` over these.
    pub fn overlay(&mut self, other: Self) {
        for (role, documents) in other.roles {
            self.roles.entry(role).or_default().extend(documents);
        }
    }
}

/// The name of a role, with its place.
fn role_of(text: Located<&str>) -> Result<Role, Located<InstallConfigProblem>> {
    text.value.parse().map_err(|source| Located {
        at: text.at,
        value: InstallConfigProblem::Role(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_under_the_short_name_of_its_host() {
        assert_eq!(Stem::of_host("worker-0.example.com").unwrap().as_str(), "worker-0");
        assert!("worker-0.example.com".parse::<Stem>().is_err());
        for bad in ["", "Worker-0", "a_b", "-a", "a-", &"a".repeat(64)] {
            assert!(bad.parse::<Stem>().is_err(), "{bad}");
        }
        assert_eq!("applied".parse::<Stem>(), Err(StemError::Flag));
    }

    #[test]
    fn the_beginning_of_a_name_says_the_role() {
        let role = |name: &str| name.parse::<Stem>().unwrap().role();
        assert_eq!(role("master-0"), Some(Role::master()));
        assert_eq!(role("worker-a-1"), Some(Role::worker()));
        assert_eq!(role("workers"), None);
        assert_eq!(role("infra-0"), None);
    }
}
