//! Documents that a run stores in the workspace: those that images were selected by, and
//! signatures. Archives include them.

use std::collections::BTreeMap;

use mirror_plan::BlobRef;
use workspace::DocumentError;

use crate::context::Context;

/// Documents by the names they have below `working-dir`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Documents(BTreeMap<String, Vec<u8>>);

impl Documents {
    pub(crate) fn keep(&mut self, name: String, bytes: Vec<u8>) {
        self.0.insert(name, bytes);
    }

    pub(crate) fn extend(&mut self, others: impl IntoIterator<Item = (String, Vec<u8>)>) {
        self.0.extend(others);
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Keeps them all, unless nothing is kept.
    pub(crate) fn save(
        self,
        context: &Context,
    ) -> Result<BTreeMap<String, BlobRef>, DocumentError> {
        let mut saved = BTreeMap::new();
        for (name, bytes) in self.0 {
            let blob = context.keep_document(&name, &bytes)?;
            saved.extend(blob.map(|blob| (name, blob)));
        }
        Ok(saved)
    }
}
