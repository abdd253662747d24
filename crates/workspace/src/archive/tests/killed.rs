//! Runs that were killed while they archived.

use std::os::unix::fs::MetadataExt;

use super::*;

/// A workspace whose run 1 died while it wrote its second chunk.
fn killed() -> (Connected, ImageRecord, Vec<PathBuf>) {
    let from = Connected::new();
    let image = from.image("q.io/a:1", 26_000);
    let sealed = from.archive(request(1, &[&image], 14 << 10));
    let runs = from.root().join("working-dir/runs");
    fs::rename(runs.join("000001.json"), runs.join("000001.pending.json")).unwrap();
    fs::remove_dir_all(from.root().join("working-dir/.history")).unwrap();
    fs::remove_file(&sealed.chunks[2]).unwrap();
    let half = fs::read(&sealed.chunks[1]).unwrap();
    fs::remove_file(&sealed.chunks[1]).unwrap();
    fs::write(from.root().join(".mirror_000002.tar.partial"), &half[..5000]).unwrap();
    (from, image, sealed.chunks)
}

fn chunk_files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains("mirror_")).collect();
    names.sort();
    names
}

#[test]
fn the_same_again_continues_with_the_finished_chunks() {
    let (from, image, chunks) = killed();
    let first = fs::metadata(&chunks[0]).unwrap().ino();
    let sealed = from.archive(request(2, &[&image], 14 << 10));
    assert_eq!((sealed.run, sealed.resumed, &sealed.chunks), (1, true, &chunks));
    assert_eq!(fs::metadata(&chunks[0]).unwrap().ino(), first, "written again");
    assert_eq!(
        chunk_files(from.root()),
        ["mirror_000001.tar", "mirror_000002.tar", "mirror_000003.tar"]
    );
    assert_eq!(verify(&Archives::open(from.root()).unwrap()), [""; 0]);
    assert_eq!(from.workspace.sealed_runs().unwrap()[0].run, 1);
}

#[test]
fn something_else_starts_new_numbers_and_clears_away_what_was_never_sealed() {
    let (from, image, _) = killed();
    fs::write(from.root().join("mirror_000003.tar"), b"theirs").unwrap();
    let other = from.image("q.io/b:1", 100);
    let sealed = from.archive(request(2, &[&image, &other], WIDE));
    assert_eq!((sealed.run, sealed.base, sealed.resumed), (2, None, false));
    assert_eq!(chunk_files(from.root()), ["mirror_000003.tar", "mirror_000004.tar"]);
    assert_eq!(fs::read(from.root().join("mirror_000003.tar")).unwrap(), b"theirs");
    let runs = fs::read_dir(from.root().join("working-dir/runs")).unwrap().count();
    assert_eq!(runs, 1);
}

#[test]
fn another_wording_of_the_same_failure_is_the_same_archive() {
    let from = Connected::new();
    let image = from.image("q.io/a:1", 100);
    let wanted = |run, error: &str| {
        let mut wanted = request(run, &[&image], WIDE);
        wanted.status = ArchiveStatus::Partial;
        let origin = mirror_plan::Origin::Registry("q.io/x:1".parse().unwrap());
        wanted.failed = vec![crate::FailedImage { origin, error: error.into() }];
        wanted
    };
    from.archive(wanted(1, "timeout after 10.1 s"));
    let plan = from.plan(wanted(2, "timeout after 10.2 s")).unwrap();
    assert!(matches!(plan, ArchivePlan::NothingNew { base: 1 }));
}

#[test]
fn a_pending_index_that_cannot_be_read_is_dropped() {
    let (from, image, chunks) = killed();
    fs::write(from.root().join("working-dir/runs/000001.pending.json"), b"{").unwrap();
    let sealed = from.archive(request(2, &[&image], WIDE));
    assert_eq!(names(&sealed.chunks), ["mirror_000004.tar"]);
    // Nothing proves any more to which run the first chunk belongs.
    assert!(chunks[0].exists());
}

#[test]
fn an_interrupted_archive_that_was_transferred_is_incomplete() {
    let (_from, _, chunks) = killed();
    let to = carry(&chunks[..1]);
    let findings = verify(&Archives::open(to.path()).unwrap());
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("mirror_000002.tar is missing"), "{findings:?}");
    assert!(findings[0].contains("interrupted"), "{findings:?}");
}
