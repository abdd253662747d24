//! Recovery of content that a power failure may have damaged.
//!
//! To sync every blob and record as it is written would take several times as long. Instead
//! a marker is on the disk from the first write on, and one sync of the whole
//! filesystem removes it. A marker of an earlier boot means that the last
//! writes may be lost in part: what was written since is hashed again before it
//! is trusted. A marker of this boot means nothing: the system still has all
//! that was written.
//!
//! The sync is for long runs, to which it adds little and which would be long
//! to hash again. For a short run it would take longer than the run itself, so
//! its marker stays, for a later run to find after a power failure.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mirror_plan::ImageRecord;
use oci::Digest;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::archive::{ArchiveFinding, ArchiveSeverity, Archives};
use crate::atomic_file::{self, Durability};
use crate::blob_reader::BlobReader;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::records::RecordError;
use crate::workers;

/// Some filesystems keep times to two seconds.
const CLOCK_STEP: Duration = Duration::from_secs(2);
/// Runs that lasted this long wait for the disk at their end.
const WORTH_A_SYNC: Duration = Duration::from_secs(30);

/// This start of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boot(String);

impl Boot {
    /// If the boot id is unavailable, every start counts as another one:
    /// too much is checked, never too little.
    pub(crate) fn current() -> Self {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self(id.trim().to_owned())
    }

    fn is(&self, other: &Self) -> bool {
        self == other && !self.0.is_empty()
    }
}

/// What was checked after a power cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Blobs that were hashed again.
    pub checked: usize,
    /// Those that were damaged, and were removed.
    pub blobs_removed: Vec<Digest>,
    /// Records of images that are no longer whole. They are mirrored again.
    pub records_removed: Vec<PathBuf>,
    /// Runs whose archive is no longer whole. What they contained is archived again.
    pub archives_removed: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct Marker {
    boot: Boot,
}

impl Workspace {
    /// Notes that writing begins, after repairing what an earlier writer lost.
    pub(crate) fn begin_writing(&self, boot: &Boot) -> Result<Option<Recovery>, DiskError> {
        let path = self.marker();
        let text = unless_absent(fs::read(&path)).at("reading", &path)?;
        let recovery = match text.map(|text| serde_json::from_slice::<Marker>(&text)) {
            // Its time stays: nothing written since then has been synced.
            Some(Ok(marker)) if marker.boot.is(boot) => return Ok(None),
            Some(_) => {
                let since = fs::metadata(&path).and_then(|meta| meta.modified());
                Some(self.recover(since.at("reading", &path)? - CLOCK_STEP)?)
            }
            None => None,
        };
        let marker = serde_json::to_vec(&Marker { boot: boot.clone() }).map_err(io::Error::other);
        atomic_file::write(&path, &marker.at("writing", &path)?, Durability::Now)?;
        Ok(recovery)
    }

    /// Syncs everything that was written to the disk.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        let root = File::open(self.root()).at("syncing", self.root())?;
        rustix::fs::syncfs(root).at("syncing", self.root())
    }

    /// After a long run: syncs, then notes that nothing is outstanding.
    pub(crate) fn end_writing(&self, lasted: Duration) -> Result<(), DiskError> {
        if lasted < WORTH_A_SYNC {
            return Ok(());
        }
        self.sync()?;
        let path = self.marker();
        unless_absent(fs::remove_file(&path)).at("removing", &path)?;
        Ok(())
    }

    fn marker(&self) -> PathBuf {
        self.internal().join("unsynced.json")
    }

    fn recover(&self, since: SystemTime) -> Result<Recovery, DiskError> {
        let suspects = self.blobs_since(since)?;
        let verdicts = workers::map(&suspects, workers::processors(), |digest| {
            let path = self.blobs().path(digest);
            Ok((*digest, hash_file(&path).at("reading", &path)? == *digest))
        });
        let mut recovery = Recovery { checked: suspects.len(), ..Recovery::default() };
        for verdict in verdicts {
            let (digest, sound) = verdict?;
            if !sound {
                let path = self.blobs().path(&digest);
                fs::remove_file(&path).at("removing", &path)?;
                recovery.blobs_removed.push(digest);
            }
        }
        let mut records = self.records()?;
        while let Some((path, stored)) = records.next_stored() {
            let whole = match stored {
                Ok(stored) => self.is_whole(&stored.image)?,
                Err(RecordError::Unreadable { .. } | RecordError::Empty { .. }) => false,
                // Not damaged by a power failure: the next reader reports what is wrong.
                Err(_) => true,
            };
            if !whole {
                fs::remove_file(&path).at("removing", &path)?;
                recovery.records_removed.push(path);
            }
        }
        recovery.archives_removed = self.unseal_damaged(since)?;
        Ok(recovery)
    }

    /// Forgets archives that were sealed since and are damaged.
    /// Files that were moved elsewhere cannot be checked and count as delivered.
    fn unseal_damaged(&self, since: SystemTime) -> Result<Vec<u64>, DiskError> {
        let mut suspects = Vec::new();
        for sealed in self.sealed_runs()? {
            let path = self.sealed_path(sealed.run);
            let written = fs::metadata(&path).and_then(|meta| meta.modified());
            let here = sealed.chunks.iter().any(|chunk| self.chunk_path(chunk.number).exists());
            if here && written.at("reading", &path)? >= since {
                suspects.push(sealed);
            }
        }
        let Ok(archives) = Archives::open(self.root()) else { return Ok(Vec::new()) };
        let findings = archives.verify_runs(&|run| suspects.iter().any(|s| s.run == run));
        let mut removed = Vec::new();
        for sealed in suspects {
            let files: Vec<PathBuf> =
                sealed.chunks.iter().map(|chunk| self.chunk_path(chunk.number)).collect();
            let damaged = |finding: &ArchiveFinding| {
                finding.severity() == ArchiveSeverity::Damaged
                    && finding.files().iter().any(|file| files.iter().any(|own| own == file))
            };
            if findings.iter().any(damaged) {
                // The seal first: without it the files belong to no run.
                let seal = self.sealed_path(sealed.run);
                fs::remove_file(&seal).at("removing", &seal)?;
                for file in files {
                    unless_absent(fs::remove_file(&file)).at("removing", &file)?;
                }
                removed.push(sealed.run);
            }
        }
        Ok(removed)
    }

    /// Whether everything that a record lists as held exists, by length.
    pub(crate) fn is_whole(&self, record: &ImageRecord) -> Result<bool, DiskError> {
        let manifests = record.tree.all_manifests().map(|node| (node.digest, node.size));
        let blobs = if record.blobs_held { record.tree.blobs() } else { Default::default() };
        for (digest, size) in manifests.chain(blobs) {
            if !self.blobs().has(&digest, Some(size))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn blobs_since(&self, since: SystemTime) -> Result<Vec<Digest>, DiskError> {
        let directory = self.blobs().root().join("sha256");
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        let mut suspects = Vec::new();
        for entry in entries.into_iter().flatten() {
            let entry = entry.at("reading", &directory)?;
            let name = entry.file_name();
            let Ok(digest) = Digest::from_hex(&name.to_string_lossy()) else { continue };
            let meta = entry.metadata().at("reading", &directory)?;
            if meta.is_file() && meta.modified().at("reading", &directory)? >= since {
                suspects.push(digest);
            }
        }
        suspects.sort_unstable();
        Ok(suspects)
    }
}

fn hash_file(path: &Path) -> io::Result<Digest> {
    BlobReader::of_file(File::open(path)?)?.hash(&|_| {})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::ArchivePlan;
    use crate::sample;

    fn boot(name: &str) -> Boot {
        Boot(name.to_owned())
    }

    /// A workspace with two images, one of whose layers a power cut damaged.
    fn damaged() -> (tempfile::TempDir, Workspace, [ImageRecord; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        assert_eq!(workspace.begin_writing(&boot("first")).unwrap(), None);
        let records = [("q.io/good:1", &b"good"[..]), ("q.io/bad:1", b"bad")]
            .map(|(name, layer)| sample::image(workspace.blobs(), name, layer));
        for record in &records {
            workspace.save_record(record).unwrap();
        }
        fs::write(workspace.blobs().path(&Digest::of(b"bad")), b"\0\0\0").unwrap();
        (dir, workspace, records)
    }

    #[test]
    fn after_a_power_failure_damaged_blobs_and_their_images_are_dropped() {
        let (_dir, workspace, [good, bad]) = damaged();
        let recovery = workspace.begin_writing(&boot("second")).unwrap().unwrap();
        // Two manifests, two configs, two layers.
        assert_eq!(recovery.checked, 6);
        assert_eq!(recovery.blobs_removed, [Digest::of(b"bad")]);
        assert_eq!(recovery.records_removed.len(), 1);
        assert_eq!(workspace.record(&good.origin).unwrap(), Some(good));
        assert_eq!(workspace.record(&bad.origin).unwrap(), None);
        // Repaired once; this boot's own marker requires nothing.
        assert_eq!(workspace.begin_writing(&boot("second")).unwrap(), None);
    }

    #[test]
    fn after_a_killed_process_nothing_is_hashed() {
        let (_dir, workspace, _) = damaged();
        assert_eq!(workspace.begin_writing(&boot("first")).unwrap(), None);
    }

    #[test]
    fn after_a_clean_end_nothing_is_hashed_on_another_boot() {
        let (_dir, workspace, _) = damaged();
        workspace.end_writing(WORTH_A_SYNC).unwrap();
        assert_eq!(workspace.begin_writing(&boot("second")).unwrap(), None);
    }

    #[test]
    fn a_short_run_is_not_synced_and_so_is_checked_on_another_boot() {
        let (_dir, workspace, _) = damaged();
        workspace.end_writing(WORTH_A_SYNC / 2).unwrap();
        let recovery = workspace.begin_writing(&boot("second")).unwrap().unwrap();
        assert_eq!(recovery.blobs_removed, [Digest::of(b"bad")]);
    }

    #[test]
    fn an_archive_that_a_power_failure_damaged_is_dropped_and_written_again() {
        for spoil in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let workspace = Workspace::open(dir.path());
            workspace.begin_writing(&boot("first")).unwrap();
            let lock = workspace.lock(&[]).unwrap();
            let record = sample::image(workspace.blobs(), "q.io/a:1", &[7; 5000]);
            let request = sample::archive_request(1, vec![record]);
            let ArchivePlan::Write(planned) = workspace.plan_archive(request.clone()).unwrap()
            else {
                panic!("nothing to write")
            };
            let sealed = workspace.write_archive(&lock, &planned, &mut |_| {}).unwrap();
            if spoil {
                let file = File::options().write(true).open(&sealed.chunks[0]).unwrap();
                let middle = file.metadata().unwrap().len() / 2;
                std::os::unix::fs::FileExt::write_all_at(&file, b"zzz", middle).unwrap();
            }
            let recovery = workspace.begin_writing(&boot("second")).unwrap().unwrap();
            assert_eq!(recovery.archives_removed, if spoil { vec![1] } else { vec![] });
            assert_eq!(sealed.chunks[0].exists(), !spoil);
            let again = workspace.plan_archive(sample::archive_request(2, request.images)).unwrap();
            assert_eq!(matches!(again, ArchivePlan::Write(_)), spoil);
        }
    }

    #[test]
    fn a_process_killed_before_the_power_went_does_not_hide_what_it_wrote() {
        let (_dir, workspace, _) = damaged();
        let marker = workspace.marker();
        let written = fs::metadata(&marker).unwrap().modified().unwrap();
        workspace.begin_writing(&boot("first")).unwrap();
        assert_eq!(fs::metadata(&marker).unwrap().modified().unwrap(), written);
        let recovery = workspace.begin_writing(&boot("second")).unwrap().unwrap();
        assert_eq!(recovery.blobs_removed, [Digest::of(b"bad")]);
    }

    #[test]
    fn records_cut_short_and_blobs_whose_names_were_lost_are_noticed() {
        let (_dir, workspace, [good, bad]) = damaged();
        fs::write(workspace.layout_of(&good.origin).join("image.json"), b"").unwrap();
        fs::remove_file(workspace.blobs().path(&Digest::of(b"bad"))).unwrap();
        let recovery = workspace.begin_writing(&boot("second")).unwrap().unwrap();
        assert_eq!(recovery.blobs_removed, []);
        assert_eq!(recovery.records_removed.len(), 2);
        assert_eq!(workspace.record(&bad.origin).unwrap(), None);
    }

    #[test]
    fn a_marker_that_is_itself_damaged_counts_as_a_power_cut() {
        let (_dir, workspace, _) = damaged();
        fs::write(workspace.marker(), b"").unwrap();
        // Its time is now, within the step that filesystems keep.
        let recovery = workspace.begin_writing(&boot("first")).unwrap().unwrap();
        assert_eq!(recovery.blobs_removed, [Digest::of(b"bad")]);
    }

    #[test]
    fn what_was_synced_before_is_not_hashed_again() {
        let (_dir, workspace, _) = damaged();
        let old = SystemTime::now() - Duration::from_secs(3600);
        for entry in fs::read_dir(workspace.blobs().root().join("sha256")).unwrap() {
            File::open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
        }
        let recovery = workspace.begin_writing(&boot("second")).unwrap().unwrap();
        assert_eq!(recovery.checked, 0);
    }
}
