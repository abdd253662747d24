//! Content that is written into the archive while it arrives.

use std::os::unix::fs::FileExt;

use super::super::Staging;
use super::*;

/// Two of these are worth it.
const LARGE: usize = 33 << 20;
const NAMES: [&str; 3] = ["q.io/a:1", "q.io/b:1", "q.io/c:1"];

/// Content that takes no time to make.
fn content_of(name: &str) -> Vec<u8> {
    let mut content = vec![name.as_bytes()[5]; LARGE];
    content[..name.len()].copy_from_slice(name.as_bytes());
    content
}

fn image(from: &Connected, name: &str) -> ImageRecord {
    let record = sample::image(from.workspace.blobs(), name, &content_of(name));
    from.workspace.save_record(&record).unwrap();
    record
}

/// Images whose layers are not in the store.
fn expected(from: &Connected) -> Vec<ImageRecord> {
    let images = NAMES.map(|name| {
        let image = image(from, name);
        from.workspace.blobs().remove(&Digest::of(&content_of(name))).unwrap();
        image
    });
    images.into()
}

fn stage(from: &Connected, images: &[ImageRecord]) -> Staging {
    let images: Vec<&ImageRecord> = images.iter().collect();
    from.workspace.stage_archive(&from.lock, request(1, &images, WIDE)).unwrap().unwrap()
}

/// Lets a layer arrive, in pieces of odd lengths.
fn arrive(from: &Connected, staging: &Staging, name: &str) {
    let content = content_of(name);
    let store = from.workspace.blobs();
    let mut blob = staging.attach(store.begin_unread(&Digest::of(&content), LARGE as u64).unwrap());
    for piece in content.chunks(100_001) {
        blob.write(piece).unwrap();
    }
    blob.finish().unwrap();
}

fn write(from: &Connected, images: &[&ImageRecord], staging: &Staging) -> SealedArchive {
    let planned = from.planned(request(1, images, WIDE));
    let mut seen = 0;
    let mut progress = |bytes| seen = bytes;
    let sealed =
        from.workspace.write_staged_archive(&from.lock, &planned, Some(staging), &mut progress);
    let sealed = sealed.unwrap();
    assert_eq!((seen, sealed.bytes), (planned.bytes(), planned.bytes()));
    sealed
}

/// The bytes of an archive that is written without staging.
fn plain(images: &[&str]) -> Vec<u8> {
    let from = Connected::new();
    // Archives differ in the id of their workspace, so only what follows the index is compared.
    let images: Vec<ImageRecord> = images.iter().map(|name| image(&from, name)).collect();
    let images: Vec<&ImageRecord> = images.iter().collect();
    behind_index(&from.archive(request(1, &images, WIDE)))
}

fn behind_index(sealed: &SealedArchive) -> Vec<u8> {
    let mut bytes = fs::read(&sealed.chunks[0]).unwrap();
    let index = bytes.windows(11).position(|window| window == b"blobs/sha25").unwrap();
    bytes.split_off(index)
}

/// Changes the middle of a layer in the store.
fn damage(from: &Connected, name: &str) {
    let path = from.workspace.blobs().path(&Digest::of(&content_of(name)));
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(b"damaged", 1 << 20).unwrap();
}

fn partial_files(from: &Connected) -> Vec<String> {
    let entries = fs::read_dir(from.root()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".partial")).collect()
}

#[test]
fn what_arrived_is_in_the_archive_and_is_not_read_again() {
    let from = Connected::new();
    let images = expected(&from);
    let staging = stage(&from, &images);
    NAMES.iter().for_each(|name| arrive(&from, &staging, name));
    // A copy from the store would fail.
    NAMES.iter().for_each(|name| damage(&from, name));
    let sealed = write(&from, &images.iter().collect::<Vec<_>>(), &staging);
    assert_eq!(verify(&Archives::open(from.root()).unwrap()), [""; 0]);
    assert!(behind_index(&sealed) == plain(&NAMES));
    drop(staging);
    assert_eq!(partial_files(&from), [""; 0]);
    assert!(sealed.chunks[0].exists());
}

#[test]
fn an_image_that_does_not_arrive_leaves_no_byte_in_the_archive() {
    let from = Connected::new();
    let images = expected(&from);
    let staging = stage(&from, &images);
    arrive(&from, &staging, NAMES[0]);
    arrive(&from, &staging, NAMES[2]);
    let content = content_of(NAMES[1]);
    let begun = from.workspace.blobs().begin_unread(&Digest::of(&content), LARGE as u64).unwrap();
    let mut cut = staging.attach(begun);
    cut.write(&content[..20 << 20]).unwrap();
    drop(cut);
    let sealed = write(&from, &[&images[0], &images[2]], &staging);
    assert_eq!(verify(&Archives::open(from.root()).unwrap()), [""; 0]);
    assert!(behind_index(&sealed) == plain(&[NAMES[0], NAMES[2]]));
}

#[test]
fn a_blob_that_an_earlier_run_began_is_copied_into_the_archive() {
    let from = Connected::new();
    let images = expected(&from);
    let content = content_of(NAMES[1]);
    let digest = Digest::of(&content);
    let mut earlier = from.workspace.blobs().begin_unread(&digest, LARGE as u64).unwrap();
    earlier.write(&content[..5 << 20]).unwrap();
    drop(earlier);
    let staging = stage(&from, &images);
    arrive(&from, &staging, NAMES[0]);
    arrive(&from, &staging, NAMES[2]);
    let mut rest =
        staging.attach(from.workspace.blobs().begin_unread(&digest, LARGE as u64).unwrap());
    assert_eq!(rest.offset(), 5 << 20);
    rest.write(&content[5 << 20..]).unwrap();
    rest.finish().unwrap();
    let sealed = write(&from, &images.iter().collect::<Vec<_>>(), &staging);
    assert!(behind_index(&sealed) == plain(&NAMES));
}

#[test]
fn wrong_bytes_are_replaced_by_those_of_the_next_attempt() {
    let from = Connected::new();
    let images = expected(&from);
    let staging = stage(&from, &images);
    let content = content_of(NAMES[0]);
    let digest = Digest::of(&content);
    let begun = from.workspace.blobs().begin_unread(&digest, LARGE as u64).unwrap();
    let mut wrong = staging.attach(begun);
    wrong.write(&vec![7; LARGE]).unwrap();
    assert!(wrong.finish().is_err());
    NAMES.iter().for_each(|name| arrive(&from, &staging, name));
    let sealed = write(&from, &images.iter().collect::<Vec<_>>(), &staging);
    assert!(behind_index(&sealed) == plain(&NAMES));
}

#[test]
fn an_archive_in_several_files_is_staged_too() {
    let from = Connected::new();
    let images = expected(&from);
    let all: Vec<&ImageRecord> = images.iter().collect();
    // One layer spans both files, and is copied.
    let limit = (2 * LARGE + LARGE / 2) as u64;
    let wanted = || request(1, &all, limit);
    let staging = from.workspace.stage_archive(&from.lock, wanted()).unwrap().unwrap();
    NAMES.iter().for_each(|name| arrive(&from, &staging, name));
    let planned = from.planned(wanted());
    let sealed = from
        .workspace
        .write_staged_archive(&from.lock, &planned, Some(&staging), &mut |_| {})
        .unwrap();
    assert_eq!(names(&sealed.chunks), ["mirror_000001.tar", "mirror_000002.tar"]);
    assert_eq!(verify(&Archives::open(from.root()).unwrap()), [""; 0]);
}

#[test]
fn files_of_an_archive_that_is_not_written_are_removed() {
    let from = Connected::new();
    let images = expected(&from);
    let staging = stage(&from, &images);
    assert_eq!(partial_files(&from).len(), 1);
    drop(staging);
    assert_eq!(partial_files(&from), [""; 0]);
    // A killed process drops nothing.
    std::mem::forget(stage(&from, &images));
    assert_eq!(partial_files(&from).len(), 1);
    from.workspace.remove_abandoned_chunks(&from.lock).unwrap();
    assert_eq!(partial_files(&from), [""; 0]);
}

#[test]
fn little_content_is_not_staged() {
    let from = Connected::new();
    let image = from.image("q.io/small:1", 5 << 20);
    from.workspace.blobs().remove(&Digest::of(&layer("q.io/small:1", 5 << 20))).unwrap();
    let staged = from.workspace.stage_archive(&from.lock, request(1, &[&image], WIDE)).unwrap();
    assert!(staged.is_none());
    assert_eq!(partial_files(&from), [""; 0]);
}
