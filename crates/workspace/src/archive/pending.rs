//! An archive that was begun: continued when the same is requested again,
//! removed when something else is.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

use oci::Digest;

use super::entry::{chunk_name, partial_name};
use super::history::{file_digest, is_chunk};
use super::index::Index;
use crate::Workspace;
use crate::disk_error::{At, DiskError, unless_absent};

/// The index of an archive that is not sealed.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) path: PathBuf,
    pub(crate) digest: Digest,
    pub(crate) length: u64,
    /// `None` where the file cannot be read as an index.
    pub(crate) index: Option<Index>,
}

impl Workspace {
    pub(crate) fn pending_path(&self, run: u64) -> PathBuf {
        self.runs_dir().join(format!("{run:06}.pending.json"))
    }

    /// Archives that were begun and not sealed; normally one at most.
    pub(crate) fn pending(&self) -> Result<Vec<Pending>, DiskError> {
        let mut pending = Vec::new();
        for (_, path) in self.indexes(".pending.json")? {
            let digest = file_digest(&path).at("reading", &path)?;
            let length = fs::metadata(&path).at("reading", &path)?.len();
            let open = || -> io::Result<Box<dyn Read>> { Ok(Box::new(File::open(&path)?)) };
            let index = Index::read(open, length, &digest).ok();
            pending.push(Pending { path, digest, length, index });
        }
        Ok(pending)
    }

    /// Removes what an archive left that will not be continued: only files
    /// whose first entry proves them to be its own. Its numbers stay used.
    pub(crate) fn clear(&self, pending: &Pending) -> Result<(), DiskError> {
        let chunks = pending.index.iter().flat_map(Index::own_chunks);
        for number in chunks.map(|chunk| chunk.number) {
            // No one else makes files of this name, and the lock is ours.
            let partial = self.root().join(partial_name(number));
            unless_absent(fs::remove_file(&partial)).at("removing", &partial)?;
            let path = self.root().join(chunk_name(number));
            if is_chunk(&path, number, &pending.digest).at("reading", &path)?.is_some() {
                fs::remove_file(&path).at("removing", &path)?;
            }
        }
        fs::remove_file(&pending.path).at("removing", &pending.path)
    }
}
