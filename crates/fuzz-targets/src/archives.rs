//! Archives that were transferred from the connected side.

use std::fs;
use std::path::Path;

use mirror_plan::Destination;
use oci::Digest;
use tar::{EntryType, Header};
use workspace::archive::Archives;
use workspace::distribution::{Distribution, TarFiles};

use crate::two_parts;

const BLOCK: usize = 512;

/// A file with the name of an archive.
pub fn archive(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    fs::write(folder.path().join("mirror_000001.tar"), data).expect("a file can be written");
    let archives = Archives::open(folder.path()).expect("a folder with an archive can be opened");
    read(&archives);
    read_v2(&folder.path().join("mirror_000001.tar"));
}

/// The same file as an archive of oc-mirror v2.
fn read_v2(file: &Path) {
    let (files, problems) = TarFiles::scan(&[file.to_owned()]);
    for problem in problems {
        assert!(!problem.to_string().is_empty());
    }
    let digests: Vec<Digest> = files.digests().copied().collect();
    let mut distribution = Distribution::default();
    distribution.add_archives(files);
    for name in distribution.document_names() {
        assert!(!name.starts_with('/') && !name.split('/').any(|part| part == ".."), "{name}");
        let _ = distribution.document(&name);
    }
    let name: Destination = "a/b:v1".parse().expect("the name is one");
    let _ = distribution.image(&name, None);
    for digest in digests {
        // An image that is found has the requested digest.
        if let Ok(Some(tree)) = distribution.image(&name, Some(&digest)) {
            assert_eq!(tree.root().digest, digest);
        }
    }
}

/// The index of an archive, and after a zero byte the content of the first chunk. The target adds
/// what pins the index: a header with its digest. A fuzzer could not generate that.
pub fn archive_index(data: &[u8]) {
    let (index, content) = two_parts(data);
    let mut file = index_header(index).as_bytes().to_vec();
    file.extend(index);
    file.resize(file.len().next_multiple_of(BLOCK), 0);
    file.extend(content);
    archive(&file);
}

/// The header that `docs/archive-format.md` describes.
fn index_header(index: &[u8]) -> Header {
    let mut header = Header::new_ustar();
    let name = format!("index/000001.sha256-{}.json", Digest::of(index).hex());
    header.set_path(name).expect("the name fits");
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(index.len() as u64);
    header.set_cksum();
    header
}

/// Everything that is read from an archive before and while its images are pushed.
fn read(archives: &Archives) {
    for finding in archives.findings() {
        assert!(!finding.to_string().is_empty());
    }
    for image in archives.images() {
        assert!(archives.image(&image.origin).is_some());
    }
    for blob in archives.indexes().flat_map(|index| &index.blobs) {
        let is_present = archives.blob(&blob.digest).is_some();
        assert_eq!(archives.size(&blob.digest).is_some(), is_present);
        assert!(archives.whereabouts(&blob.digest).is_none() || !is_present);
        archives.files_of(&blob.digest);
    }
    archives.verify(&|_| {});
}
