//! The part of one shard, as a document. It has no secrets: names, digests and sizes only.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use oci::{Digest, RegistryHost, Repository};
use serde::{Deserialize, Serialize};

use crate::{BlobRef, SealError, Sealing, unseal};

const SCHEMA: &str = "oc-mirror/shard";
/// Raised when a reader of the old form would misread the new.
const VERSION: u32 = 2;

/// What all shards of a run have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunIdentity {
    /// Digest of the stored plan: the name of the run.
    pub plan: Digest,
    /// Name and version of the program that made the plan. A shard of another version may
    /// understand it differently.
    pub program: String,
}

/// Where the content of images comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContentSource {
    Registry {
        registry: RegistryHost,
        repository: Repository,
    },
    /// An OCI layout in a directory.
    Layout {
        path: PathBuf,
    },
    /// The workspace for what was built there, and where the rest comes from.
    Built {
        base: Option<Box<ContentSource>>,
    },
}

/// What one shard transfers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardPart {
    schema: String,
    version: u32,
    pub run: RunIdentity,
    /// From 0.
    pub shard: u32,
    pub shards: u32,
    /// The registry that content goes to; none: the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryHost>,
    /// Archives that have some of the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archives: Vec<PartArchive>,
    /// Files of an archive that the shard writes from the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<PartSegment>,
    pub repositories: Vec<PartRepository>,
    pub sources: Vec<ContentSource>,
    pub blobs: Vec<PartBlob>,
    pub needs: Vec<PartNeed>,
}

/// The part of an archive that a shard writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartSegment {
    /// Digest of the index of the archive.
    pub index: Digest,
    /// Numbers of files.
    pub chunks: Vec<u32>,
}

/// A file of an archive, and what of it a shard reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartArchive {
    pub file: String,
    /// Of the whole file.
    pub length: u64,
    /// Digest of its first 512 bytes, which name the index of the archive: a file that was replaced
    /// by one of the same length differs there. None in parts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Digest>,
    /// From where to where, sorted; they do not touch each other.
    pub ranges: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartRepository {
    pub name: Repository,
    /// It held nothing when the plan was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_new: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartBlob {
    #[serde(flatten)]
    pub blob: BlobRef,
    /// Repository of the target that has it, by place in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u32>,
}

/// Blobs that one image needs, by places in the lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartNeed {
    pub repository: u32,
    pub source: u32,
    pub blobs: Vec<u32>,
}

/// Why a part cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    #[error("the part of the shard is rejected")]
    Seal(#[from] SealError),
    #[error("the part of the shard cannot be read as JSON")]
    Json(#[source] serde_json::Error),
    #[error("the part of the shard cannot be written as JSON")]
    Write(#[from] io::Error),
    #[error(
        "expected a document of the schema {SCHEMA:?} version {VERSION}, found {schema:?} version {version}"
    )]
    Schema { schema: String, version: u32 },
    #[error("the part of the shard is damaged: a need refers to a {what} that it does not list")]
    Stray { what: &'static str },
    #[error("the part of the shard is damaged: it has no valid ranges of the archive {file:?}")]
    Archive { file: String },
    #[error(
        "expected shard {expected} of run {expected_run}, found shard {found} of run {found_run}"
    )]
    Other { expected: u32, expected_run: Digest, found: u32, found_run: Digest },
    #[error(
        "the plan was made by {planned}, and this is {running}: all shards of a run must have the same version"
    )]
    Program { planned: String, running: String },
}

impl ShardPart {
    pub(super) fn new(
        run: RunIdentity,
        (shard, shards): (u32, u32),
        registry: Option<RegistryHost>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            run,
            shard,
            shards,
            registry,
            archives: Vec::new(),
            segment: None,
            repositories: Vec::new(),
            sources: Vec::new(),
            blobs: Vec::new(),
            needs: Vec::new(),
        }
    }

    pub(super) fn add_repository(&mut self, name: &Repository, is_new: bool) -> u32 {
        self.repositories.push(PartRepository { name: name.clone(), is_new });
        last(self.repositories.len())
    }

    pub(super) fn add_source(&mut self, source: &ContentSource) -> u32 {
        self.sources.push(source.clone());
        last(self.sources.len())
    }

    pub(super) fn add_blob(&mut self, blob: BlobRef, held: Option<u32>) -> u32 {
        self.blobs.push(PartBlob { blob, held });
        last(self.blobs.len())
    }

    /// Bytes that the target does not have, as far as was known when the plan was made.
    pub fn bytes(&self) -> u64 {
        let missing = self.blobs.iter().filter(|blob| blob.held.is_none());
        missing.fold(0, |sum: u64, blob| sum.saturating_add(blob.blob.size))
    }

    /// The document, with a digest of its text in the last line.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_text(&self) -> Result<String, PartError> {
        // The encoder writes a few bytes at a time.
        let mut out = BufWriter::new(Sealing::new(Vec::new()));
        serde_json::to_writer_pretty(&mut out, self).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        let sealing = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(String::from_utf8(sealing.finish()?).map_err(io::Error::other)?)
    }

    /// Reads what [`ShardPart::to_text`] wrote.
    ///
    /// # Errors
    /// The text was edited, is of another version, or refers to what it does not list.
    pub fn from_text(text: &str) -> Result<Self, PartError> {
        #[derive(Deserialize)]
        struct Header {
            schema: String,
            version: u32,
        }
        let json = unseal(text)?;
        let Header { schema, version } = serde_json::from_str(&json).map_err(PartError::Json)?;
        if (schema.as_str(), version) != (SCHEMA, VERSION) {
            return Err(PartError::Schema { schema, version });
        }
        let part: Self = serde_json::from_str(&json).map_err(PartError::Json)?;
        let is_stray = |place: &u32, count: usize| *place as usize >= count;
        let stray = |what| Err(PartError::Stray { what });
        for need in &part.needs {
            if is_stray(&need.repository, part.repositories.len()) {
                return stray("repository");
            }
            if is_stray(&need.source, part.sources.len()) {
                return stray("source");
            }
            if need.blobs.iter().any(|blob| is_stray(blob, part.blobs.len())) {
                return stray("blob");
            }
        }
        let is_name =
            |file: &str| !file.is_empty() && !file.contains('/') && !file.starts_with('.');
        let is_usable = |archive: &&PartArchive| is_name(&archive.file) && archive.is_ordered();
        if let Some(archive) = part.archives.iter().find(|archive| !is_usable(archive)) {
            return Err(PartError::Archive { file: archive.file.clone() });
        }
        let mut holders = part.blobs.iter().filter_map(|blob| blob.held.as_ref());
        if holders.any(|holder| is_stray(holder, part.repositories.len())) {
            return stray("repository");
        }
        Ok(part)
    }

    /// Whether this is the part of that shard, made by the program that reads it.
    ///
    /// # Errors
    /// It is for another shard or run, or was made by another version.
    pub fn check(&self, expected: &RunIdentity, shard: u32) -> Result<(), PartError> {
        if self.run.program != expected.program {
            let (planned, running) = (self.run.program.clone(), expected.program.clone());
            return Err(PartError::Program { planned, running });
        }
        if (self.shard, self.run.plan) != (shard, expected.plan) {
            return Err(PartError::Other {
                expected: shard,
                expected_run: expected.plan,
                found: self.shard,
                found_run: self.run.plan,
            });
        }
        Ok(())
    }
}

impl PartArchive {
    /// Whether all ranges are in the file, one after the other.
    fn is_ordered(&self) -> bool {
        let ends = self.ranges.iter().map(|(_, end)| *end);
        let starts = self.ranges.iter().skip(1).map(|(start, _)| *start);
        self.ranges.iter().all(|(start, end)| start < end && *end <= self.length)
            && ends.zip(starts).all(|(end, start)| end < start)
    }

    /// Bytes that are read.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}

/// The place of the last of `count` entries.
///
/// # Panics
/// Never for lists that fit into memory.
fn last(count: usize) -> u32 {
    u32::try_from(count - 1).expect("a plan has fewer than 2³² blobs")
}
