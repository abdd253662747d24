//! The claim of a run to its target, kept while the run is under way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archive_store::{ArchiveLocation, StoreError};
use mirror::{
    CLAIM_RENEWAL, Claimant, Claimed, DryRun, RunClaim, RunStore, RunStoreError, Settings, Workflow,
};
use mirror_job::RunName;
use mirror_plan::Target;
use oci::ImageRef;

use super::archive_claim::ArchiveClaims;
use crate::lookup_arguments::wait;
use crate::object_store::{StoreArguments, Transfer};
use crate::problem::chain;

/// How long a claim may delay a run, which reports by itself what is wrong with its target.
const PATIENCE: Duration = Duration::from_secs(30);

/// A run that claims its target.
#[derive(Debug, Clone)]
pub(crate) struct TargetClaim {
    place: Place,
    claimant: Claimant,
    /// Whether the run has claimed its target. A command that did not get as far must not change
    /// the claim of another one.
    has_begun: Arc<AtomicBool>,
}

/// How the claims of a target are found.
#[derive(Debug, Clone)]
enum Place {
    Target(Box<(Target, registry::Settings)>),
    /// Beside this run.
    Run(Box<(ImageRef, registry::Settings)>),
    /// A bucket, or a directory that may be a volume.
    Archives(ArchiveLocation, StoreArguments),
}

/// Why a target is not claimed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error(transparent)]
    Claimed(#[from] Box<Claimed>),
    #[error(transparent)]
    Registry(RunStoreError),
    #[error(transparent)]
    Archives(#[from] StoreError),
}

impl From<RunStoreError> for ClaimError {
    fn from(error: RunStoreError) -> Self {
        match error {
            RunStoreError::Claimed(claimed) => Self::Claimed(claimed),
            error => Self::Registry(error),
        }
    }
}

impl ClaimError {
    /// Whether a later attempt may succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Claimed(_) => false,
            Self::Registry(error) => error.may_pass(),
            Self::Archives(error) => error.may_pass(),
        }
    }
}

impl TargetClaim {
    /// The claim of a pod that publishes a run.
    pub(super) fn of_pod(run: &ImageRef, registry: &registry::Settings, name: &RunName) -> Self {
        let place = Place::Run(Box::new((run.clone(), without_limits(registry))));
        Self::new(place, Claimant { run: name.to_string(), owner: None })
    }

    /// The claim of a pod that completes an archive.
    pub(super) fn of_archives_pod(
        archives: &ArchiveLocation,
        store: &StoreArguments,
        name: &RunName,
    ) -> Self {
        let place = Place::Archives(archives.clone(), store.clone());
        Self::new(place, Claimant { run: name.to_string(), owner: None })
    }

    /// The claim of a run of this machine. None for a run of one process to a registry or a
    /// directory, and for a run that changes nothing at its target.
    pub(crate) fn of_run(
        settings: &Settings,
        transfer: Option<&Transfer>,
        store: &StoreArguments,
    ) -> Option<Self> {
        if settings.dry_run != DryRun::No || settings.migrate_from.is_some() {
            return None;
        }
        let directory = settings.workflow.directory();
        if let Some(Transfer::Store(place)) = transfer {
            return Some(Self::of_archives(place, store, directory));
        }
        settings.shards.as_ref()?;
        match &settings.workflow {
            Workflow::MirrorToDisk { dir } => {
                let place = ArchiveLocation::Directory(std::path::absolute(dir).ok()?);
                Some(Self::of_archives(&place, store, directory))
            }
            Workflow::DiskToMirror { target, .. } | Workflow::MirrorToMirror { target, .. } => {
                let mut registry = without_limits(&settings.destination);
                // A target that does not respond is reported by the run, without further delay.
                registry.retry.times = registry.retry.times.min(1);
                let place = Place::Target(Box::new((target.clone(), registry)));
                Some(Self::new(place, Claimant::of_workspace(directory)))
            }
        }
    }

    /// The claim of a run of this workspace that adds archives to a bucket or a directory.
    pub(crate) fn of_archives(
        archives: &ArchiveLocation,
        store: &StoreArguments,
        workspace: &Path,
    ) -> Self {
        let place = Place::Archives(archives.clone(), store.clone());
        Self::new(place, Claimant::of_workspace(workspace))
    }

    fn new(place: Place, claimant: Claimant) -> Self {
        Self { place, claimant, has_begun: Arc::default() }
    }

    /// Claims the target, or renews the claim.
    pub(crate) async fn take(&self) -> Result<(), ClaimError> {
        match self.open()? {
            Claims::Registry(store) => Box::pin(store.claim(&self.claimant)).await?,
            Claims::Archives(claims) => claims.claim(&self.claimant).await?,
        }
        self.has_begun.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the run still has its target, before it publishes something there. A target that does
    /// not respond is reported by what follows.
    pub(crate) async fn check(&self) -> Result<(), ClaimError> {
        match self.take().await {
            Err(error @ ClaimError::Claimed(_)) => Err(error),
            Err(error) => {
                tracing::debug!("renewing the claim: {}", chain(&error));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Renews the claim periodically, once there is one. Never ends.
    pub(crate) async fn keep(&self) {
        loop {
            tokio::time::sleep(CLAIM_RENEWAL).await;
            if !self.has_begun.load(Ordering::Relaxed) {
                continue;
            }
            match self.take().await {
                Ok(()) => {}
                Err(error @ ClaimError::Claimed(_)) => {
                    tracing::warn!("{}", chain(&error));
                    return std::future::pending().await;
                }
                // Others take the target over after several failures only.
                Err(error) => tracing::debug!("renewing the claim: {}", chain(&error)),
            }
        }
    }

    /// Ends the claim, if there is one. If that fails, others wait until it expires.
    pub(crate) fn end(&self) {
        let ended = wait(async {
            self.end_here().await;
            Ok(())
        });
        if let Err(error) = ended {
            tracing::debug!("ending the claim: {error:#}");
        }
    }

    /// As [`TargetClaim::end`], on the runtime of the caller.
    pub(crate) async fn end_here(&self) {
        if !self.has_begun.swap(false, Ordering::Relaxed) {
            return;
        }
        let end = async {
            match self.open()? {
                Claims::Registry(store) => store.end_claim(&self.claimant).await?,
                Claims::Archives(claims) => claims.end(&self.claimant).await?,
            }
            Ok::<(), ClaimError>(())
        };
        match tokio::time::timeout(PATIENCE, end).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("ending the claim: {}", chain(&error)),
            Err(_) => tracing::debug!("ending the claim: no response"),
        }
    }

    /// Connections belong to the runtime that made them, so each use opens its own.
    fn open(&self) -> Result<Claims, ClaimError> {
        Ok(match &self.place {
            Place::Target(target) => Claims::Registry(RunStore::of_target(&target.0, &target.1)?),
            Place::Run(run) => Claims::Registry(RunStore::of_run(&run.0, &run.1)?),
            Place::Archives(place, store) => Claims::Archives(ArchiveClaims::open(place, store)?),
        })
    }
}

/// Where the claims of a target are kept.
enum Claims {
    Registry(RunStore),
    Archives(ArchiveClaims),
}

impl RunClaim for TargetClaim {
    /// A target that does not accept a claim does not end the run, which reports by itself what is
    /// wrong with it.
    fn begin(&self) -> Result<(), String> {
        // The engine runs within a runtime, whose threads cannot wait for another one.
        let taken = std::thread::scope(|scope| {
            let work = || wait(async { Ok(tokio::time::timeout(PATIENCE, self.take()).await) });
            scope.spawn(work).join()
        });
        match taken {
            Ok(Ok(Ok(Ok(())))) => {}
            Ok(Ok(Ok(Err(error @ ClaimError::Claimed(_))))) => return Err(chain(&error)),
            Ok(Ok(Ok(Err(error)))) => tracing::debug!("claiming the target: {}", chain(&error)),
            Ok(Ok(Err(_))) => tracing::debug!("claiming the target: no response"),
            Ok(Err(error)) => tracing::debug!("claiming the target: {error:#}"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(())
    }
}

/// A timetable that allows no transfers must not delay a claim.
fn without_limits(settings: &registry::Settings) -> registry::Settings {
    registry::Settings { limits: Vec::new(), ..settings.clone() }
}
