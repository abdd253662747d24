//! Which run mirrors to a target: a claim beside the plans of runs, so that two runs detect each
//! other wherever they were started.
//!
//! ```text
//! REGISTRY/oc-mirror-runs:active          run, owner, start, last renewal, whether it has ended
//! s3://BUCKET/oc-mirror-runs/active.json  the same, of a bucket or a directory
//! ```
//!
//! Registries and object stores have no locks, so a claim is advisory: two runs that start at the
//! same moment may both write it. The one whose claim was replaced then publishes nothing; a run of
//! processes to a registry prints a warning. A run that is killed does not block others: its owner
//! continues at once, others after its claim has expired.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Files, RunStore, RunStoreError};

const TAG: &str = "active";
const FILE: &str = "claim.json";
/// The time between two renewals. Each leaves a small manifest without a tag in the registry.
pub const CLAIM_RENEWAL: Duration = Duration::from_secs(5 * 60);
/// A claim that was not renewed for this time is taken over: two renewals may fail.
const LIFE: SignedDuration = SignedDuration::from_mins(15);
/// The owner of a run whose pods do not know where they run.
const UNKNOWN_OWNER: &str = "a cluster";

/// Claims the target of a run that has the lock of its workspace. Without the lock, a command that
/// cannot start would replace the claim of the run that holds it.
pub trait RunClaim: fmt::Debug + Send + Sync {
    /// Claims the target, before the run changes anything. Blocks.
    ///
    /// # Errors
    /// Why the run must not start: another run has the target.
    fn begin(&self) -> Result<(), String>;
}

/// Another run has the target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{at} is claimed: the run {} mirrors to this target since {}; wait for its end, or end it where it was started; if it was killed, repeat the command after {}",
    claim.who(), claim.started, claim.expires()
)]
pub struct Claimed {
    /// Where the claim is.
    pub at: String,
    pub claim: Claim,
}

/// A run that is about to mirror to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// Claimants with the same run execute the same plan, which is safe at the same time.
    pub run: String,
    /// Where the run was started. An owner ensures by other means that it has one run at a time.
    /// None: unknown, as in a pod.
    pub owner: Option<String>,
}

impl Claimant {
    /// The run that holds the lock of a workspace of this machine.
    pub fn of_workspace(directory: &Path) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let owner = format!("{host}:{}", directory.display());
        Self { run: owner.clone(), owner: Some(owner) }
    }
}

/// The claim of a run to a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub run: String,
    pub owner: String,
    pub started: Timestamp,
    pub renewed: Timestamp,
    pub has_ended: bool,
}

impl Claim {
    /// Reads a claim. What is not a claim does not block runs.
    pub fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The text of the claim.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(self)
    }

    /// The current time in seconds: claims are read by people.
    pub fn now() -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// The claim that replaces the known one: renewed, if it is of the same run.
    ///
    /// # Errors
    /// The known one, if another run has the target.
    pub fn next(
        known: Option<Self>,
        claimant: &Claimant,
        now: Timestamp,
    ) -> Result<Self, Box<Self>> {
        let known = match known {
            Some(other) if other.excludes(claimant, now) => return Err(Box::new(other)),
            Some(same) if same.run == claimant.run && !same.has_ended => Some(same),
            _ => None,
        };
        let (started, owner) = match known {
            Some(same) => (same.started, same.owner),
            None => (now, UNKNOWN_OWNER.to_owned()),
        };
        let owner = claimant.owner.clone().unwrap_or(owner);
        Ok(Self { run: claimant.run.clone(), owner, started, renewed: now, has_ended: false })
    }

    fn excludes(&self, claimant: &Claimant, now: Timestamp) -> bool {
        // Also where the clock of the other machine is ahead: no claim lasts forever.
        let is_fresh = now.duration_since(self.renewed).abs() < LIFE;
        !self.has_ended
            && is_fresh
            && self.run != claimant.run
            && claimant.owner.as_ref() != Some(&self.owner)
    }

    /// The run and where it was started.
    pub fn who(&self) -> String {
        match self.run == self.owner {
            true => self.run.clone(),
            false => format!("{} ({})", self.run, self.owner),
        }
    }

    /// When others take it over, unless it is renewed.
    pub fn expires(&self) -> Timestamp {
        self.renewed.checked_add(LIFE).unwrap_or(self.renewed)
    }
}

impl RunStore {
    /// Claims the target for a run, or renews its claim.
    ///
    /// # Errors
    /// Another run has the target ([`RunStoreError::Claimed`]), or the registry does not accept the
    /// claim.
    pub async fn claim(&self, claimant: &Claimant) -> Result<(), RunStoreError> {
        let claim = self.next_claim(claimant).await?;
        self.store_claim(&claim).await
    }

    /// Checks whether a run may claim the target. Writes nothing.
    ///
    /// # Errors
    /// Another run has the target ([`RunStoreError::Claimed`]), or the registry does not respond.
    pub async fn check_claim(&self, claimant: &Claimant) -> Result<(), RunStoreError> {
        self.next_claim(claimant).await.map(drop)
    }

    /// Ends the claim of a run. A claim of another run stays.
    ///
    /// # Errors
    /// The registry does not respond, or does not accept it.
    pub async fn end_claim(&self, claimant: &Claimant) -> Result<(), RunStoreError> {
        match self.known_claim().await? {
            Some(known) if known.run == claimant.run && !known.has_ended => {
                self.store_claim(&Claim { renewed: Claim::now(), has_ended: true, ..known }).await
            }
            _ => Ok(()),
        }
    }

    async fn next_claim(&self, claimant: &Claimant) -> Result<Claim, RunStoreError> {
        let known = self.known_claim().await?;
        let next = Claim::next(known, claimant, Claim::now());
        next.map_err(|claim| Box::new(Claimed { at: self.place_of(TAG), claim: *claim }).into())
    }

    /// The claim at the target. What is not a claim does not block runs.
    async fn known_claim(&self) -> Result<Option<Claim>, RunStoreError> {
        let mut files = match self.files(TAG).await {
            Ok(files) => files.unwrap_or_default(),
            Err(RunStoreError::Malformed { .. }) => Files::new(),
            Err(error) => return Err(error),
        };
        Ok(files.remove(FILE).and_then(|json| Claim::parse(&json)))
    }

    async fn store_claim(&self, claim: &Claim) -> Result<(), RunStoreError> {
        let json = claim.to_json().map_err(|error| RunStoreError::Malformed {
            at: self.place_of(TAG),
            what: error.to_string(),
        })?;
        self.store_files(TAG, &Files::from([(FILE.to_owned(), json)])).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 60 * minute).unwrap()
    }

    fn claimant(run: &str, owner: &str) -> Claimant {
        Claimant { run: run.to_owned(), owner: Some(owner.to_owned()) }
    }

    fn claim(run: &str, owner: &str) -> Claim {
        Claim::next(None, &claimant(run, owner), at(0)).unwrap()
    }

    #[test]
    fn another_run_is_excluded_until_the_claim_ends_or_is_not_renewed() {
        let known = claim("a", "here");
        let other = claimant("b", "there");
        assert_eq!(Claim::next(Some(known.clone()), &other, at(14)), Err(Box::new(known.clone())));
        let pod = Claimant { run: "b".to_owned(), owner: None };
        assert_eq!(Claim::next(Some(known.clone()), &pod, at(14)), Err(Box::new(known.clone())));

        let taken = Claim::next(Some(known.clone()), &other, at(15)).unwrap();
        assert_eq!((taken.run.as_str(), taken.started), ("b", at(15)));
        let ended = Claim { has_ended: true, ..known };
        assert_eq!(Claim::next(Some(ended), &other, at(1)).unwrap().run, "b");
    }

    #[test]
    fn a_clock_that_is_ahead_does_not_block_forever() {
        let known = Claim { renewed: at(1_000_000), ..claim("a", "here") };
        assert_eq!(Claim::next(Some(known), &claimant("b", "there"), at(0)).unwrap().run, "b");
    }

    #[test]
    fn an_owner_takes_over_its_own_claim_at_once() {
        let taken = Claim::next(Some(claim("a", "here")), &claimant("b", "here"), at(1)).unwrap();
        assert_eq!((taken.run.as_str(), taken.started), ("b", at(1)));
    }

    #[test]
    fn a_pod_renews_the_claim_of_its_run_and_keeps_the_owner() {
        let pod = Claimant { run: "a".to_owned(), owner: None };
        let renewed = Claim::next(Some(claim("a", "here")), &pod, at(5)).unwrap();
        assert_eq!((renewed.started, renewed.renewed), (at(0), at(5)));
        assert_eq!(renewed.who(), "a (here)");
        assert_eq!(renewed.expires(), at(20));
        let first = Claim::next(None, &pod, at(5)).unwrap();
        assert_eq!(first.who(), "a (a cluster)");
    }
}
