use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use mirror_plan::Destination;
use oci::{Digest, MediaType};

use super::*;
use crate::{BlobStore, sample};

/// A cache with an image `a/b:1` of one layer, written in the layout of docker distribution.
struct Sample {
    folder: tempfile::TempDir,
    manifest: Digest,
    layer: Digest,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(folder.path().join("blobs"));
        let layer = vec![7; 3000];
        let node = sample::manifest(&blobs, MediaType::OCI_MANIFEST, &layer);
        let this = Self { manifest: node.digest, layer: Digest::of(&layer), folder };
        for digest in [node.digest].into_iter().chain(node.blobs.iter().map(|blob| blob.digest)) {
            let content = fs::read(blobs.path(&digest)).unwrap();
            write(&this.blob(&digest), &content);
        }
        this.tag("1", &node.digest);
        this
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("docker/registry/v2")
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.root().join("blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }

    fn tag(&self, tag: &str, digest: &Digest) {
        let tags = self.root().join("repositories/a/b/_manifests/tags");
        write(&tags.join(tag).join("current/link"), digest.to_string().as_bytes());
    }

    /// An archive of some of it, by GNU tar.
    fn tar(&self, name: &str, folders: &[&str]) -> PathBuf {
        let path = self.folder.path().join(name);
        let status = Command::new("tar")
            .arg("-C")
            .arg(self.folder.path())
            .arg("-cf")
            .arg(&path)
            .args(["--no-recursion"])
            .args(folders.iter().flat_map(|folder| files(self.folder.path(), folder)))
            .status();
        assert!(status.unwrap().success());
        path
    }

    fn cache(&self) -> Distribution {
        let mut distribution = Distribution::default();
        distribution.add_cache(Cache::find(self.folder.path()).unwrap().unwrap());
        distribution
    }
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// All plain files below a folder, relative to `root`.
fn files(root: &Path, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        match path.is_dir() {
            true => found.extend(files(root, name.to_str().unwrap())),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

fn name(text: &str) -> Destination {
    text.parse().unwrap()
}

fn archived(paths: &[PathBuf]) -> Distribution {
    let (found, problems) = TarFiles::scan(paths);
    assert_eq!(problems, []);
    let mut distribution = Distribution::default();
    distribution.add_archives(found);
    distribution
}

#[test]
fn an_image_is_found_by_its_name_in_a_cache_and_in_archives_of_several_files() {
    let sample = Sample::new();
    let whole = [sample.tar("whole.tar", &["docker"])];
    let parts = [
        sample.tar("links.tar", &["docker/registry/v2/repositories"]),
        sample.tar("blobs.tar", &["docker/registry/v2/blobs"]),
    ];
    for distribution in [sample.cache(), archived(&whole), archived(&parts)] {
        let tree = distribution.image(&name("a/b:1"), None).unwrap().unwrap();
        assert_eq!(tree.root().digest, sample.manifest);
        assert!(tree.blobs().contains_key(&sample.layer));
        let mut content = Vec::new();
        distribution.blob(&sample.layer).unwrap().unwrap().read_to_end(&mut content).unwrap();
        assert_eq!(Digest::of(&content), sample.layer);
        assert!(distribution.image(&name("a/b:2"), None).unwrap().is_none());
        // A digest is found without a tag.
        let by_digest = distribution.image(&name("c:x"), Some(&sample.manifest)).unwrap();
        assert_eq!(by_digest.unwrap().root().digest, sample.manifest);
        let other = Digest::of(b"other");
        let error = distribution.image(&name("a/b:1"), Some(&other)).unwrap_err();
        assert!(matches!(error, DistributionError::OtherDigest { .. }), "{error}");
    }
}

#[test]
fn a_signature_belongs_to_its_image_and_one_without_content_is_left_out() {
    let sample = Sample::new();
    let blobs = BlobStore::new(sample.folder.path().join("blobs"));
    let signature = sample::manifest(&blobs, MediaType::OCI_MANIFEST, b"signature");
    let tag = format!("sha256-{}.sig", sample.manifest.hex());
    sample.tag(&tag, &signature.digest);
    let attachments =
        |sample: &Sample| sample.cache().image(&name("a/b:1"), None).unwrap().unwrap().attachments;
    assert_eq!(attachments(&sample), []);
    write(&sample.blob(&signature.digest), &fs::read(blobs.path(&signature.digest)).unwrap());
    let found = attachments(&sample);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].subject, sample.manifest);
    assert_eq!(found[0].tag.as_ref().unwrap().as_str(), tag);
}

#[test]
fn a_damaged_manifest_and_a_missing_one_are_errors() {
    let sample = Sample::new();
    fs::write(sample.blob(&sample.manifest), b"{}").unwrap();
    let error = sample.cache().image(&name("a/b:1"), None).unwrap_err();
    assert!(matches!(error, DistributionError::Damaged(_)), "{error}");
    fs::remove_file(sample.blob(&sample.manifest)).unwrap();
    let error = sample.cache().image(&name("a/b:1"), None).unwrap_err();
    assert!(matches!(error, DistributionError::Absent { .. }), "{error}");
}

#[test]
fn a_truncated_archive_is_a_problem_wherever_it_ends() {
    let sample = Sample::new();
    let path = sample.tar("x.tar", &["docker"]);
    let whole = fs::metadata(&path).unwrap().len();
    // The whole file, padded by GNU tar to 10 KiB, has more than one end mark; the shortest valid
    // file ends after the first.
    let mut problems = 0;
    for length in (512..whole).step_by(512) {
        File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        let (files, found) = TarFiles::scan(std::slice::from_ref(&path));
        if found.is_empty() {
            let mut distribution = Distribution::default();
            distribution.add_archives(files);
            assert!(distribution.image(&name("a/b:1"), None).unwrap().is_some(), "{length}");
        } else {
            problems += 1;
            let text = found[0].to_string();
            assert!(text.contains("truncated") && text.contains("copy it again"), "{text}");
        }
        let again = sample.tar("x.tar", &["docker"]);
        assert_eq!(again, path);
    }
    assert!(problems > 5, "{problems}");
}

#[test]
fn documents_are_those_that_images_are_selected_by_and_blobs_of_layouts_count() {
    let sample = Sample::new();
    let at = |name: &str| sample.folder.path().join("working-dir").join(name);
    write(&at("signatures/4.16-sha256-ab"), b"signature");
    write(&at("logs/oc-mirror.log"), b"log");
    let blob = Digest::of(b"layer of a catalog");
    let layout = format!("operator-catalogs/x/ab/catalog-image/blobs/sha256/{}", blob.hex());
    write(&at(&layout), b"layer of a catalog");
    let distribution = archived(&[sample.tar("x.tar", &["working-dir"])]);
    let names: Vec<String> = distribution.document_names().into_iter().collect();
    assert_eq!(names, ["signatures/4.16-sha256-ab"]);
    let document = distribution.document("signatures/4.16-sha256-ab").unwrap();
    assert_eq!(document.unwrap(), b"signature");
    assert!(distribution.blob(&blob).unwrap().is_some());
}

#[test]
fn content_is_taken_over_from_a_cache_without_touching_it() {
    use std::os::unix::fs::MetadataExt;
    let sample = Sample::new();
    let cache = Cache::find(sample.folder.path()).unwrap().unwrap();
    let store = BlobStore::new(sample.folder.path().join("new/blobs")).with_cache(cache);
    let before = fs::metadata(sample.blob(&sample.layer)).unwrap();
    assert!(store.adopt(&sample.layer, Some(3000)).unwrap());
    assert_eq!(fs::read(store.path(&sample.layer)).unwrap(), vec![7; 3000]);
    let after = fs::metadata(sample.blob(&sample.layer)).unwrap();
    assert_eq!(
        (before.len(), before.mtime(), before.mode()),
        (after.len(), after.mtime(), after.mode())
    );
    assert!(!store.adopt(&Digest::of(b"absent"), None).unwrap());
    // Wrong content, and content of another length, is fetched instead.
    fs::write(sample.blob(&sample.manifest), b"{}").unwrap();
    assert!(!store.adopt(&sample.manifest, None).unwrap());
    assert!(!store.has(&sample.manifest, None).unwrap());
}

#[test]
fn a_cache_that_another_process_has_open_is_in_use() {
    let sample = Sample::new();
    let upload = sample.root().join("repositories/a/b/_uploads/1/data");
    write(&upload, b"part");
    let file = File::open(&upload).unwrap();
    let mut child = Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
    let error = Cache::find(sample.folder.path()).unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    let text = error.to_string();
    assert!(text.contains("is in use") && text.contains("(sleep)"), "{text}");
    assert!(Cache::find(sample.folder.path()).unwrap().is_some());
}

#[test]
fn a_folder_without_content_is_not_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Cache::find(folder.path()).unwrap().is_none());
    assert!(Cache::find(&folder.path().join("missing")).unwrap().is_none());
}
