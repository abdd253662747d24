//! An archive that several processes write: one plans it and writes what it has itself, the others
//! write the chunks that they own.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

use oci::Digest;

use super::index::{Index, IndexError};
use super::prepare::{ArchiveError, PlannedArchive};
use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError};
use crate::lock::Lock;

/// Why an index that another process made cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error("the index of the archive cannot be used")]
    Index(#[from] IndexError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Workspace {
    /// Begins an archive of which others write a part. Returns the text of its index, which they need.
    pub fn begin_segments(
        &self,
        _lock: &Lock,
        planned: &PlannedArchive,
    ) -> Result<Vec<u8>, ArchiveError> {
        self.begin(planned)?;
        let path = self.pending_path(planned.index.run);
        Ok(fs::read(&path).at("reading", &path)?)
    }

    /// Writes the chunks that others do not write, for others to complete the archive.
    pub fn write_own_segments(
        &self,
        _lock: &Lock,
        planned: &PlannedArchive,
        is_own: &dyn Fn(u32) -> bool,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Vec<PathBuf>, ArchiveError> {
        self.write_chunks(planned, None, is_own, progress)
    }

    /// Archives that were begun here and are not sealed: others may have completed them.
    pub fn begun_segments(&self) -> Result<Vec<PlannedArchive>, ArchiveError> {
        let pending = self.pending()?.into_iter().filter_map(|pending| {
            Some(PlannedArchive {
                index: pending.index?,
                index_digest: pending.digest,
                index_length: pending.length,
                resumed: true,
            })
        });
        Ok(pending.collect())
    }

    /// Seals an archive that others completed: all its chunks are in their place.
    pub fn seal_complete(
        &self,
        _lock: &Lock,
        planned: &PlannedArchive,
    ) -> Result<(), ArchiveError> {
        self.seal(planned)
    }

    /// Writes the chunks that others do not write, and seals the archive. All others are complete.
    pub fn seal_segments(
        &self,
        _lock: &Lock,
        planned: &PlannedArchive,
        is_own: &dyn Fn(u32) -> bool,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Vec<PathBuf>, ArchiveError> {
        let chunks = self.write_chunks(planned, None, is_own, progress)?;
        self.seal(planned)?;
        Ok(chunks)
    }

    /// Takes the index of an archive over, to write chunks of it.
    pub fn take_segments(
        &self,
        text: &[u8],
        digest: &Digest,
    ) -> Result<PlannedArchive, SegmentError> {
        let length = text.len() as u64;
        let open = || -> io::Result<Box<dyn Read + '_>> { Ok(Box::new(text)) };
        let index = Index::read(open, length, digest)?;
        let path = self.pending_path(index.run);
        let is_known = File::open(&path).is_ok_and(|mut file| {
            let mut known = Vec::new();
            file.read_to_end(&mut known).is_ok_and(|_| known == text)
        });
        if !is_known {
            atomic_file::write(&path, text, Durability::Later)?;
        }
        Ok(PlannedArchive { index, index_digest: *digest, index_length: length, resumed: true })
    }

    /// Writes one chunk, whose content is in the store.
    pub fn write_segment(
        &self,
        planned: &PlannedArchive,
        number: u32,
    ) -> Result<Option<PathBuf>, ArchiveError> {
        let written = self.write_chunks(planned, None, &|chunk| chunk == number, &mut |_| {})?;
        Ok(written.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{ArchivePlan, Archives};
    use crate::sample;

    #[test]
    fn chunks_of_several_workspaces_are_one_archive() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| Workspace::open(&dir.path().join(name));
        let (main, helper) = (place("main"), place("helper"));
        let all = sample::image(main.blobs(), "q.io/a:1", b"layer");
        let layer = Digest::of(b"layer");
        // The layer is with the helper only.
        sample::image(helper.blobs(), "q.io/a:1", b"layer");
        fs::remove_file(main.blobs().path(&layer)).unwrap();
        let lock = main.lock(&[]).unwrap();
        let request = sample::archive_request(1, vec![all]);
        let owner = |digest: &Digest| (*digest == layer).then_some(0);
        let ArchivePlan::Write(planned) = main.plan_segments(request, &owner).unwrap() else {
            panic!("nothing is planned")
        };
        let numbers: Vec<u32> = planned.index().own_chunks().map(|chunk| chunk.number).collect();
        assert_eq!(numbers, [1, 2]);
        let text = main.begin_segments(&lock, &planned).unwrap();
        let digest = planned.index_digest();
        let taken = helper.take_segments(&text, &digest).unwrap();
        assert!(helper.take_segments(&text[1..], &digest).is_err());
        let written = helper.write_segment(&taken, 2).unwrap().unwrap();
        let own = main.seal_segments(&lock, &planned, &|number| number == 1, &mut |_| {}).unwrap();
        assert_eq!(own, [dir.path().join("main/mirror_000001.tar")]);
        fs::rename(&written, dir.path().join("main/mirror_000002.tar")).unwrap();
        let archives = Archives::open(&dir.path().join("main")).unwrap();
        assert_eq!(archives.findings(), []);
        assert_eq!(archives.verify(&|_| {}), []);
        assert_eq!(archives.size(&layer), Some(5));
    }

    #[test]
    fn an_archive_that_was_begun_for_other_shards_is_planned_again() {
        let dir = tempfile::tempdir().unwrap();
        let main = Workspace::open(dir.path());
        let layers: [&[u8]; 3] = [b"first", b"second", b"third"];
        let images: Vec<_> = (1..)
            .zip(layers)
            .map(|(n, layer)| sample::image(main.blobs(), &format!("q.io/a:{n}"), layer))
            .collect();
        let place = |digest: &Digest| layers.iter().position(|layer| Digest::of(layer) == *digest);
        let owner = |digest: &Digest, shards: usize| {
            place(digest).map(|place| u32::try_from(place % shards).unwrap())
        };
        let lock = main.lock(&[]).unwrap();
        let plan = |run: u64, shards: usize| {
            let request = sample::archive_request(run, images.clone());
            let owner = |digest: &Digest| owner(digest, shards);
            let ArchivePlan::Write(planned) = main.plan_segments(request, &owner).unwrap() else {
                panic!("nothing is planned")
            };
            planned
        };
        let first = plan(1, 2);
        main.begin_segments(&lock, &first).unwrap();
        let again = plan(2, 2);
        assert!(again.resumed && again.index_digest() == first.index_digest());
        let other = plan(3, 3);
        assert!(!other.resumed);
        // One chunk of the command, and one of each shard, whose content no other shard has.
        let numbers: Vec<u32> = other.index().own_chunks().map(|chunk| chunk.number).collect();
        assert_eq!(numbers, [4, 5, 6, 7], "numbers are not used twice");
        for blob in other.index().own_blobs() {
            let of_owner = owner(&blob.digest, 3).map_or(4, |owner| owner + 5);
            assert!(blob.parts.iter().all(|part| part.chunk == of_owner), "{blob:?}");
        }
        main.begin_segments(&lock, &other).unwrap();
        main.seal_segments(&lock, &other, &|_| true, &mut |_| {}).unwrap();
        let archives = Archives::open(dir.path()).unwrap();
        assert_eq!((archives.findings(), archives.verify(&|_| {})), (&[][..], vec![]));
    }
}
