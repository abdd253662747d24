//! Which blobs archives have delivered, and where they are.
//!
//! The sealed indexes list them, but each repeats much of the one before. So a table has the blobs
//! by digest, in 1024 files: a run reads those of the blobs that it needs, however many runs there
//! were. The table can be built again from the indexes at any time.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use oci::Digest;
use serde::{Deserialize, Serialize};

use super::history::{Sealed, read_sealed};
use super::index::{BlobEntry, ChunkEntry};
use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError, unless_absent};

/// Where blobs are that earlier runs archived.
#[derive(Debug, Default)]
pub(crate) struct Delivered(BTreeMap<Digest, DeliveredBlob>);

/// A blob in an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DeliveredBlob {
    /// The run that archived it first.
    run: u64,
    #[serde(flatten)]
    blob: BlobEntry,
    /// The chunks that it is in.
    chunks: Vec<ChunkEntry>,
}

/// How much the table has.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    /// It has the archives of all runs up to this one.
    up_to: u64,
}

impl Delivered {
    /// Where a blob is that the runs up to `base` archived.
    pub(crate) fn held(&self, digest: &Digest, base: Option<u64>) -> Option<&BlobEntry> {
        let delivered = self.0.get(digest)?;
        (delivered.run <= base?).then_some(&delivered.blob)
    }

    /// A chunk that has one of the blobs.
    pub(crate) fn chunk(&self, number: u32) -> Option<&ChunkEntry> {
        let mut chunks = self.0.values().flat_map(|delivered| &delivered.chunks);
        chunks.find(|chunk| chunk.number == number)
    }
}

impl Workspace {
    /// Which of the `needed` blobs were archived. Writes nothing.
    pub(crate) fn delivered(&self, needed: &BTreeMap<Digest, u64>) -> Result<Delivered, DiskError> {
        let (state, mut blobs) = match self.delivered_state()? {
            State { up_to: 0 } => (State::default(), BTreeMap::new()),
            state => {
                let buckets: BTreeSet<u16> = needed.keys().map(bucket_of).collect();
                match self.read_buckets(&buckets)? {
                    Some(blobs) => (state, blobs),
                    None => (State::default(), BTreeMap::new()),
                }
            }
        };
        blobs.retain(|digest, _| needed.contains_key(digest));
        let mut seals = Seals::new(self);
        blobs.retain(|_, delivered| seals.has(delivered.run));
        for (_, path) in self.indexes_after(state)? {
            for (digest, delivered) in OwnBlobs::of(read_sealed(&path)?) {
                if needed.contains_key(&digest) {
                    blobs.entry(digest).or_insert(delivered);
                }
            }
        }
        Ok(Delivered(blobs))
    }

    /// Adds archives that were sealed since to the table, and to the list that scripts read.
    /// `created` is the time of the newest.
    pub(crate) fn note_delivered(&self, created: Timestamp) -> Result<(), DiskError> {
        let state = self.delivered_state()?;
        let added = match state.up_to {
            0 => None,
            _ => self.extend_table(state)?,
        };
        let (is_first, (added, up_to)) = match added {
            Some(added) => (false, added),
            // There is no table yet, or a file of it is damaged: all of it is built again.
            None => {
                let directory = self.delivered_directory();
                unless_absent(fs::remove_dir_all(&directory)).at("removing", &directory)?;
                (true, self.extend_table(State::default())?.unwrap_or_default())
            }
        };
        self.append_history_list(created, &added, is_first)?;
        write_json(&self.delivered_directory().join("state.json"), &State { up_to })
    }

    /// Adds the archives after `state`, file by file of the table. Returns the blobs that are new in
    /// it, and the last run; none if a file is damaged.
    fn extend_table(&self, state: State) -> Result<Option<(BTreeSet<Digest>, u64)>, DiskError> {
        let mut up_to = state.up_to;
        let mut new = Vec::new();
        for (run, path) in self.indexes_after(state)? {
            new.push(OwnBlobs::of(read_sealed(&path)?).peekable());
            up_to = up_to.max(run);
        }
        let mut seals = Seals::new(self);
        let mut added = BTreeSet::new();
        // All lists are in the order of digests, and so are the files of the table.
        let bucket = |next: &(Digest, DeliveredBlob)| bucket_of(&next.0);
        while let Some(number) = new.iter_mut().filter_map(|of| of.peek().map(bucket)).min() {
            let Some(mut known) = self.read_bucket(number)? else { return Ok(None) };
            let of_bucket = |of: &mut Peekable<OwnBlobs>| of.next_if(|next| bucket(next) == number);
            let blobs = new.iter_mut().flat_map(|of| std::iter::from_fn(|| of_bucket(of)));
            for (digest, delivered) in blobs {
                match known.entry(digest) {
                    Slot::Vacant(slot) => {
                        slot.insert(delivered);
                        added.insert(digest);
                    }
                    // Its archive was damaged by a power cut, and the blob is archived again.
                    Slot::Occupied(mut slot) if !seals.has(slot.get().run) => {
                        slot.insert(delivered);
                    }
                    Slot::Occupied(_) => {}
                }
            }
            let blobs: Vec<&DeliveredBlob> = known.values().collect();
            write_json(&self.bucket_path(number), &blobs)?;
        }
        Ok(Some((added, up_to)))
    }

    fn indexes_after(&self, state: State) -> Result<Vec<(u64, PathBuf)>, DiskError> {
        let mut indexes = self.indexes(".json")?;
        indexes.retain(|(run, _)| *run > state.up_to);
        Ok(indexes)
    }

    /// The blobs in some files of the table; none if one of these is damaged.
    fn read_buckets(
        &self,
        buckets: &BTreeSet<u16>,
    ) -> Result<Option<BTreeMap<Digest, DeliveredBlob>>, DiskError> {
        let mut blobs = BTreeMap::new();
        for number in buckets {
            let Some(known) = self.read_bucket(*number)? else { return Ok(None) };
            blobs.extend(known);
        }
        Ok(Some(blobs))
    }

    /// The blobs in one file of the table; none if it is damaged.
    fn read_bucket(
        &self,
        number: u16,
    ) -> Result<Option<BTreeMap<Digest, DeliveredBlob>>, DiskError> {
        let path = self.bucket_path(number);
        let Some(text) = unless_absent(fs::read(&path)).at("reading", &path)? else {
            return Ok(Some(BTreeMap::new()));
        };
        let listed = serde_json::from_slice::<Vec<DeliveredBlob>>(&text).ok();
        let keyed = |delivered: DeliveredBlob| (delivered.blob.digest, delivered);
        Ok(listed.map(|listed| listed.into_iter().map(keyed).collect()))
    }

    fn delivered_state(&self) -> Result<State, DiskError> {
        let path = self.delivered_directory().join("state.json");
        let text = unless_absent(fs::read(&path)).at("reading", &path)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default())
    }

    fn delivered_directory(&self) -> PathBuf {
        self.internal().join("delivered")
    }

    fn bucket_path(&self, number: u16) -> PathBuf {
        self.delivered_directory().join(format!("{number:03x}.json"))
    }

    /// Writes `.history/.history-<time>`: the digests of everything archived so far, one per line,
    /// where scripts of oc-mirror's users expect it. The lists share one file, to which `added` is
    /// appended: each list would otherwise repeat the one before.
    fn append_history_list(
        &self,
        created: Timestamp,
        added: &BTreeSet<Digest>,
        is_first: bool,
    ) -> Result<(), DiskError> {
        let directory = self.working_dir().join(".history");
        let path = directory.join(format!(".history-{}", created.strftime("%Y-%m-%dT%H:%M:%SZ")));
        let before = if is_first { None } else { newest_history(&directory)? };
        let lines: String = added.iter().map(|digest| format!("{digest}\n")).collect();
        let written = match before {
            Some(before) => {
                let linked = before == path || fs::hard_link(&before, &path).is_ok();
                if !linked {
                    fs::copy(&before, &path).at("writing", &path)?;
                }
                let file = OpenOptions::new().append(true).open(&path);
                file.and_then(|mut file| file.write_all(lines.as_bytes())).at("writing", &path)
            }
            None => atomic_file::write(&path, lines.as_bytes(), Durability::Later),
        };
        match written {
            // FAT and exFAT allow no colons in names. Nothing of ours reads this.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let path = path.display();
                tracing::warn!("not writing {path}: its name does not suit the filesystem");
                Ok(())
            }
            written => written,
        }
    }
}

/// The newest list; names end in times, so the last by name.
fn newest_history(directory: &Path) -> Result<Option<PathBuf>, DiskError> {
    let entries = unless_absent(fs::read_dir(directory)).at("reading", directory)?;
    let mut newest = None;
    for entry in entries.into_iter().flatten() {
        let entry = entry.at("reading", directory)?;
        if entry.file_name().to_string_lossy().starts_with(".history-") {
            newest = newest.max(Some(entry.path()));
        }
    }
    Ok(newest)
}

/// Which archives are sealed; each is looked up once. One that a power cut damaged is not.
struct Seals<'w> {
    workspace: &'w Workspace,
    known: BTreeMap<u64, bool>,
}

impl<'w> Seals<'w> {
    fn new(workspace: &'w Workspace) -> Self {
        Self { workspace, known: BTreeMap::new() }
    }

    fn has(&mut self, run: u64) -> bool {
        let workspace = self.workspace;
        *self.known.entry(run).or_insert_with(|| workspace.sealed_path(run).exists())
    }
}

/// The file of the table that a blob is in: by the first ten bits of its digest.
fn bucket_of(digest: &Digest) -> u16 {
    u16::from_str_radix(&digest.hex()[..3], 16).unwrap_or_default() >> 2
}

/// The blobs that a run archived itself, in the order of their digests. Entries of the table are made
/// one by one, as they take much more memory than the index.
struct OwnBlobs {
    run: u64,
    chunks: BTreeMap<u32, ChunkEntry>,
    blobs: std::vec::IntoIter<BlobEntry>,
}

impl OwnBlobs {
    fn of(sealed: Sealed) -> Self {
        let Sealed { run, mut blobs, chunks, .. } = sealed;
        let own = chunks.into_iter().filter(|chunk| chunk.run == run);
        blobs.sort_by_key(|blob| blob.digest);
        Self {
            run,
            chunks: own.map(|chunk| (chunk.number, chunk)).collect(),
            blobs: blobs.into_iter(),
        }
    }

    /// The entry of a blob, if all of it is in chunks of this run.
    fn delivered(&self, blob: BlobEntry) -> Option<DeliveredBlob> {
        let parts = blob.parts.iter().map(|part| self.chunks.get(&part.chunk).copied());
        let mut chunks = parts.collect::<Option<Vec<ChunkEntry>>>()?;
        chunks.dedup();
        (!chunks.is_empty()).then_some(DeliveredBlob { run: self.run, blob, chunks })
    }
}

impl Iterator for OwnBlobs {
    type Item = (Digest, DeliveredBlob);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let blob = self.blobs.next()?;
            if let Some(delivered) = self.delivered(blob) {
                return Some((delivered.blob.digest, delivered));
            }
        }
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), DiskError> {
    let text = serde_json::to_vec(value).map_err(io::Error::other).at("writing", path)?;
    atomic_file::write(path, &text, Durability::Later)
}
