//! Archives that pods read: in an object store, of which only parts are fetched, or in a directory,
//! which is a volume.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use archive_store::{ArchiveLocation, ArchiveStore, StoreError, StoredFile};
use mirror_plan::{PartArchive, ShardPart};
use oci::Digest;
use workspace::DiskError;
use workspace::archive::{Archives, Excerpt, OpenError, head_length};

use crate::object_store::{START, StoreArguments, is_archive, size, start_of_file};
use crate::quantity;

/// Where archives are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CarriedArchives {
    Store(ArchiveLocation),
    Directory(PathBuf),
}

/// Why archives cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarriedError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{action} {}", path.display())]
    Files { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{place} has no archives (mirror_NNNNNN.tar)")]
    None { place: String },
    #[error("{name} in {place} is not an archive of this program: pods read no others")]
    Foreign { name: String, place: String },
    #[error(
        "{name} in {place} has {found} bytes, and the plan was made with a file of {expected} bytes"
    )]
    Changed { name: String, place: String, expected: u64, found: u64 },
    #[error("{name} in {place} was replaced: the plan was made with another archive of this name")]
    Replaced { name: String, place: String },
}

impl CarriedError {
    /// Whether a later attempt may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
    }
}

impl CarriedArchives {
    /// What is named by `--from`.
    pub(crate) fn parse(from: &str) -> Result<Self, crate::problem::Problem> {
        match from.starts_with("s3://") {
            true => {
                let place = from.parse::<ArchiveLocation>();
                place.map(Self::Store).map_err(|e| crate::problem::Problem::new(e.to_string()))
            }
            false => crate::route::directory("--from", from).map(Self::Directory),
        }
    }

    /// Provides what planning and publishing need: indexes, manifests and documents.
    pub(crate) async fn provide_descriptions(
        &self,
        store: &StoreArguments,
        directory: &Path,
    ) -> Result<(), CarriedError> {
        create(directory)?;
        let place = match self {
            Self::Directory(from) => return link(from, directory, |_| true),
            Self::Store(place) => place,
        };
        let store = store.open(place)?;
        let mut files = store.list().await?;
        files.retain(|file| is_archive(&file.name) && file.name.ends_with(".tar"));
        if files.is_empty() {
            return Err(CarriedError::None { place: place.to_string() });
        }
        for file in &files {
            let start = store.start_of(&file.name, START).await?;
            forget_another(&directory.join(&file.name), &start)?;
            let length = head_length(&start).ok_or_else(|| CarriedError::Foreign {
                name: file.name.clone(),
                place: place.to_string(),
            })?;
            complete(&store, file, &Excerpt::new([(0, length.min(file.size))]), directory).await?;
        }
        let archives = Archives::open(directory)?;
        let needed = archives.descriptions();
        for (path, ranges) in archives.ranges_of(|digest| needed.contains(digest)) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let file = StoredFile { name: name.to_owned(), size: ranges.length };
            complete(&store, &file, &ranges.excerpt, directory).await?;
        }
        Ok(())
    }

    /// Provides the blobs of a shard.
    pub(crate) async fn provide_part(
        &self,
        store: &StoreArguments,
        part: &ShardPart,
        directory: &Path,
    ) -> Result<(), CarriedError> {
        create(directory)?;
        let place = match self {
            Self::Directory(from) => {
                for archive in &part.archives {
                    let path = from.join(&archive.file);
                    let found = size(&path).ok_or_else(|| CarriedError::Files {
                        action: "reading",
                        path: path.clone(),
                        source: io::ErrorKind::NotFound.into(),
                    })?;
                    check(&archive.file, &from.display(), archive.length, found)?;
                    let start = start_of_file(&path).map_err(|source| CarriedError::Files {
                        action: "reading",
                        path: path.clone(),
                        source,
                    })?;
                    check_start(archive, &from.display(), &start)?;
                }
                let names = |name: &str| part.archives.iter().any(|archive| archive.file == name);
                return link(from, directory, names);
            }
            Self::Store(place) => place,
        };
        let store = store.open(place)?;
        let files = store.list().await?;
        for archive in &part.archives {
            let file = files.iter().find(|file| file.name == archive.file);
            let file = file.ok_or_else(|| StoreError::Absent {
                name: archive.file.clone(),
                place: place.to_string(),
            })?;
            check(&file.name, place, archive.length, file.size)?;
            let start = store.start_of(&file.name, START).await?;
            check_start(archive, place, &start)?;
            forget_another(&directory.join(&file.name), &start)?;
            let excerpt = Excerpt::new(archive.ranges.iter().copied());
            tracing::info!(
                "fetching {} of {} from {place}",
                quantity::bytes(archive.bytes()),
                file.name
            );
            complete(&store, file, &excerpt, directory).await?;
        }
        Ok(())
    }
}

fn check(
    name: &str,
    place: &dyn std::fmt::Display,
    expected: u64,
    found: u64,
) -> Result<(), CarriedError> {
    match expected == found {
        true => Ok(()),
        false => {
            let (name, place) = (name.to_owned(), place.to_string());
            Err(CarriedError::Changed { name, place, expected, found })
        }
    }
}

/// Whether a file begins as the one that the plan was made with.
fn check_start(
    archive: &PartArchive,
    place: &dyn std::fmt::Display,
    start: &[u8],
) -> Result<(), CarriedError> {
    match archive.start.is_none_or(|expected| expected == Digest::of(start)) {
        true => Ok(()),
        false => {
            let (name, place) = (archive.file.clone(), place.to_string());
            Err(CarriedError::Replaced { name, place })
        }
    }
}

/// Removes what was fetched of an archive that was replaced since.
fn forget_another(path: &Path, start: &[u8]) -> Result<(), CarriedError> {
    if start_of_file(path).is_ok_and(|known| known != start) {
        // The list last: without it, the file would count as whole.
        fs::remove_file(path).map_err(|source| CarriedError::Files {
            action: "removing",
            path: path.to_owned(),
            source,
        })?;
        Excerpt::forget(path)?;
    }
    Ok(())
}

fn create(directory: &Path) -> Result<(), CarriedError> {
    fs::create_dir_all(directory).map_err(|source| CarriedError::Files {
        action: "creating",
        path: directory.to_owned(),
        source,
    })
}

/// Fetches the ranges that are not here yet.
async fn complete(
    store: &ArchiveStore,
    file: &StoredFile,
    needed: &Excerpt,
    directory: &Path,
) -> Result<(), CarriedError> {
    let path = directory.join(&file.name);
    let unreadable = |source| CarriedError::Files { action: "reading", path: path.clone(), source };
    let known = match size(&path) == Some(file.size) {
        true => match Excerpt::of(&path).map_err(unreadable)? {
            None => return Ok(()),
            Some(known) => known,
        },
        false => Excerpt::default(),
    };
    let missing = needed.without(&known);
    if missing.ranges().is_empty() {
        return Ok(());
    }
    // First: a file without a list of ranges counts as whole.
    known.save(&path)?;
    store.download_ranges(file, missing.ranges(), &path).await?;
    Ok(known.with(needed).save(&path)?)
}

/// Makes the archives of a directory available in another one, which is the workspace of a pod.
fn link(
    from: &Path,
    directory: &Path,
    is_needed: impl Fn(&str) -> bool,
) -> Result<(), CarriedError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| CarriedError::Files { action, path, source }
    };
    let mut count = 0;
    for entry in fs::read_dir(from).map_err(failed("reading", from))? {
        let name = entry.map_err(failed("reading", from))?.file_name();
        let Some(name) = name.to_str().filter(|name| is_archive(name) && is_needed(name)) else {
            continue;
        };
        count += 1;
        let path = directory.join(name);
        match symlink(from.join(name), &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked.map_err(failed("creating", &path))?,
        }
    }
    match count {
        0 => Err(CarriedError::None { place: from.display().to_string() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_of_a_volume_are_linked_and_nothing_else() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let missing = link(from.path(), to.path(), |_| true).unwrap_err();
        assert!(missing.to_string().ends_with("has no archives (mirror_NNNNNN.tar)"), "{missing}");
        for name in ["mirror_000001.tar", "mirror_000002.tar", "mirror_000002.tar.sig", "notes"] {
            fs::write(from.path().join(name), name).unwrap();
        }
        link(from.path(), to.path(), |name| name.starts_with("mirror_000002")).unwrap();
        // A pod that is repeated finds its links.
        link(from.path(), to.path(), |name| name.starts_with("mirror_000002")).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["mirror_000002.tar", "mirror_000002.tar.sig"]);
    }

    #[tokio::test]
    async fn an_archive_that_was_replaced_by_one_of_the_same_length_is_rejected() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = "mirror_000001.tar";
        let first = vec![b'a'; 2048];
        let archive = PartArchive {
            file: name.to_owned(),
            length: 2048,
            start: Some(Digest::of(&first[..512])),
            ranges: vec![(0, 512)],
        };
        check_start(&archive, &"s3://b", &first[..512]).unwrap();
        let error = check_start(&archive, &"s3://b", &[b'b'; 512]).unwrap_err();
        assert!(error.to_string().contains("mirror_000001.tar in s3://b was replaced"), "{error}");
        assert!(!error.may_pass());
        // Parts of earlier versions have the length only.
        let old = PartArchive { start: None, ..archive };
        check_start(&old, &"s3://b", &[b'b'; 512]).unwrap();

        // What was fetched of the other archive is not mixed with the new one.
        let path = to.path().join(name);
        fs::write(from.path().join(name), &first).unwrap();
        fs::write(&path, vec![b'b'; 2048]).unwrap();
        Excerpt::new([(0, 2048)]).save(&path).unwrap();
        forget_another(&path, &first[..512]).unwrap();
        assert!(!path.exists() && Excerpt::of(&path).unwrap().is_none());
        let place = ArchiveLocation::Directory(from.path().to_owned());
        let store = ArchiveStore::open(&place, &archive_store::Settings::default()).unwrap();
        let file = StoredFile { name: name.to_owned(), size: 2048 };
        complete(&store, &file, &Excerpt::new([(0, 1024)]), to.path()).await.unwrap();
        forget_another(&path, &first[..512]).unwrap();
        assert_eq!(fs::read(&path).unwrap()[..1024], first[..1024]);
    }

    #[test]
    fn a_place_is_a_bucket_or_a_directory() {
        let store = CarriedArchives::parse("s3://b/x").unwrap();
        assert_eq!(store, CarriedArchives::Store("s3://b/x".parse().unwrap()));
        let directory = CarriedArchives::parse("file:///archives").unwrap();
        assert_eq!(directory, CarriedArchives::Directory("/archives".into()));
        assert!(CarriedArchives::parse("s3://").is_err());
    }
}
