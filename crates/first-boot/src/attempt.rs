//! An attempt to configure br-ex from a document: what must be known to end it in another process, or
//! after a power failure; and how often each document was tried.

use std::collections::BTreeMap;

use node_network::network_manager::ActiveProfile;
use node_network::{Demand, NetworkState};
use serde::{Deserialize, Serialize};

use crate::document_hash::DocumentHash;
use crate::scope::Scope;

/// How often a document is tried before it is only reported.
pub const DEFAULT_TRIES: u32 = 3;

/// Kept on the disk from before the first change until the attempt is confirmed or rolled back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attempt {
    pub version: u32,
    /// The document's name in the folder of documents.
    pub document: String,
    pub sha256: DocumentHash,
    /// The name it is staged under; nothing when the change is made without staging.
    pub staged_as: Option<String>,
    /// The boot that started it.
    pub boot_id: String,
    /// What NetworkManager used before.
    pub active_profiles: Vec<ActiveProfile>,
    /// What the document may change; absent in attempts of version 0.1, which restore everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// What the document demands of br-ex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// Settings that no profile holds, as they were before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<NetworkState>,
}

impl Attempt {
    pub const VERSION: u32 = 1;
}

/// What is to be done about an attempt that was found on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// This boot started it with the same document: continue.
    Continue,
    /// An earlier boot started it and did not end it: roll it back first.
    Interrupted,
    /// This boot started it with another document: end that one first.
    OtherDocument,
}

impl Attempt {
    pub fn seen_by(&self, boot_id: &str, document: &DocumentHash) -> Found {
        if self.boot_id != boot_id {
            Found::Interrupted
        } else if self.sha256 == *document {
            Found::Continue
        } else {
            Found::OtherDocument
        }
    }
}

/// How often each document was tried. One that was changed is another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tries(BTreeMap<DocumentHash, u32>);

impl Tries {
    pub fn of(&self, document: &DocumentHash) -> u32 {
        self.0.get(document).copied().unwrap_or(0)
    }

    /// One more. Counted when an attempt starts, so that a power cut counts as well.
    #[must_use]
    pub fn with_one_more(mut self, document: &DocumentHash) -> Self {
        let count = self.0.entry(document.clone()).or_default();
        *count = count.saturating_add(1);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> Attempt {
        Attempt {
            version: Attempt::VERSION,
            document: "worker-0.yml".into(),
            sha256: DocumentHash::of(b"a"),
            staged_as: Some("worker-0.yml".into()),
            boot_id: "boot-1".into(),
            active_profiles: vec![],
            scope: None,
            demand: None,
            settings: None,
        }
    }

    #[test]
    fn an_attempt_continues_in_its_own_boot_only() {
        let (a, b) = (DocumentHash::of(b"a"), DocumentHash::of(b"b"));
        assert_eq!(attempt().seen_by("boot-1", &a), Found::Continue);
        assert_eq!(attempt().seen_by("boot-1", &b), Found::OtherDocument);
        assert_eq!(attempt().seen_by("boot-2", &a), Found::Interrupted);
    }

    #[test]
    fn a_changed_document_has_all_its_tries() {
        let (a, b) = (DocumentHash::of(b"a"), DocumentHash::of(b"b"));
        let tries = Tries::default().with_one_more(&a).with_one_more(&a);
        assert_eq!((tries.of(&a), tries.of(&b)), (2, 0));
    }
}
