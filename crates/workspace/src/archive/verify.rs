//! Reads every byte of the archives and compares it with what it should be.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use oci::Digest;

use super::entry::{BLOCK, TRAILER, blob_name, header, padded};
use super::finding::ArchiveFinding;
use super::index::{BlobEntry, Part};
use super::open::{Archives, ChunkFile, RunArchive};
use crate::blob_reader::{BlobReader, Extent};
use crate::workers;

/// One blob of one run, all of whose parts are here.
struct Job<'a> {
    run: &'a RunArchive,
    blob: &'a BlobEntry,
}

impl Archives {
    /// How many bytes of content [`Archives::verify`] reads.
    pub fn bytes_to_verify(&self) -> u64 {
        self.jobs().iter().map(|job| job.blob.size).sum()
    }

    /// Hashes all blobs and compares everything around them. Indexes and
    /// lengths were checked on opening. `progress` is called, from several
    /// threads, with the bytes that are done. The findings are sorted; none means
    /// that every byte that is here is unchanged.
    pub fn verify(&self, progress: &(dyn Fn(u64) + Sync)) -> Vec<ArchiveFinding> {
        self.verify_jobs(&self.jobs(), progress)
    }

    /// What is wrong with the archives of some runs, as far as it can be determined.
    pub(crate) fn verify_runs(&self, of: &dyn Fn(u64) -> bool) -> Vec<ArchiveFinding> {
        let mut jobs = self.jobs();
        jobs.retain(|job| of(job.run.index.run));
        let mut findings = self.findings().to_vec();
        findings.extend(self.verify_jobs(&jobs, &|_| {}));
        findings
    }

    fn verify_jobs(
        &self,
        jobs: &[Job<'_>],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Vec<ArchiveFinding> {
        let done = AtomicU64::new(0);
        let moved = |bytes: u64| progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
        let findings = workers::map(jobs, workers::processors(), |job| job.check(&moved));
        let ends = self.runs.iter().flat_map(check_ends);
        let all: BTreeSet<ArchiveFinding> = findings.into_iter().flatten().chain(ends).collect();
        all.into_iter().collect()
    }

    /// In the order of the bytes on the disk.
    fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for run in &self.runs {
            for blob in run.index.own_blobs() {
                if blob.parts.iter().all(|part| run.chunks.contains_key(&part.chunk)) {
                    jobs.push(Job { run, blob });
                }
            }
        }
        let place = |job: &Job<'_>| {
            let first = job.blob.parts.first();
            (job.run.index.run, first.map_or((0, 0), |part| (part.chunk, part.offset)))
        };
        jobs.sort_by_key(place);
        jobs
    }
}

impl Job<'_> {
    fn chunk(&self, part: &Part) -> Option<&ChunkFile> {
        self.run.chunks.get(&part.chunk)
    }

    fn check(&self, moved: &dyn Fn(u64)) -> Vec<ArchiveFinding> {
        let mut findings = Vec::new();
        let several = self.blob.parts.len() > 1;
        for (position, part) in self.blob.parts.iter().enumerate() {
            let Some(chunk) = self.chunk(part) else { continue };
            let entry = blob_name(&self.blob.digest, several.then_some(position + 1));
            let file = chunk.path.clone();
            match frame_is_right(chunk, part, &entry) {
                Ok(true) => {}
                Ok(false) => {
                    findings.push(ArchiveFinding::BadFrame {
                        file,
                        run: self.run.index.run,
                        entry,
                    });
                }
                Err(error) => {
                    findings.push(ArchiveFinding::Unreadable { file, reason: error.to_string() });
                }
            }
        }
        match self.hash(moved) {
            Ok(digest) if digest == self.blob.digest => {}
            // A disk that cannot give the bytes back has damaged them too.
            _ => findings.push(ArchiveFinding::BadBlob {
                digest: self.blob.digest,
                run: self.run.index.run,
                files: self.files(),
            }),
        }
        findings
    }

    fn hash(&self, moved: &dyn Fn(u64)) -> io::Result<Digest> {
        let extents = self.blob.parts.iter().filter_map(|part| {
            let chunk = self.chunk(part)?;
            let start = chunk.start + part.offset;
            Some(Extent { file: chunk.file.clone(), start, length: part.length })
        });
        BlobReader::new(extents.collect()).hash(moved)
    }

    fn files(&self) -> Vec<PathBuf> {
        let chunks = self.blob.parts.iter().filter_map(|part| self.chunk(part));
        chunks.map(|chunk| chunk.path.clone()).collect()
    }
}

/// Whether header and padding of an entry are as we write them.
fn frame_is_right(chunk: &ChunkFile, part: &Part, name: &str) -> io::Result<bool> {
    let at = chunk.start + part.offset;
    let mut block = [0; BLOCK as usize];
    chunk.file.read_exact_at(&mut block, at - BLOCK)?;
    if block != header(name, part.length) {
        return Ok(false);
    }
    let padding = padded(part.length) - part.length;
    are_zeros(chunk, at + part.length, padding)
}

/// Whether the padding of the index and the end of each chunk are as we write them.
fn check_ends(run: &RunArchive) -> Vec<ArchiveFinding> {
    let mut findings = Vec::new();
    for (number, chunk) in &run.chunks {
        let Some(listed) = run.index.chunk(*number) else { continue };
        let padding = (chunk.index_end, chunk.start - chunk.index_end, "its index");
        let end = (chunk.start + listed.length, TRAILER, "its end");
        for (at, length, entry) in [padding, end] {
            let file = chunk.path.clone();
            match are_zeros(chunk, at, length) {
                Ok(true) => {}
                Ok(false) => {
                    let (run, entry) = (run.index.run, entry.to_owned());
                    findings.push(ArchiveFinding::BadFrame { file, run, entry });
                }
                Err(error) => {
                    findings.push(ArchiveFinding::Unreadable { file, reason: error.to_string() });
                }
            }
        }
    }
    findings
}

fn are_zeros(chunk: &ChunkFile, at: u64, length: u64) -> io::Result<bool> {
    // At most a tar's end, or a block's padding.
    let mut bytes = [0; TRAILER as usize];
    let length = usize::try_from(length).unwrap_or(bytes.len()).min(bytes.len());
    chunk.file.read_exact_at(&mut bytes[..length], at)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}
