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

    /// Writes them all to the workspace, unless the run leaves no trace.
    pub(crate) fn save(self, context: &Context) -> Result<BTreeMap<String, BlobRef>, String> {
        if context.run().is_none() {
            return Ok(BTreeMap::new());
        }
        let mut saved = BTreeMap::new();
        for (name, bytes) in self.0 {
            let blob = context.workspace.save_document(&name, &bytes).map_err(|e| chain(&e))?;
            saved.insert(name, blob);
        }
        Ok(saved)
    }
}
