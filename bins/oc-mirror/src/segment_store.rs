//! A run whose archive pods write, in the bucket or volume that the archive goes to.
//!
//! ```text
//! PREFIX/oc-mirror-runs/NAME/run.json        digests of the files below
//! PREFIX/oc-mirror-runs/NAME/index.json      the index of the archive
//! PREFIX/oc-mirror-runs/NAME/part-I.json     what shard I fetches and writes
//! PREFIX/oc-mirror-runs/NAME/mirror_N.tar    files of the archive, until all are there
//! PREFIX/oc-mirror-runs/NAME/shard-I.json    what shard I did
//! PREFIX/oc-mirror-runs/active.json          which run writes to this place (`archive_claim.rs`)
//! ```
//!
//! Pods get the digest of `run.json` with their arguments, so that nothing can be replaced after it
//! was planned.

use std::path::Path;

use archive_store::{ArchiveLocation, ArchiveStore, StoreError, StoredFile};
use mirror::{OwnSegment, SegmentIndex, ShardReport};
use mirror_plan::{PartError, ShardPart};
use oci::Digest;
use serde::{Deserialize, Serialize};
use workspace::archive::first_block;

use crate::object_store::{START, StoreArguments};

/// Where runs and claims are, below archives.
pub(crate) const RUNS: &str = "oc-mirror-runs";
const RUN: &str = "run.json";
const INDEX: &str = "index.json";
/// Far above anything that is read here.
const MAX_BYTES: u64 = 1 << 30;

/// What a run consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SegmentRun {
    pub(crate) index: Digest,
    pub(crate) parts: Vec<Digest>,
    /// Files that shards write: number and length.
    pub(crate) files: Vec<(u32, u64)>,
    /// Files that the command wrote, if pods complete the archive. They are published last: an archive
    /// without them is not complete for its readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) own: Vec<(u32, u64)>,
}

impl SegmentRun {
    /// All files that are stored, in the order in which they are published.
    fn all(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.files.iter().chain(&self.own).copied()
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.all().map(|(number, _)| number).collect()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentStoreError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "invalid value for --run: expected s3://BUCKET/PREFIX@DIGEST or file://DIR@DIGEST, found {0:?}"
    )]
    Name(String),
    #[error("{name} of the run was modified: expected the digest {expected}, found {found}")]
    Modified { name: String, expected: Digest, found: Digest },
    #[error("{name} of the run cannot be read: {reason}")]
    Malformed { name: String, reason: String },
    #[error("the run has no shard {0}")]
    NoShard(u32),
    #[error(transparent)]
    Part(#[from] PartError),
    #[error("{0} is not in the bucket, although its shard reported that it is")]
    NotStaged(String),
    #[error(
        "the destination has another archive with the name {0}, of another workspace: use another prefix or volume for each workspace"
    )]
    Occupied(String),
}

impl SegmentStoreError {
    /// Whether a later attempt may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
    }
}

/// The files of one run.
#[derive(Debug)]
pub(crate) struct SegmentStore {
    store: ArchiveStore,
    place: ArchiveLocation,
}

pub(crate) fn file_name(number: u32) -> String {
    format!("mirror_{number:06}.tar")
}

pub(crate) fn file_names(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| file_name(*number)).collect()
}

fn part_name(shard: usize) -> String {
    format!("part-{shard}.json")
}

fn report_name(shard: u32) -> String {
    format!("shard-{shard}.json")
}

impl SegmentStore {
    /// The run of this name below the place of archives.
    pub(crate) fn of_run(
        archives: &ArchiveLocation,
        name: &str,
        arguments: &StoreArguments,
    ) -> Result<Self, SegmentStoreError> {
        let place = archives.join(RUNS).join(name);
        Ok(Self { store: arguments.open(&place)?, place })
    }

    /// The run in the arguments of a pod, and the digest that its list must have.
    pub(crate) fn of_pod(
        run: &str,
        arguments: &StoreArguments,
    ) -> Result<(Self, Digest), SegmentStoreError> {
        let parsed = run.rsplit_once('@').and_then(|(place, digest)| {
            Some((place.parse::<ArchiveLocation>().ok()?, digest.parse::<Digest>().ok()?))
        });
        let (place, digest) = parsed.ok_or_else(|| SegmentStoreError::Name(run.to_owned()))?;
        Ok((Self { store: arguments.open(&place)?, place }, digest))
    }

    /// Where the archives are that the run adds to.
    pub(crate) fn archives(&self) -> Option<ArchiveLocation> {
        self.place.parent()?.parent()
    }

    /// Stores a run, with the files that the command wrote. These are moved. Returns the argument of
    /// pods.
    pub(crate) async fn store(
        &self,
        parts: &[ShardPart],
        index: SegmentIndex<'_>,
        own: &[OwnSegment],
    ) -> Result<String, SegmentStoreError> {
        let mut digests = Vec::new();
        for (shard, part) in parts.iter().enumerate() {
            let text = part.to_text()?.into_bytes();
            digests.push(Digest::of(&text));
            self.store.put(&part_name(shard), text).await?;
        }
        self.store.put(INDEX, index.text.to_vec()).await?;
        for OwnSegment { number, path, .. } in own {
            self.move_in(path, *number).await?;
        }
        let run = SegmentRun {
            index: index.digest,
            parts: digests,
            files: index.files.to_vec(),
            own: own.iter().map(|own| (own.number, own.length)).collect(),
        };
        let text = serde_json::to_vec_pretty(&run).map_err(|error| malformed(RUN, &error))?;
        let digest = Digest::of(&text);
        self.store.put(RUN, text).await?;
        Ok(format!("{}@{digest}", self.place))
    }

    /// Stores a file, and removes it where it was: it is not an archive there.
    async fn move_in(&self, path: &Path, number: u32) -> Result<(), SegmentStoreError> {
        let unmoved = |source| StoreError::Write { path: path.to_owned(), source };
        match &self.place {
            // The same volume.
            ArchiveLocation::Directory(to) => {
                std::fs::rename(path, to.join(file_name(number))).map_err(unmoved)?;
            }
            ArchiveLocation::Bucket { .. } => {
                self.upload(path, number).await?;
                std::fs::remove_file(path).map_err(unmoved)?;
            }
        }
        Ok(())
    }

    /// Reads the list of a run.
    pub(crate) async fn run(&self, digest: &Digest) -> Result<SegmentRun, SegmentStoreError> {
        let text = self.read(RUN, digest).await?;
        serde_json::from_slice(&text).map_err(|error| malformed(RUN, &error))
    }

    /// Reads the part of a shard.
    pub(crate) async fn part(
        &self,
        run: &SegmentRun,
        shard: u32,
    ) -> Result<ShardPart, SegmentStoreError> {
        let at = shard as usize;
        let digest = run.parts.get(at).ok_or(SegmentStoreError::NoShard(shard))?;
        let name = part_name(at);
        let text = String::from_utf8(self.read(&name, digest).await?);
        Ok(ShardPart::from_text(&text.map_err(|error| malformed(&name, &error))?)?)
    }

    /// Reads the index of the archive.
    pub(crate) async fn index(&self, run: &SegmentRun) -> Result<Vec<u8>, SegmentStoreError> {
        self.read(INDEX, &run.index).await
    }

    async fn read(&self, name: &str, expected: &Digest) -> Result<Vec<u8>, SegmentStoreError> {
        let bytes = self.store.start_of(name, MAX_BYTES).await?;
        let found = Digest::of(&bytes);
        match found == *expected {
            true => Ok(bytes),
            false => {
                let (name, expected) = (name.to_owned(), *expected);
                Err(SegmentStoreError::Modified { name, expected, found })
            }
        }
    }

    /// The files of a run that are not stored yet.
    pub(crate) async fn missing(
        &self,
        run: &SegmentRun,
        numbers: &[u32],
    ) -> Result<Vec<u32>, SegmentStoreError> {
        let stored = self.store.list().await?;
        let is_stored = |number: &u32| {
            let length = run.all().find(|(known, _)| known == number).map(|(_, length)| length);
            let has =
                |file: &StoredFile| file.name == file_name(*number) && Some(file.size) == length;
            stored.iter().any(has)
        };
        Ok(numbers.iter().copied().filter(|number| !is_stored(number)).collect())
    }

    /// Stores a file of the archive.
    pub(crate) async fn upload(&self, path: &Path, number: u32) -> Result<(), SegmentStoreError> {
        Ok(self.store.upload(path, &file_name(number)).await?)
    }

    pub(crate) async fn store_report(&self, report: &ShardReport) -> Result<(), SegmentStoreError> {
        let name = report_name(report.shard);
        let text = serde_json::to_vec_pretty(report).map_err(|error| malformed(&name, &error))?;
        Ok(self.store.put(&name, text).await?)
    }

    /// What a shard did; none if it has not ended.
    pub(crate) async fn report(
        &self,
        shard: u32,
    ) -> Result<Option<ShardReport>, SegmentStoreError> {
        let name = report_name(shard);
        match self.store.start_of(&name, MAX_BYTES).await {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|error| malformed(&name, &error))
            }
            Err(StoreError::Absent { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Withdraws the failures of an earlier execution, so that a new one does not end because of them.
    pub(crate) async fn withdraw_failures(&self, shards: u32) -> Result<(), SegmentStoreError> {
        for shard in 0..shards {
            if self.report(shard).await?.is_some_and(|report| !report.ending.is_done()) {
                self.store.remove(&report_name(shard)).await?;
            }
        }
        Ok(())
    }

    /// Makes the files of the run files of the archives, once all are there.
    pub(crate) async fn publish(
        &self,
        run: &SegmentRun,
        index_length: u64,
        archives: &ArchiveStore,
    ) -> Result<(), SegmentStoreError> {
        let numbers = unpublished(run, index_length, archives).await?;
        if let Some(number) = self.missing(run, &numbers).await?.first() {
            return Err(SegmentStoreError::NotStaged(file_name(*number)));
        }
        for number in numbers {
            self.store.copy_to(&file_name(number), archives).await?;
        }
        Ok(())
    }

    /// Removes what a run left that is complete, also parts of uploads of killed pods.
    pub(crate) async fn remove(&self) -> Result<(), SegmentStoreError> {
        self.store.abort_unfinished().await?;
        for file in self.store.list().await? {
            self.store.remove(&file.name).await?;
        }
        self.store.remove_if_empty();
        Ok(())
    }
}

/// The files of a run that are not among the archives yet.
///
/// # Errors
/// The place has another file of the same name, which must not be replaced.
pub(crate) async fn unpublished(
    run: &SegmentRun,
    index_length: u64,
    archives: &ArchiveStore,
) -> Result<Vec<u32>, SegmentStoreError> {
    let there = archives.list().await?;
    let mut numbers = Vec::new();
    for (number, length) in run.all() {
        let name = file_name(number);
        let Some(file) = there.iter().find(|file| file.name == name) else {
            numbers.push(number);
            continue;
        };
        let expected = first_block(number, &run.index, index_length);
        if file.size != length || archives.start_of(&name, START).await? != expected {
            return Err(SegmentStoreError::Occupied(name));
        }
    }
    Ok(numbers)
}

fn malformed(name: &str, error: &dyn std::error::Error) -> SegmentStoreError {
    SegmentStoreError::Malformed { name: name.to_owned(), reason: error.to_string() }
}
