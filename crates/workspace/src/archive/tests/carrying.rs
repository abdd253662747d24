//! Archives that arrive.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use mirror_plan::BlobRef;

use super::*;
use crate::{FailedImage, Holdings};

#[test]
fn images_arrive_as_they_were_and_no_chunk_exceeds_its_limit() {
    let from = Connected::new();
    let (a, b) = (from.image("q.io/a:1", 70_000), from.image("q.io/b:1", 3_000));
    let mut wanted = request(1, &[&b, &a], 32 << 10);
    let note = b"kind: ImageSetConfiguration";
    from.workspace.blobs().put(&Digest::of(note), note).unwrap();
    let file = BlobRef { digest: Digest::of(note), size: note.len() as u64 };
    wanted.files.insert("isc.yaml".into(), file);
    let sealed = from.archive(wanted);
    assert_eq!(names(&sealed.chunks)[..2], ["mirror_000001.tar", "mirror_000002.tar"]);
    for chunk in &sealed.chunks {
        assert!(fs::metadata(chunk).unwrap().len() <= 32 << 10);
    }
    // Any order, and without the workspace.
    let mut files = sealed.chunks;
    files.reverse();
    let to = carry(&files);
    let archives = Archives::open(to.path()).unwrap();
    assert_eq!(verify(&archives), [""; 0]);
    assert_eq!(archives.images().collect::<Vec<_>>(), [&a, &b]);
    assert_eq!(
        content(&archives, &Digest::of(&layer("q.io/a:1", 70_000))),
        layer("q.io/a:1", 70_000)
    );
    assert_eq!(content(&archives, &Digest::of(note)), note);
    assert_eq!(archives.indexes().next().unwrap().files["isc.yaml"], file);
    let read = AtomicU64::new(0);
    archives.verify(&|bytes| _ = read.fetch_max(bytes, Ordering::Relaxed));
    assert_eq!(read.into_inner(), archives.bytes_to_verify());
}

#[test]
fn gnu_tar_lists_and_extracts_every_chunk() {
    let from = Connected::new();
    let image = from.image("q.io/a:1", 70_000);
    let sealed = from.archive(request(1, &[&image], 32 << 10));
    let out = tempfile::tempdir().unwrap();
    for chunk in &sealed.chunks {
        let tar = Command::new("tar").arg("-xvf").arg(chunk).arg("-C").arg(out.path()).output();
        let tar = tar.expect("tar is installed");
        assert!(tar.status.success() && tar.stderr.is_empty(), "{tar:?}");
    }
    let blobs = out.path().join("blobs/sha256");
    let layer = layer("q.io/a:1", 70_000);
    let hex = Digest::of(&layer).hex();
    let mut parts: Vec<PathBuf> =
        fs::read_dir(&blobs).unwrap().map(|e| e.unwrap().path()).collect();
    parts.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&hex));
    parts.sort();
    assert!(parts.len() > 1, "{parts:?}");
    let whole: Vec<u8> = parts.iter().flat_map(|part| fs::read(part).unwrap()).collect();
    assert!(whole == layer);
    let manifest = image.tree.root().digest;
    assert_eq!(Digest::of(&fs::read(blobs.join(manifest.hex())).unwrap()), manifest);
    assert_eq!(fs::read_dir(out.path().join("index")).unwrap().count(), sealed.chunks.len());
}

#[test]
fn a_second_run_contains_only_what_is_new_and_names_what_it_builds_on() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 50_000);
    let first = from.archive(request(1, &[&a], WIDE));
    let b = from.image("q.io/b:1", 1_000);
    let second = from.archive(request(2, &[&a, &b], WIDE));
    assert_eq!(names(&second.chunks), ["mirror_000002.tar"]);
    assert_eq!(second.base, Some(1));
    assert!(second.bytes < 20_000, "{}", second.bytes);

    let only_second = carry(&second.chunks);
    let archives = Archives::open(only_second.path()).unwrap();
    assert_eq!(archives.findings(), [], "the target may hold the rest already");
    assert_eq!(archives.images().count(), 2);
    let old = Digest::of(&layer("q.io/a:1", 50_000));
    assert!(archives.blob(&old).is_none());
    let missing = archives.whereabouts(&old).unwrap().to_string();
    assert!(missing.contains("mirror_000001.tar of run 1"), "{missing}");
    assert_eq!(archives.whereabouts(&Digest::of(b"unheard of")), None);

    let both = carry(&[second.chunks, first.chunks].concat());
    let archives = Archives::open(both.path()).unwrap();
    assert_eq!(verify(&archives), [""; 0]);
    assert!(archives.blob(&old).is_some());
    assert_eq!(archives.whereabouts(&old), None);
}

#[test]
fn with_nothing_new_nothing_is_written_but_a_new_tag_is_archived() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 5_000);
    from.archive(request(1, &[&a], WIDE));
    let plan = from.plan(request(2, &[&a], WIDE)).unwrap();
    assert!(matches!(plan, ArchivePlan::NothingNew { base: 1 }), "{plan:?}");
    let mut retagged = a.clone();
    retagged.origin = mirror_plan::Origin::Registry("q.io/a:2".parse().unwrap());
    let sealed = from.archive(request(2, &[&a, &retagged], WIDE));
    let index = Archives::open(from.root()).unwrap();
    assert_eq!(index.indexes().last().unwrap().own_blobs().count(), 0);
    assert_eq!(sealed.chunks.len(), 1);
    assert_eq!(index.images().count(), 2);
}

#[test]
fn since_a_day_carries_again_what_was_archived_later() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 5_000);
    from.archive(request(1, &[&a], WIDE));
    let b = from.image("q.io/b:1", 6_000);
    from.archive(request(2, &[&a, &b], WIDE));
    for (day, run, base, layers) in [("2026-03-02", 3, Some(1), 1), ("2026-03-01", 4, None, 2)] {
        let mut wanted = request(run, &[&a, &b], WIDE);
        wanted.base = Base::Before(day.parse().unwrap());
        let planned = from.planned(wanted);
        assert_eq!(planned.index().base, base);
        assert_eq!(planned.index().own_blobs().filter(|blob| blob.size >= 5_000).count(), layers);
    }
}

#[test]
fn numbers_continue_and_no_file_is_ever_replaced() {
    let from = Connected::new();
    fs::write(from.root().join("mirror_000004.tar"), b"theirs").unwrap();
    let a = from.image("q.io/a:1", 100);
    assert_eq!(names(&from.archive(request(1, &[&a], WIDE)).chunks), ["mirror_000005.tar"]);
    let b = from.image("q.io/b:1", 100);
    fs::remove_file(from.root().join("mirror_000005.tar")).unwrap();
    let sealed = from.archive(request(2, &[&a, &b], WIDE));
    assert_eq!(names(&sealed.chunks), ["mirror_000006.tar"]);
    assert_eq!(fs::read(from.root().join("mirror_000004.tar")).unwrap(), b"theirs");
}

#[test]
fn old_archives_are_removed_and_stay_known_as_delivered() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 5_000);
    let first = from.archive(request(1, &[&a], WIDE));
    let b = from.image("q.io/b:1", 5_000);
    let second = from.archive(request(2, &[&a, &b], WIDE));
    let removed = from.workspace.remove_archives_before(&from.lock, 2).unwrap();
    assert_eq!((removed.files, removed.bytes), (first.chunks.clone(), first.bytes));
    assert!(second.chunks[0].exists());
    let plan = from.plan(request(3, &[&a, &b], WIDE)).unwrap();
    assert!(matches!(plan, ArchivePlan::NothingNew { base: 2 }));
    // A file of another maker under the old name is not ours to remove.
    fs::write(&first.chunks[0], b"theirs").unwrap();
    let removed = from.workspace.remove_archives_before(&from.lock, 2).unwrap();
    assert_eq!(names(&removed.files), [""; 0]);
    assert!(first.chunks[0].exists());
    assert_eq!(from.workspace.sealed_runs().unwrap().len(), 2);
}

#[test]
fn the_list_of_everything_archived_is_kept_for_those_who_read_it() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 100);
    from.archive(request(1, &[&a], WIDE));
    let b = from.image("q.io/b:1", 100);
    from.archive(request(2, &[&b], WIDE));
    let path = from.root().join("working-dir/.history/.history-2026-03-02T12:00:00Z");
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<Digest> = text.lines().map(|line| line.parse().unwrap()).collect();
    // Manifest, config and layer of both.
    assert_eq!(lines.len(), 6);
    assert!(lines.contains(&a.tree.root().digest) && lines.contains(&b.tree.root().digest));
}

#[test]
fn a_partial_archive_lists_what_failed() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 100);
    let mut wanted = request(1, &[&a], WIDE);
    wanted.status = ArchiveStatus::Partial;
    let origin = mirror_plan::Origin::Registry("q.io/gone:1".parse().unwrap());
    let error = "https://u:hush@q.io: 404".to_owned();
    wanted.failed = vec![FailedImage { origin: origin.clone(), error }];
    from.archive(wanted);
    let archives = Archives::open(from.root()).unwrap();
    let index = archives.indexes().next().unwrap();
    assert_eq!(index.status, ArchiveStatus::Partial);
    assert_eq!(index.failed[0].origin, origin);
    assert_eq!(index.failed[0].error, "https://***@q.io: 404");
}

#[test]
fn the_newest_run_defines_what_an_image_is() {
    let from = Connected::new();
    let old = from.image("q.io/a:1", 100);
    from.archive(request(1, &[&old], WIDE));
    let new = sample::image(from.workspace.blobs(), "q.io/a:1", b"moved tag");
    from.archive(request(2, &[&new], WIDE));
    let archives = Archives::open(from.root()).unwrap();
    assert_eq!(archives.images().collect::<Vec<_>>(), [&new]);
    assert_eq!(archives.image(&new.origin).unwrap(), &new);
}

#[test]
fn a_clock_that_was_set_back_does_not_make_an_older_run_the_newest() {
    let from = Connected::new();
    let old = from.image("q.io/a:1", 100);
    from.archive(request(7, &[&old], WIDE));
    let new = sample::image(from.workspace.blobs(), "q.io/a:1", b"moved tag");
    let mut later = request(8, &[&new], WIDE);
    later.created = "2020-01-01T00:00:00Z".parse().unwrap();
    from.archive(later);
    let archives = Archives::open(from.root()).unwrap();
    let runs: Vec<u64> = archives.indexes().map(|index| index.run).collect();
    assert_eq!(runs, [7, 8]);
    assert_eq!(archives.image(&new.origin), Some(&new));
}

#[test]
fn archives_are_not_removed_when_none_would_be_left() {
    let from = Connected::new();
    // Before the first archive there is nothing to lose, unless its own would go.
    from.workspace.check_removal(1, Some(1)).unwrap();
    from.workspace.check_removal(2, Some(1)).unwrap_err();
    let a = from.image("q.io/a:1", 5_000);
    let first = from.archive(request(1, &[&a], WIDE));
    let error = from.workspace.remove_archives_before(&from.lock, 99).unwrap_err().to_string();
    assert!(error.contains("run 99") && error.contains("run 1"), "{error}");
    assert!(error.contains("mirror_000001.tar"), "{error}");
    assert!(first.chunks[0].exists());
    from.workspace.check_removal(2, Some(2)).unwrap_err();
    from.workspace.check_removal(1, Some(2)).unwrap();
}

#[test]
fn what_cannot_be_archived_is_named() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 100);
    let small = from.plan(request(1, &[&a], 1024)).unwrap_err().to_string();
    assert!(small.contains("1024 bytes are too small") && small.contains("archiveSize"), "{small}");
    let mut manifests_only = a.clone();
    manifests_only.blobs_held = false;
    let error = from.plan(request(1, &[&manifests_only], WIDE)).unwrap_err().to_string();
    assert!(error.contains("q.io/a:1") && error.contains("only its manifests"), "{error}");
    fs::remove_file(from.workspace.blobs().path(&Digest::of(&layer("q.io/a:1", 100)))).unwrap();
    let error = from.plan(request(1, &[&a], WIDE)).unwrap_err();
    assert!(matches!(&error, ArchiveError::Missing { of, .. } if of == "q.io/a:1"), "{error}");
}

#[test]
fn holdings_join_a_workspace_and_archives() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 5_000);
    let sealed = from.archive(request(1, &[&a], WIDE));
    let to = carry(&sealed.chunks);
    let local = Workspace::open(to.path());
    let b = sample::image(local.blobs(), "q.io/b:1", b"local");
    local.save_record(&b).unwrap();
    let archives = Archives::open(to.path()).unwrap();
    let holdings = Holdings::new(Some(local), Some(archives));
    assert_eq!(holdings.records().unwrap(), [a.clone(), b]);
    assert_eq!(holdings.record(&a.origin).unwrap(), Some(a));
    for (digest, length) in
        [(Digest::of(&layer("q.io/a:1", 5_000)), 5_000), (Digest::of(b"local"), 5)]
    {
        assert_eq!(holdings.blob(&digest).unwrap().unwrap().length(), length);
    }
}
