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
}
