//! One fetch per blob: images share layers, and a store takes each blob from one writer only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use oci::Digest;
use tokio::sync::OwnedMutexGuard;

type Lock = tokio::sync::Mutex<()>;

/// Who fetches which blob; shared by everything in a run that fetches while it collects.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<Digest, Weak<Lock>>>);

impl Turns {
    /// Returns once no one else fetches this blob; it is theirs until the guard is dropped.
    pub(crate) async fn of(&self, digest: Digest) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(&digest).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::new(Lock::default());
                locks.insert(digest, Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_blob_has_one_turn_and_others_do_not_wait_for_it() {
        let turns = Turns::default();
        let first = turns.of(Digest::of(b"a")).await;
        let _other = turns.of(Digest::of(b"b")).await;
        let mut second = Box::pin(turns.of(Digest::of(b"a")));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        drop(first);
        second.await;
        assert_eq!(turns.0.lock().unwrap().len(), 2);
    }
}
