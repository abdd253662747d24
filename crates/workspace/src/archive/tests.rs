//! Archives from end to end, on real directories.

mod carrying;
mod damage;
mod delivered;
mod hostile;
mod killed;
mod rot;
mod staged;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use mirror_plan::ImageRecord;
use oci::Digest;

use super::{
    ArchiveError, ArchivePlan, ArchiveRequest, ArchiveStatus, Archives, Base, PlannedArchive,
    SealedArchive,
};
use crate::{Lock, Workspace, sample};

/// A limit that no test reaches.
const WIDE: u64 = 1 << 30;

/// The connected side: a workspace that is locked.
struct Connected {
    dir: tempfile::TempDir,
    workspace: Workspace,
    lock: Lock,
}

impl Connected {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        Self { dir, workspace, lock }
    }

    /// An image with one layer of `size` bytes.
    fn image(&self, reference: &str, size: usize) -> ImageRecord {
        let record = sample::image(self.workspace.blobs(), reference, &layer(reference, size));
        self.workspace.save_record(&record).unwrap();
        record
    }

    fn plan(&self, request: ArchiveRequest) -> Result<ArchivePlan, ArchiveError> {
        self.workspace.plan_archive(request)
    }

    fn planned(&self, request: ArchiveRequest) -> Box<PlannedArchive> {
        match self.plan(request).unwrap() {
            ArchivePlan::Write(planned) => planned,
            ArchivePlan::NothingNew { base } => panic!("nothing new since run {base}"),
        }
    }

    fn archive(&self, request: ArchiveRequest) -> SealedArchive {
        let planned = self.planned(request);
        let mut seen = 0;
        let mut progress = |bytes| {
            assert!(bytes >= seen, "progress went back");
            seen = bytes;
        };
        let sealed = self.workspace.write_archive(&self.lock, &planned, &mut progress).unwrap();
        assert_eq!((seen, sealed.bytes), (planned.bytes(), planned.bytes()));
        sealed
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }
}

fn layer(seed: &str, size: usize) -> Vec<u8> {
    seed.bytes().cycle().enumerate().map(|(n, b)| b.wrapping_add(n as u8)).take(size).collect()
}

fn request(run: u64, images: &[&ImageRecord], limit: u64) -> ArchiveRequest {
    ArchiveRequest {
        run,
        created: format!("2026-03-{run:02}T12:00:00Z").parse().unwrap(),
        status: ArchiveStatus::Complete,
        failed: Vec::new(),
        images: images.iter().map(|image| (*image).clone()).collect(),
        files: BTreeMap::new(),
        base: Base::Newest,
        limit,
    }
}

/// The other side: a directory with copies of `files`.
fn carry(files: &[PathBuf]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(file, dir.path().join(file.file_name().unwrap())).unwrap();
    }
    dir
}

fn names(files: &[PathBuf]) -> Vec<&str> {
    files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect()
}

fn content(archives: &Archives, digest: &Digest) -> Vec<u8> {
    let mut bytes = Vec::new();
    archives.blob(digest).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn verify(archives: &Archives) -> Vec<String> {
    let found = archives.findings().iter().map(ToString::to_string);
    found.chain(archives.verify(&|_| {}).iter().map(ToString::to_string)).collect()
}
