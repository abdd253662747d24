//! What can be pushed: the images of a workspace, of archives, or of both.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mirror_plan::{ImageRecord, Origin};
use oci::Digest;

use crate::archive::{AbsentBlob, Archives, RunArchive};
use crate::blob_reader::BlobReader;
use crate::disk_error::{At, DiskError};
use crate::distribution::Distribution;
use crate::identity::Identity;
use crate::image_directory::ImageDirectory;
use crate::merge::merged;
use crate::{RecordError, Workspace};

/// One lookup over all available content.
#[derive(Debug)]
pub struct Holdings {
    workspace: Option<Workspace>,
    archives: Option<Archives>,
    /// Archives and caches of oc-mirror v2; searched last.
    distribution: Option<Distribution>,
    /// Of the workspace, if it has one.
    identity: Option<Identity>,
    /// Whether images count of which only manifests are held.
    manifests_suffice: bool,
}

/// When something was archived.
#[derive(Debug, Clone, Copy)]
struct Archived {
    time: Timestamp,
    /// From the workspace that is here: it has the same or something newer.
    own: bool,
}

impl Holdings {
    pub fn new(workspace: Option<Workspace>, archives: Option<Archives>) -> Self {
        let identity = workspace.as_ref().and_then(|workspace| workspace.known_identity().ok());
        let identity = identity.flatten();
        Self { workspace, archives, distribution: None, identity, manifests_suffice: false }
    }

    /// The same, with archives and caches of oc-mirror v2.
    #[must_use]
    pub fn with_distribution(self, distribution: Distribution) -> Self {
        Self { distribution: Some(distribution), ..self }
    }

    /// Archives and caches of oc-mirror v2.
    pub fn distribution(&self) -> Option<&Distribution> {
        self.distribution.as_ref()
    }

    /// The same, with images of which only manifests are held, as after mirror to mirror: enough to
    /// select by, not to push.
    #[must_use]
    pub fn with_manifests_alone(self) -> Self {
        Self { manifests_suffice: true, ..self }
    }

    pub fn archives(&self) -> Option<&Archives> {
        self.archives.as_ref()
    }

    /// Whether archives were left unopened: an image that is not found may be in one of them.
    pub fn is_partial(&self) -> bool {
        self.archives.as_ref().is_some_and(Archives::is_partial)
    }

    pub(crate) fn workspace(&self) -> Option<&Workspace> {
        self.workspace.as_ref()
    }

    /// Frees the records of images in archives; their blobs stay available.
    pub fn forget_images(&mut self) {
        if let Some(archives) = &mut self.archives {
            archives.forget_images();
        }
    }

    /// All images, sorted by where a workspace has them.
    pub fn records(&self) -> Result<Vec<ImageRecord>, RecordError> {
        let mut records: BTreeMap<ImageDirectory, ImageRecord> = BTreeMap::new();
        if let Some(workspace) = &self.workspace {
            let mut stored = workspace.records()?;
            while let Some((_, next)) = stored.next_stored() {
                let next = next?;
                let archived = self.archived(&next.image.origin);
                let here = self.usable(Some((next.image, next.saved)));
                if let Some(record) = choose(here, archived) {
                    records.insert(ImageDirectory::of(&record.origin), record);
                }
            }
        }
        for image in self.archives.iter().flat_map(Archives::images) {
            let place = ImageDirectory::of(&image.origin);
            if !records.contains_key(&place)
                && let Some((record, _)) = self.archived(&image.origin)
            {
                records.insert(place, record);
            }
        }
        Ok(records.into_values().collect())
    }

    /// What is held of the image from `origin`, its blobs included.
    pub fn record(&self, origin: &Origin) -> Result<Option<ImageRecord>, RecordError> {
        let here = match &self.workspace {
            Some(workspace) => workspace.record_with_time(origin)?,
            None => None,
        };
        let chosen = choose(self.usable(here), self.archived(origin));
        Ok(chosen.map(|record| ImageRecord { origin: origin.clone(), ..record }))
    }

    /// Reads a blob; `None` when it is not here.
    pub fn blob(&self, digest: &Digest) -> Result<Option<BlobReader>, DiskError> {
        if let Some(workspace) = &self.workspace
            && workspace.blobs().has(digest, None)?
        {
            let path = workspace.blobs().path(digest);
            let file = workspace.blobs().open(digest)?;
            return BlobReader::of_file(file).map(Some).at("reading", &path);
        }
        if let Some(found) = self.archives.as_ref().and_then(|archives| archives.blob(digest)) {
            return Ok(Some(found));
        }
        match &self.distribution {
            Some(distribution) => distribution.blob(digest),
            None => Ok(None),
        }
    }

    /// A record that counts: one whose blobs are not held cannot be pushed.
    fn usable(&self, here: Option<(ImageRecord, Timestamp)>) -> Option<(ImageRecord, Timestamp)> {
        here.filter(|(record, _)| record.blobs_held || self.manifests_suffice)
    }

    /// Which archive would hold a blob that is not here.
    pub fn whereabouts(&self, digest: &Digest) -> Option<AbsentBlob> {
        self.archives.as_ref()?.whereabouts(digest)
    }

    /// What all archives together have of an image: each holds the platforms
    /// that the configuration of its run selected.
    fn archived(&self, origin: &Origin) -> Option<(ImageRecord, Archived)> {
        let records = self.archives.as_ref()?.records(origin);
        let records = records.map(|(record, run)| {
            (record.clone(), Archived { time: run.time, own: self.is_own(run) })
        });
        records.reduce(|(older, _), (newer, archived)| (joined(older, newer), archived))
    }

    /// Whether an archive was written by the workspace that is here, and not by a later state of it
    /// that was lost with a restored backup. Clocks are not used: they may have been set back.
    pub(crate) fn is_own(&self, run: &RunArchive) -> bool {
        let own = self.identity.as_ref();
        own.is_some_and(|own| own.id == run.index.workspace && run.index.run <= own.last_run)
    }
}

/// Which record counts. Of two with the same root, both are used; of two different ones, the newer.
fn choose(
    here: Option<(ImageRecord, Timestamp)>,
    archived: Option<(ImageRecord, Archived)>,
) -> Option<ImageRecord> {
    match (here, archived) {
        (Some((here, saved)), Some((archived, Archived { time, own }))) => {
            let here_is_newer = own || saved >= time;
            let (older, newer) = if here_is_newer { (archived, here) } else { (here, archived) };
            Some(joined(older, newer))
        }
        (Some((record, _)), None) | (None, Some((record, _))) => Some(record),
        (None, None) => None,
    }
}

/// Two records of one image as one, in the order of the one that has more.
fn joined(older: ImageRecord, newer: ImageRecord) -> ImageRecord {
    let longer = [&older, &newer].into_iter().max_by_key(|record| record.tree.manifests.len());
    let nodes = longer.into_iter().flat_map(|record| &record.tree.manifests);
    let order: Vec<Digest> = nodes.map(|node| node.digest).collect();
    merged(older, newer, &order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_newer_of_two_images_counts_and_only_with_its_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let one = sample::image(workspace.blobs(), "q.io/a:1", b"one");
        let two = sample::image(workspace.blobs(), "q.io/a:1", b"two");
        let time = |second| Timestamp::from_second(second).unwrap();
        let chosen = |here, archived| choose(here, archived).map(|record| record.tree);
        let archived = |record: &ImageRecord, second, own| {
            (record.clone(), Archived { time: time(second), own })
        };
        let here = (one.clone(), time(5));
        assert_eq!(
            chosen(Some(here.clone()), Some(archived(&two, 9, false))),
            Some(two.tree.clone())
        );
        // The clock was set back since this workspace wrote the archive.
        let own = archived(&two, 9, true);
        assert_eq!(chosen(Some(here.clone()), Some(own)), Some(one.tree.clone()));
        let older = archived(&two, 1, false);
        assert_eq!(chosen(Some(here.clone()), Some(older)), Some(one.tree.clone()));
        assert_eq!(chosen(Some(here), None), Some(one.tree.clone()));
        let manifests_only = (ImageRecord { blobs_held: false, ..one }, time(5));
        let holdings = Holdings::new(Some(workspace), None);
        assert_eq!(holdings.usable(Some(manifests_only.clone())), None);
        let holdings = holdings.with_manifests_alone();
        assert_eq!(holdings.usable(Some(manifests_only.clone())), Some(manifests_only));
    }

    #[test]
    fn a_workspace_alone_is_enough() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let record = sample::image(workspace.blobs(), "q.io/a:1", b"layer");
        workspace.save_record(&record).unwrap();
        let holdings = Holdings::new(Some(workspace), None);
        assert_eq!(holdings.records().unwrap(), std::slice::from_ref(&record));
        assert_eq!(holdings.record(&record.origin).unwrap(), Some(record));
        let blob = holdings.blob(&Digest::of(b"layer")).unwrap().unwrap();
        assert_eq!(blob.length(), 5);
        assert!(holdings.blob(&Digest::of(b"other")).unwrap().is_none());
    }
}
