//! The claim of a run that adds archives to a bucket or a directory, which may be a volume of several
//! machines: `oc-mirror-runs/active.json` below the archives, while the run is under way.

use archive_store::{ArchiveLocation, ArchiveStore, StoreError};
use mirror::{Claim, Claimant, Claimed};

use super::target_claim::ClaimError;
use crate::object_store::StoreArguments;
use crate::segment_store::RUNS;

const FILE: &str = "active.json";
/// Far above the length of a claim.
const MAX_BYTES: u64 = 64 << 10;

/// The claims of a place of archives.
pub(super) struct ArchiveClaims {
    store: ArchiveStore,
    place: ArchiveLocation,
}

impl ArchiveClaims {
    pub(super) fn open(
        archives: &ArchiveLocation,
        arguments: &StoreArguments,
    ) -> Result<Self, StoreError> {
        let place = archives.join(RUNS);
        Ok(Self { store: arguments.open(&place)?, place })
    }

    /// Claims the place, or renews the claim.
    pub(super) async fn claim(&self, claimant: &Claimant) -> Result<(), ClaimError> {
        let claim = self.next(claimant).await?;
        let json = claim.to_json().map_err(|error| StoreError::Store {
            name: FILE.to_owned(),
            place: self.place.to_string(),
            reason: error.to_string(),
        })?;
        self.store.put(FILE, json).await?;
        // Of two runs that start at the same moment, the later claim counts.
        self.next(claimant).await.map(drop)
    }

    /// Removes the claim of a run. That of another run stays.
    pub(super) async fn end(&self, claimant: &Claimant) -> Result<(), ClaimError> {
        if self.known().await?.is_some_and(|known| known.run == claimant.run) {
            self.store.remove(FILE).await?;
        }
        self.store.remove_if_empty();
        Ok(())
    }

    async fn next(&self, claimant: &Claimant) -> Result<Claim, ClaimError> {
        let next = Claim::next(self.known().await?, claimant, Claim::now());
        next.map_err(|claim| {
            let at = self.place.join(FILE).to_string();
            Box::new(Claimed { at, claim: *claim }).into()
        })
    }

    async fn known(&self) -> Result<Option<Claim>, StoreError> {
        match self.store.start_of(FILE, MAX_BYTES).await {
            Ok(json) => Ok(Claim::parse(&json)),
            Err(StoreError::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        store: StoreArguments,
    }

    fn claims(directory: &Path) -> ArchiveClaims {
        let store = Line::parse_from(["oc-mirror"]).store;
        ArchiveClaims::open(&ArchiveLocation::Directory(directory.to_owned()), &store).unwrap()
    }

    fn claimant(run: &str) -> Claimant {
        Claimant { run: run.to_owned(), owner: Some(run.to_owned()) }
    }

    #[tokio::test]
    async fn one_run_at_a_time_has_a_directory_and_a_claim_that_ended_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let claims = claims(dir.path());
        claims.claim(&claimant("a")).await.unwrap();
        claims.claim(&claimant("a")).await.unwrap();
        let error = claims.claim(&claimant("b")).await.unwrap_err().to_string();
        assert!(error.contains("oc-mirror-runs/active.json is claimed: the run a"), "{error}");
        // The claim of another run stays.
        claims.end(&claimant("b")).await.unwrap();
        assert!(claims.claim(&claimant("b")).await.is_err());
        claims.end(&claimant("a")).await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_claim_that_is_not_renewed_and_a_file_that_is_not_a_claim_do_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(RUNS).join(FILE);
        let claims = claims(dir.path());
        claims.claim(&claimant("a")).await.unwrap();
        let mut claim = Claim::parse(&std::fs::read(&file).unwrap()).unwrap();
        claim.renewed = "2026-01-01T00:00:00Z".parse().unwrap();
        std::fs::write(&file, claim.to_json().unwrap()).unwrap();
        claims.claim(&claimant("b")).await.unwrap();
        std::fs::write(&file, "{}").unwrap();
        claims.claim(&claimant("c")).await.unwrap();
    }
}
