//! Settings of a run: flags and configuration, resolved once.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use image_set::ImageSetConfiguration;
use mirror_plan::{Exit, Mode, Naming, Target};
use oci::{Digest, ImageRef};
use tokio::sync::watch;
use workspace::distribution::{Cache, CacheError};

use crate::error_chain::chain;
use crate::report::Failure;
use crate::shards::{RunClaim, SegmentRunner, ShardRunner};

use crate::plan::stored_plan::StoredPlan;

/// From where to where: a mode, with its places.
#[derive(Debug, Clone)]
pub enum Workflow {
    /// Registries → workspace, and an archive of it.
    MirrorToDisk { dir: PathBuf },
    /// Archives or a workspace → a registry. Talks to nothing but that registry.
    DiskToMirror { dir: PathBuf, target: Target },
    /// Registries → a registry; the workspace keeps manifests, plan and log.
    MirrorToMirror { dir: PathBuf, target: Target },
}

impl Workflow {
    /// As logs, reports and plans call it.
    pub fn name(&self) -> &'static str {
        self.mode().name()
    }

    pub fn mode(&self) -> Mode {
        match self {
            Self::MirrorToDisk { .. } => Mode::MirrorToDisk,
            Self::DiskToMirror { .. } => Mode::DiskToMirror,
            Self::MirrorToMirror { .. } => Mode::MirrorToMirror,
        }
    }

    /// The directory of the workspace.
    pub fn directory(&self) -> &Path {
        match self {
            Self::MirrorToDisk { dir }
            | Self::DiskToMirror { dir, .. }
            | Self::MirrorToMirror { dir, .. } => dir,
        }
    }

    /// Where images go; none when that is the workspace.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::MirrorToDisk { .. } => None,
            Self::DiskToMirror { target, .. } | Self::MirrorToMirror { target, .. } => Some(target),
        }
    }
}

/// The configuration as the user wrote it, and parsed.
#[derive(Debug, Clone)]
pub struct Configuration {
    pub path: PathBuf,
    pub text: String,
    pub set: ImageSetConfiguration,
}

/// What to do with signatures, attestations, SBOMs and referrers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachments {
    Carry,
    Remove,
}

/// A policy that every image must pass.
#[derive(Debug, Clone)]
pub struct TrustPolicy {
    pub path: PathBuf,
    /// Of the file's content, for the audit log.
    pub digest: Digest,
    pub policy: Arc<trust::Policy>,
    pub lookaside: Lookaside,
}

/// Where signatures of GPG keys are kept beside registries, as in containers-registries.d(5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lookaside {
    /// For images under no scope.
    pub default: Option<registry::Url>,
    pub scopes: BTreeMap<String, registry::Url>,
}

impl Lookaside {
    /// Where the signatures of an image are: that of the most specific scope.
    pub(crate) fn of(&self, image: &ImageRef) -> Option<&registry::Url> {
        let scopes = trust::Name::Registry(image).scopes();
        let found = scopes.iter().find_map(|scope| self.scopes.get(scope));
        found.or(self.default.as_ref())
    }
}

/// Whether releases must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureCheck {
    Enforce,
    /// `platform.release` is mirrored without verification. Channels never are.
    IgnoreForNamedRelease,
}

/// Where releases are requested, and whose signatures count.
#[derive(Debug, Clone)]
pub struct ReleaseSources {
    /// Asked in place of OpenShift's own update service.
    pub update_service: Option<registry::Url>,
    /// The directory of signatures; ends in a slash.
    pub signatures: registry::Url,
    pub keys: Arc<release::keyring::Keyring>,
    pub check: SignatureCheck,
}

/// What becomes of bundles of which an image is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenBundles {
    /// They stay in the catalog, and are named in the report.
    Keep,
    /// The mirrored catalog does without them.
    LeaveOut,
}

/// Whether to change anything, or only report what would change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    No,
    /// Write mapping, plan and resources below `working-dir/dry-run`.
    Plan,
    /// The same, with a mapping line for every manifest of a list.
    PlanWithLists,
}

/// Who can read an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// This program.
    #[default]
    Own,
    /// oc-mirror v2, and this program.
    OcMirrorV2,
}

/// How the archive of a mirror-to-disk run is made.
#[derive(Debug, Clone)]
pub struct Archiving {
    /// False leaves the workspace only.
    pub write: bool,
    /// Builds on the last run before this day instead of on the last run.
    pub since: Option<jiff::civil::Date>,
    /// Frees the space of archives of runs before this one, once the new archive is complete.
    pub remove_before: Option<u64>,
    /// Archive what has arrived when [`Settings::until`] ends the run.
    pub partial: bool,
    pub format: ArchiveFormat,
    /// Signs the archive.
    pub signing_key: Option<Arc<trust::SigningKey>>,
    /// A blob that does not fit into a file is an error; only for archives in the format of
    /// oc-mirror v2, as others have no such blobs.
    pub is_strict: bool,
}

impl Archiving {
    /// No archive.
    pub fn none() -> Self {
        Self {
            write: false,
            since: None,
            remove_before: None,
            partial: false,
            format: ArchiveFormat::Own,
            signing_key: None,
            is_strict: false,
        }
    }
}

/// The cache of oc-mirror v2 that content is taken from instead of a registry. It is only read.
#[derive(Debug, Clone)]
pub struct CacheChoice {
    /// The directory that `--cache-dir` names.
    pub directory: PathBuf,
    /// Whether a user named it. The default place is used only if there is a cache that no other
    /// process uses.
    pub is_named: bool,
}

impl CacheChoice {
    /// Opens the cache. A named directory without a cache causes a note: oc-mirror v2 would create
    /// the cache there.
    pub(crate) fn open(&self, notes: &mut Vec<String>) -> Result<Option<Cache>, Failure> {
        match Cache::find(&self.directory) {
            Ok(Some(cache)) => {
                tracing::info!("content is taken from the cache {}", cache.root().display());
                Ok(Some(cache))
            }
            Ok(None) if self.is_named => {
                notes.push(format!(
                    "--cache-dir: {} has no cache of oc-mirror v2; nothing is taken from it, and none is created",
                    self.directory.display()
                ));
                Ok(None)
            }
            Ok(None) => Ok(None),
            Err(error) if self.is_named => {
                let failure = Failure::new(Exit::GENERIC, chain(&error));
                Err(match error {
                    CacheError::InUse { .. } => failure
                        .with_hint("wait until that process has ended, or run without --cache-dir"),
                    CacheError::Disk(_) => failure,
                })
            }
            Err(error) => {
                notes.push(format!("nothing is taken from the cache: {}", chain(&error)));
                Ok(None)
            }
        }
    }
}

/// The rate of transfers changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaceChange {
    pub is_paused: bool,
    /// What is reported to the user, with the end of it.
    pub text: String,
}

/// All settings of a run. Created by the command line, read by all stages.
#[derive(Debug, Clone)]
pub struct Settings {
    pub workflow: Workflow,
    pub configuration: Configuration,
    /// How registries are talked to, per side. Nothing of one side reaches the other.
    pub source: registry::Settings,
    pub destination: registry::Settings,
    /// Images that are copied at once.
    pub parallel_images: NonZeroUsize,
    /// Layers that are copied at once, of each image.
    pub parallel_layers: NonZeroUsize,
    pub attachments: Attachments,
    /// Ask again for signatures of images that are already held.
    pub refresh_attachments: bool,
    pub releases: ReleaseSources,
    pub broken_bundles: BrokenBundles,
    /// Helm, to compare the images of charts with what it renders.
    pub helm_program: Option<PathBuf>,
    /// Images that it refuses fail. None: everything is let in.
    pub trust: Option<TrustPolicy>,
    pub max_nested_paths: Option<NonZeroUsize>,
    /// Mirror to mirror keeps all content in the workspace, as the other modes do.
    pub through_workspace: bool,
    /// Shards transfer the blobs.
    pub shards: Option<Arc<dyn ShardRunner>>,
    /// Shards write the archive of a run to disk, without this workspace.
    pub segments: Option<Arc<dyn SegmentRunner>>,
    /// Claims the target once the workspace is locked.
    pub claim: Option<Arc<dyn RunClaim>>,
    pub archiving: Archiving,
    /// Mirror to disk converts this workspace of oc-mirror v2 instead of sending requests to
    /// registries.
    pub migrate_from: Option<PathBuf>,
    /// Content of oc-mirror v2 on this machine.
    pub cache: Option<CacheChoice>,
    /// Archives that are pushed must be signed with this key.
    pub archive_key: Option<Arc<trust::VerifyingKey>>,
    /// Push archives of an interrupted or damaged run as far as they go.
    pub allow_incomplete: bool,
    /// Also write ImageContentSourcePolicy, for clusters before 4.13.
    pub content_source_policy: bool,
    /// Bound on one blob or manifest, retries included. None: only a stalled
    /// connection ends a transfer.
    pub transfer_timeout: Option<Duration>,
    /// When the run stops, whatever is left to do.
    pub until: Option<jiff::Timestamp>,
    /// What a timetable allows at the moment. None: there is no timetable.
    pub pace: Option<watch::Receiver<Option<PaceChange>>>,
    pub dry_run: DryRun,
    /// Execute this plan instead of making one.
    pub plan: Option<Arc<StoredPlan>>,
    /// Wait while another process uses the workspace, instead of ending with an error.
    pub wait_for_workspace: bool,
    /// The command line, for the audit log; redacted there.
    pub arguments: Vec<String>,
    /// Version of the program, for resources and records.
    pub version: String,
}

impl Settings {
    /// Whether the time to stop has come.
    pub(crate) fn is_past_deadline(&self) -> bool {
        self.until.is_some_and(|until| jiff::Timestamp::now() >= until)
    }

    /// How this run names images at `target`.
    pub(crate) fn naming(&self, target: &Target) -> Naming {
        Naming { target: target.clone(), max_nested_paths: self.max_nested_paths }
    }
}
