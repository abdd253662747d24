//! The shelf that requests are served from, which may be exchanged while the
//! server runs.

use std::sync::{Arc, PoisonError, RwLock};

use crate::shelf::Shelf;

/// A handle to the shelf in use. Clones share it.
#[derive(Debug, Clone)]
pub struct CurrentShelf(Arc<RwLock<Arc<Shelf>>>);

impl CurrentShelf {
    pub fn new(shelf: Shelf) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(shelf))))
    }

    /// The shelf of this moment. A request keeps the one it started with.
    pub fn get(&self) -> Arc<Shelf> {
        // The lock is held for a pointer's copy only, so that a poisoned one
        // still guards a whole value.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Exchanges the shelf for requests to come.
    pub fn replace(&self, shelf: Shelf) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shelf);
    }
}
