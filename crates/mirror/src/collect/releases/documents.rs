//! What a selection was made by, on its way into the workspace.

use std::collections::BTreeMap;

use mirror_plan::BlobRef;

use crate::context::Context;
use crate::error_chain::chain;

/// Documents by the names they have below `working-dir`.
#[derive(Debug, Default)]
pub(crate) struct Documents(BTreeMap<String, Vec<u8>>);

impl Documents {
    pub(crate) fn keep(&mut self, name: String, bytes: Vec<u8>) {
        self.0.insert(name, bytes);
    }

    pub(crate) fn extend(&mut self, others: impl IntoIterator<Item = (String, Vec<u8>)>) {
        self.0.extend(others);
    }

    /// Keeps them all, unless nothing is kept.
    pub(crate) fn save(self, context: &Context) -> Result<BTreeMap<String, BlobRef>, String> {
        let mut saved = BTreeMap::new();
        for (name, bytes) in self.0 {
            let blob = context.keep_document(&name, &bytes).map_err(|e| chain(&e))?;
            saved.extend(blob.map(|blob| (name, blob)));
        }
        Ok(saved)
    }
}
