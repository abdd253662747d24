//! Replaces damaged or missing content of a workspace, from where the images that need it came.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mirror_plan::{BlobRef, Origin};
use oci::{Digest, ImageRef, Pointer};
use registry::{Blob, Client, Location};
use workspace::{BlobError, BlobStore, Damage, DamagedBlob, Lock, Need, RecordError, Workspace};

use crate::error_chain::chain;
use crate::fault::{EngineError, Fault};

/// What became of damaged content.
#[derive(Debug, Default)]
pub struct Repaired {
    /// Content that was replaced, and its bytes.
    pub blobs: usize,
    pub bytes: u64,
    /// Damaged content that nothing needs, and that was removed.
    pub removed: usize,
    pub failed: Vec<NotRepaired>,
}

/// Content that could not be replaced.
#[derive(Debug)]
pub struct NotRepaired {
    pub blob: DamagedBlob,
    /// One reason for each source that was tried.
    pub reasons: Vec<String>,
    /// Whether a run of the configuration can supply it: not if registries did not respond.
    pub a_run_may_help: bool,
}

/// Why one source did not replace content.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error("its record no longer exists")]
    NoRecord,
    #[error("its record does not name it any more")]
    NotNamed,
    #[error("it was built by a run; only a run builds it again")]
    BuiltByRun,
    #[error("{0} does not exist any more")]
    Absent(Box<ImageRef>),
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error(transparent)]
    Store(#[from] BlobError),
    /// A copy on this machine is not what it should be.
    #[error(transparent)]
    Copy(BlobError),
}

impl EngineError for Cause {
    fn fault(&self) -> Fault {
        match self {
            Self::NoRecord | Self::NotNamed | Self::BuiltByRun => Fault::NotHeld,
            Self::Absent(_) => Fault::SourceAbsent,
            Self::Read { .. } | Self::Record(_) => Fault::Disk,
            Self::Registry(error) => Fault::of_source(error),
            Self::Store(error) | Self::Copy(error) => Fault::of_store(error),
        }
    }
}

impl Cause {
    /// Whether a run can supply the content: one that cannot write to the workspace, or to which
    /// the registry does not respond, fails in the same way. Content that no longer exists may be
    /// selected under another digest now.
    fn a_run_may_help(&self) -> bool {
        match self {
            // A run reads the original instead.
            Self::Read { .. } | Self::Record(_) | Self::Copy(_) => true,
            _ => matches!(self.fault(), Fault::NotHeld | Fault::SourceAbsent),
        }
    }
}

/// What a source must give.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Manifest(Digest),
    Blob(BlobRef),
}

/// Replaces what `damaged` lists. What is wrong is removed first: it cannot be used, and a run that
/// is killed leaves a gap that the next run fills. `progress` is called with what is being
/// replaced.
pub async fn repair_workspace(
    client: &Client,
    workspace: &Workspace,
    _lock: &Lock,
    damaged: Vec<DamagedBlob>,
    progress: &(dyn Fn(&Digest) + Sync),
) -> Repaired {
    let mut repaired = Repaired::default();
    for blob in damaged {
        progress(&blob.digest);
        if blob.damage != Damage::Missing
            && let Err(error) = workspace.blobs().remove(&blob.digest)
        {
            let (reasons, a_run_may_help) = (vec![chain(&error)], false);
            repaired.failed.push(NotRepaired { blob, reasons, a_run_may_help });
            continue;
        }
        if blob.needed_by.is_empty() {
            repaired.removed += 1;
            continue;
        }
        match replace(client, workspace, &blob).await {
            Ok(bytes) => {
                repaired.blobs += 1;
                repaired.bytes += bytes;
            }
            Err(causes) => {
                let a_run_may_help = causes.iter().any(|(_, cause)| cause.a_run_may_help());
                let reasons =
                    causes.iter().map(|(need, cause)| format!("{need}: {}", chain(cause)));
                let reasons = reasons.collect();
                repaired.failed.push(NotRepaired { blob, reasons, a_run_may_help });
            }
        }
    }
    repaired
}

/// Tries each source in turn.
async fn replace(
    client: &Client,
    workspace: &Workspace,
    damaged: &DamagedBlob,
) -> Result<u64, Vec<(String, Cause)>> {
    let mut causes = Vec::new();
    for need in &damaged.needed_by {
        let replaced = match need {
            Need::Document(name) => restore_document(workspace, name, &damaged.digest),
            Need::Image(origin) => fetch(client, workspace, origin, &damaged.digest).await,
        };
        match replaced {
            Ok(bytes) => return Ok(bytes),
            Err(cause) => causes.push((need.to_string(), cause)),
        }
    }
    Err(causes)
}

/// Documents are kept as files with names, too.
fn restore_document(workspace: &Workspace, name: &str, digest: &Digest) -> Result<u64, Cause> {
    let path = workspace.working_dir().join(name);
    let bytes = fs::read(&path).map_err(|source| Cause::Read { path, source })?;
    workspace.blobs().put(digest, &bytes).map_err(Cause::Copy)?;
    Ok(bytes.len() as u64)
}

async fn fetch(
    client: &Client,
    workspace: &Workspace,
    origin: &Origin,
    digest: &Digest,
) -> Result<u64, Cause> {
    let record = workspace.record(origin)?.ok_or(Cause::NoRecord)?;
    let is_manifest = record.tree.all_manifests().any(|node| node.digest == *digest);
    let wanted = match (is_manifest, record.tree.blobs().get(digest)) {
        (true, _) => Wanted::Manifest(*digest),
        (false, Some(size)) => Wanted::Blob(BlobRef { digest: *digest, size: *size }),
        (false, None) => return Err(Cause::NotNamed),
    };
    match origin {
        Origin::Registry(image) => from_registry(client, workspace.blobs(), image, wanted).await,
        Origin::Layout(path) => from_layout(workspace.blobs(), path.as_ref(), digest),
        Origin::Made(_) => Err(Cause::BuiltByRun),
    }
}

async fn from_registry(
    client: &Client,
    store: &BlobStore,
    image: &ImageRef,
    wanted: Wanted,
) -> Result<u64, Cause> {
    match wanted {
        Wanted::Manifest(digest) => {
            let at = image.with_pointer(Pointer::Digest(digest));
            let raw = client.manifest(&at).await?;
            let raw = raw.ok_or_else(|| Cause::Absent(Box::new(at)))?;
            store.put(&digest, &raw.bytes)?;
            Ok(raw.bytes.len() as u64)
        }
        Wanted::Blob(blob) => {
            let mut partial = store.begin(&blob.digest, blob.size)?;
            let requested = Blob { digest: blob.digest, size: blob.size };
            let from = Location::from(image);
            let mut stream = client.blob(&from, requested, partial.offset()).await?;
            while let Some(piece) = stream.chunk().await? {
                partial.write(&piece)?;
            }
            partial.finish()?;
            Ok(blob.size)
        }
    }
}

/// A directory in the format of the image layout specification, on this machine.
fn from_layout(store: &BlobStore, layout: &Path, digest: &Digest) -> Result<u64, Cause> {
    let path = layout.join("blobs/sha256").join(digest.hex());
    let failed = |source: io::Error| Cause::Read { path: path.clone(), source };
    let mut file = fs::File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut partial = store.begin(digest, size).map_err(Cause::Copy)?;
    let mut buffer = vec![0; 1 << 20];
    let mut skip = partial.offset();
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            break;
        }
        let known = usize::try_from(skip).unwrap_or(count).min(count);
        skip -= known as u64;
        partial.write(&buffer[known..count]).map_err(Cause::Copy)?;
    }
    partial.finish().map_err(Cause::Copy)?;
    Ok(size)
}
