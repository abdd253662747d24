//! Content that changed in the workspace after it was fetched: it does not get into an archive.

use std::os::unix::fs::FileExt;

use super::*;

/// Changes one byte of a blob in the store, as a bad disk does.
fn flip(workspace: &Workspace, digest: &Digest) {
    let file = fs::File::options().read(true).write(true).open(workspace.blobs().path(digest));
    let (file, mut byte) = (file.unwrap(), [0]);
    file.read_exact_at(&mut byte, 10).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 10).unwrap();
}

fn write(from: &Connected, request: ArchiveRequest) -> Result<SealedArchive, ArchiveError> {
    from.workspace.write_archive(&from.lock, &from.planned(request), &mut |_| {})
}

fn damaged(error: ArchiveError) -> Vec<Digest> {
    match error {
        ArchiveError::Damaged { digests } => digests,
        error => panic!("{error}"),
    }
}

/// Stores a layer again.
fn replace(from: &Connected, content: &[u8]) {
    let digest = Digest::of(content);
    from.workspace.blobs().remove(&digest).unwrap();
    from.workspace.blobs().put(&digest, content).unwrap();
}

#[test]
fn damaged_content_is_named_and_no_archive_has_it() {
    let from = Connected::new();
    let images = [from.image("q.io/a:1", 5_000), from.image("q.io/b:1", 6_000)];
    let layers = [layer("q.io/a:1", 5_000), layer("q.io/b:1", 6_000)];
    let good = from.image("q.io/c:1", 7_000);
    let mut digests = layers.each_ref().map(|layer| Digest::of(layer));
    digests.iter().for_each(|digest| flip(&from.workspace, digest));
    digests.sort_unstable();
    let wanted = request(1, &[&images[0], &images[1], &good], WIDE);
    assert_eq!(damaged(write(&from, wanted.clone()).unwrap_err()), digests);
    assert!(!from.root().join("mirror_000001.tar").exists());
    assert_eq!(from.workspace.sealed_runs().unwrap(), []);
    layers.iter().for_each(|layer| replace(&from, layer));
    let sealed = write(&from, wanted).unwrap();
    assert_eq!(names(&sealed.chunks), ["mirror_000001.tar"]);
    assert_eq!(verify(&Archives::open(from.root()).unwrap()), [""; 0]);
}

#[test]
fn a_blob_that_is_cut_short_counts_as_damaged() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 5_000);
    let digest = Digest::of(&layer("q.io/a:1", 5_000));
    let planned = from.planned(request(1, &[&a], WIDE));
    let file = fs::File::options().write(true).open(from.workspace.blobs().path(&digest)).unwrap();
    file.set_len(4_000).unwrap();
    let written = from.workspace.write_archive(&from.lock, &planned, &mut |_| {});
    assert_eq!(damaged(written.unwrap_err()), [digest]);
}

#[test]
fn a_damaged_blob_that_spans_files_is_in_none_of_them() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 26_000);
    let content = layer("q.io/a:1", 26_000);
    let digest = Digest::of(&content);
    flip(&from.workspace, &digest);
    let wanted = request(1, &[&a], 14 << 10);
    assert_eq!(damaged(write(&from, wanted.clone()).unwrap_err()), [digest]);
    let holds = |number: u32| from.root().join(format!("mirror_{number:06}.tar")).exists();
    assert_eq!([1, 2, 3].map(holds), [false; 3]);
    replace(&from, &content);
    assert_eq!(write(&from, wanted).unwrap().chunks.len(), 3);
    assert_eq!(verify(&Archives::open(from.root()).unwrap()), [""; 0]);
}

#[test]
fn what_an_interrupted_run_wrote_of_a_damaged_blob_is_noticed_by_the_next() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 26_000);
    let content = layer("q.io/a:1", 26_000);
    let digest = Digest::of(&content);
    let wanted = request(1, &[&a], 14 << 10);
    write(&from, wanted.clone()).unwrap();
    // Unsealed, without its last file, and with a wrong byte in the first: as if the run had been
    // killed after it read the blob from a bad disk.
    let runs = from.root().join("working-dir/runs");
    fs::rename(runs.join("000001.json"), runs.join("000001.pending.json")).unwrap();
    fs::remove_file(from.root().join("mirror_000003.tar")).unwrap();
    let archive = from.root().join("mirror_000001.tar");
    let bytes = fs::read(&archive).unwrap();
    let at = bytes.windows(64).position(|window| *window == content[..64]).unwrap();
    let file = fs::File::options().write(true).open(&archive).unwrap();
    file.write_all_at(&[content[0] ^ 1], at as u64).unwrap();
    assert_eq!(damaged(write(&from, wanted.clone()).unwrap_err()), [digest]);
    write(&from, wanted).unwrap();
    assert_eq!(verify(&Archives::open(from.root()).unwrap()), [""; 0]);
}
