//! The snapshot that requests are served from, which can be replaced while the
//! server runs.

use std::sync::{Arc, PoisonError, RwLock};

use crate::snapshot::Snapshot;

/// A handle to the snapshot in use. Clones share it.
#[derive(Debug, Clone)]
pub struct CurrentSnapshot(Arc<RwLock<Arc<Snapshot>>>);

impl CurrentSnapshot {
    pub fn new(snapshot: Snapshot) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(snapshot))))
    }

    /// The current snapshot. A request keeps the one it started with.
    pub fn get(&self) -> Arc<Snapshot> {
        // The lock is held for a pointer's copy only, so that a poisoned one
        // still guards a whole value.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the snapshot for later requests.
    pub fn replace(&self, snapshot: Snapshot) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }
}
