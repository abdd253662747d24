//! Detached signatures of archives: `mirror_NNNNNN.tar.sig` beside each file.
//!
//! What is signed is the index, which is the same in all files of a run. It lists the digests of all
//! content and the checksums of all files, so that one signature covers every byte.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::entry::BLOCK;
use super::first_entry::ReadAt;
use super::open::{Archives, RunArchive};
use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError};

/// A signature has a hundred bytes.
const MAX_SIGNATURE: u64 = 16 << 10;

/// Where the signature of a file is.
fn signature_path(chunk: &Path) -> PathBuf {
    let mut name = chunk.as_os_str().to_owned();
    name.push(".sig");
    PathBuf::from(name)
}

impl Workspace {
    /// The index of a run whose archive is complete: what is signed.
    pub fn signed_text(&self, run: u64) -> Result<Vec<u8>, DiskError> {
        let path = self.sealed_path(run);
        fs::read(&path).at("reading", &path)
    }

    /// Writes a signature beside each file of an archive.
    pub fn write_signatures(
        &self,
        chunks: &[PathBuf],
        signature: &str,
    ) -> Result<Vec<PathBuf>, DiskError> {
        let mut written = Vec::new();
        for chunk in chunks {
            let path = signature_path(chunk);
            atomic_file::write(&path, format!("{signature}\n").as_bytes(), Durability::Whole)?;
            written.push(path);
        }
        Ok(written)
    }
}

impl Archives {
    /// The runs here for which `verifies` accepts no signature; it gets a signature and the text
    /// that must be signed. Each with the files that need one.
    pub fn unsigned_runs(
        &self,
        verifies: &dyn Fn(&str, &[u8]) -> bool,
    ) -> io::Result<Vec<(u64, Vec<PathBuf>)>> {
        let mut unsigned = Vec::new();
        for run in self.runs() {
            let is_signed = match index_text(run)? {
                Some(text) => run.chunks.values().any(|chunk| {
                    let signature = read_signature(&signature_path(&chunk.path));
                    signature.is_some_and(|signature| verifies(&signature, &text))
                }),
                None => false,
            };
            if !is_signed {
                let files = run.chunks.values().map(|chunk| signature_path(&chunk.path));
                unsigned.push((run.index.run, files.collect()));
            }
        }
        Ok(unsigned)
    }
}

/// The index as it is in the files of a run.
fn index_text(run: &RunArchive) -> io::Result<Option<Vec<u8>>> {
    let Some(chunk) = run.chunks.values().next() else { return Ok(None) };
    let length = chunk.index_end.saturating_sub(BLOCK);
    let mut text = Vec::new();
    ReadAt { file: &chunk.file, position: BLOCK }.take(length).read_to_end(&mut text)?;
    Ok(Some(text))
}

fn read_signature(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MAX_SIGNATURE).read_to_string(&mut text).ok()?;
    Some(text)
}
