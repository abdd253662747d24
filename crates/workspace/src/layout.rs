//! An image as an OCI layout that other tools read, over the shared blobs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mirror_plan::{ImageRecord, Origin};
use oci::{Descriptor, MediaType};
use serde::Serialize;

use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError};

/// Whether a layout could be linked to the shared blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    Yes,
    /// The filesystem has no symbolic links. The layout is read by tools that
    /// get the directory of blobs: `skopeo --shared-blob-dir DIR/blobs`.
    Unsupported,
}

/// The layout's `index.json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index<'a> {
    schema_version: u32,
    media_type: &'a str,
    manifests: [Descriptor; 1],
}

/// Makes a symbolic link: `(what it points to, where it is)`.
pub(crate) type Link<'a> = &'a dyn Fn(&Path, &Path) -> io::Result<()>;

/// Writes the layout of `record` to `workspace/place`. Everything but the
/// record itself, which comes last: it is the mark of completeness.
pub(crate) fn write(
    workspace: &Path,
    place: &Path,
    record: &ImageRecord,
    link: Link<'_>,
) -> Result<Linked, DiskError> {
    let directory = workspace.join(place);
    fs::create_dir_all(&directory).at("creating", &directory)?;
    let linked = link_blobs(&directory, &blobs_seen_from(place), link)?;
    let version = br#"{"imageLayoutVersion":"1.0.0"}"#;
    atomic_file::write(&directory.join("oci-layout"), version, Durability::Later)?;
    let path = directory.join("index.json");
    let index = serde_json::to_vec(&index(record)).map_err(io::Error::other);
    atomic_file::write(&path, &index.at("writing", &path)?, Durability::Later)?;
    Ok(linked)
}

fn index(record: &ImageRecord) -> Index<'static> {
    let root = record.tree.root();
    let mut image = Descriptor::new(root.media_type.clone(), root.digest, root.size);
    if let Origin::Registry(reference) = &record.origin
        && let Some(tag) = &reference.tag
    {
        let name = "org.opencontainers.image.ref.name".to_owned();
        image.annotations.insert(name, tag.to_string());
    }
    Index { schema_version: 2, media_type: MediaType::OCI_INDEX, manifests: [image] }
}

/// `../…/blobs`: relative, so that a workspace can be moved elsewhere.
fn blobs_seen_from(place: &Path) -> PathBuf {
    let up = std::iter::repeat_n("..", place.components().count());
    up.chain(["blobs"]).collect()
}

fn link_blobs(directory: &Path, target: &Path, link: Link<'_>) -> Result<Linked, DiskError> {
    let path = directory.join("blobs");
    match link(target, &path) {
        Ok(()) => Ok(Linked::Yes),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::read_link(&path) {
            Ok(found) if found == target => Ok(Linked::Yes),
            _ => Err(DiskError::new("linking", &path, error)),
        },
        Err(error) if has_no_links(&error) => Ok(Linked::Unsupported),
        Err(error) => Err(DiskError::new("linking", &path, error)),
    }
}

/// Whether this is the error of a filesystem without symbolic links: FAT and exFAT return EPERM.
pub(crate) fn has_no_links(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unsupported = [Errno::PERM, Errno::NOTSUP, Errno::OPNOTSUPP, Errno::NOSYS];
    Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;
    use crate::BlobStore;
    use crate::sample;

    fn skopeo(arguments: &[&str]) -> serde_json::Value {
        let output = Command::new("skopeo").args(arguments).output().expect("skopeo is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "skopeo {arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[test]
    fn skopeo_reads_the_layouts_of_all_formats() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(dir.path().join("blobs"));
        for (media_type, place) in [
            (MediaType::OCI_MANIFEST, "images/a/_tags/oci"),
            (MediaType::DOCKER_MANIFEST, "images/q.io/b/c/_tags/docker"),
        ] {
            let record = sample::image_of(&blobs, media_type, "q.io/b/c:1", b"layer");
            let place = Path::new(place);
            assert_eq!(
                write(dir.path(), place, &record, &|a, b| symlink(a, b)).unwrap(),
                Linked::Yes
            );
            let layout = format!("oci:{}", dir.path().join(place).display());
            let seen = skopeo(&["inspect", &layout]);
            assert_eq!(seen["Digest"], record.tree.root().digest.to_string());
            assert_eq!(seen["Layers"][0], oci::Digest::of(b"layer").to_string());
            // By the tag that the annotation names; skopeo searches for those of
            // OCI manifests only.
            if media_type == MediaType::OCI_MANIFEST {
                skopeo(&["inspect", &format!("{layout}:1")]);
            }
        }
    }

    #[test]
    fn without_links_the_layout_is_read_over_the_shared_blobs() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(dir.path().join("blobs"));
        let record = sample::image(&blobs, "q.io/a:1", b"layer");
        let place = Path::new("images/q.io/a/_tags/1");
        for errno in [rustix::io::Errno::PERM, rustix::io::Errno::NOTSUP] {
            let linked = write(dir.path(), place, &record, &|_, _| Err(errno.into())).unwrap();
            assert_eq!(linked, Linked::Unsupported);
        }
        assert!(!dir.path().join(place).join("blobs").exists());
        let layout = format!("oci:{}", dir.path().join(place).display());
        let shared = blobs.root().to_str().unwrap();
        let seen = skopeo(&["inspect", "--raw", "--shared-blob-dir", shared, &layout]);
        assert_eq!(seen["layers"][0]["digest"], oci::Digest::of(b"layer").to_string());
    }

    #[test]
    fn other_failures_to_link_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(dir.path().join("blobs"));
        let record = sample::image(&blobs, "q.io/a:1", b"layer");
        let place = Path::new("images/x");
        let full = |_: &Path, _: &Path| Err(io::ErrorKind::StorageFull.into());
        let error = write(dir.path(), place, &record, &full).unwrap_err().to_string();
        assert!(error.contains("linking") && error.contains("free some space"), "{error}");
        fs::create_dir(dir.path().join("images/x/blobs")).unwrap();
        let error = write(dir.path(), place, &record, &|a, b| symlink(a, b)).unwrap_err();
        assert!(error.to_string().contains("another file or directory has this name"), "{error}");
    }
}
