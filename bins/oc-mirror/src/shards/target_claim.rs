//! The claim of a run to its target, kept while the run is under way.

use std::time::Duration;

use mirror::{CLAIM_RENEWAL, Claimant, DryRun, RunStore, RunStoreError, Settings};
use mirror_job::RunName;
use mirror_plan::Target;
use oci::ImageRef;

use crate::lookup_arguments::wait;
use crate::problem::chain;

/// How long a claim may delay a run of processes, which works without one.
const PATIENCE: Duration = Duration::from_secs(30);

/// A run that claims its target.
#[derive(Debug, Clone)]
pub(crate) struct TargetClaim {
    place: Place,
    registry: registry::Settings,
    claimant: Claimant,
}

/// How the claims of a target are found.
#[derive(Debug, Clone)]
enum Place {
    Target(Target),
    /// Beside this run.
    Run(Box<ImageRef>),
}

impl TargetClaim {
    /// The claim of a pod that publishes a run.
    pub(super) fn of_pod(run: &ImageRef, registry: &registry::Settings, name: &RunName) -> Self {
        Self {
            place: Place::Run(Box::new(run.clone())),
            registry: without_limits(registry),
            claimant: Claimant { run: name.to_string(), owner: None },
        }
    }

    /// Claims the target of a run of processes. None for any other run, and where the target does
    /// not accept a claim: such a run reports by itself what is wrong with the target.
    ///
    /// # Errors
    /// Another run has the target.
    pub(crate) fn begin(settings: &Settings) -> Result<Option<Self>, String> {
        let Some(target) = settings.workflow.target() else { return Ok(None) };
        if settings.shards.is_none()
            || settings.dry_run != DryRun::No
            || settings.migrate_from.is_some()
        {
            return Ok(None);
        }
        let mut registry = without_limits(&settings.destination);
        // A target that does not respond is reported by the run, without further delay.
        registry.retry.times = registry.retry.times.min(1);
        let claim = Self {
            place: Place::Target(target.clone()),
            registry,
            claimant: Claimant::of_workspace(settings.workflow.directory()),
        };
        let taken = wait(async { Ok(tokio::time::timeout(PATIENCE, claim.take()).await) });
        match taken {
            Ok(Ok(Ok(()))) => return Ok(Some(claim)),
            Ok(Ok(Err(error @ RunStoreError::Claimed { .. }))) => return Err(chain(&error)),
            Ok(Ok(Err(error))) => tracing::debug!("claiming the target: {}", chain(&error)),
            Ok(Err(_)) => tracing::debug!("claiming the target: no response"),
            Err(error) => tracing::debug!("claiming the target: {error:#}"),
        }
        Ok(None)
    }

    /// Claims the target, or renews the claim.
    pub(super) async fn take(&self) -> Result<(), RunStoreError> {
        let store = self.open()?;
        Box::pin(store.claim(&self.claimant)).await
    }

    /// Renews the claim periodically. Never ends.
    pub(crate) async fn keep(&self) {
        loop {
            tokio::time::sleep(CLAIM_RENEWAL).await;
            match self.take().await {
                Ok(()) => {}
                Err(error @ RunStoreError::Claimed { .. }) => {
                    tracing::warn!("{}", chain(&error));
                    return std::future::pending().await;
                }
                // Others take the target over after several failures only.
                Err(error) => tracing::debug!("renewing the claim: {}", chain(&error)),
            }
        }
    }

    /// Ends the claim. If that fails, others wait until it expires.
    pub(crate) fn end(&self) {
        let ended = wait(async {
            let store = self.open()?;
            Ok(tokio::time::timeout(PATIENCE, store.end_claim(&self.claimant)).await??)
        });
        if let Err(error) = ended {
            tracing::debug!("ending the claim: {error:#}");
        }
    }

    /// Connections belong to the runtime that made them, so each use opens its own.
    fn open(&self) -> Result<RunStore, RunStoreError> {
        match &self.place {
            Place::Target(target) => RunStore::of_target(target, &self.registry),
            Place::Run(run) => RunStore::of_run(run, &self.registry),
        }
    }
}

/// A timetable that allows no transfers must not delay a claim.
fn without_limits(settings: &registry::Settings) -> registry::Settings {
    registry::Settings { limits: Vec::new(), ..settings.clone() }
}
