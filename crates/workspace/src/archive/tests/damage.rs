//! Archives that arrive damaged, in part, or not at all.

use super::*;
use crate::archive::{ArchiveFinding, ArchiveSeverity};
use crate::atomic_file::Durability;

/// Three chunks, each with a part of one layer.
fn three_chunks() -> (Connected, Vec<PathBuf>) {
    let from = Connected::new();
    let image = from.image("q.io/a:1", 26_000);
    let sealed = from.archive(request(1, &[&image], 14 << 10));
    assert_eq!(sealed.chunks.len(), 3);
    (from, sealed.chunks)
}

fn open(files: &[PathBuf], change: impl Fn(&Path)) -> Vec<String> {
    let to = carry(files);
    change(to.path());
    verify(&Archives::open(to.path()).unwrap())
}

#[test]
fn without_archives_the_text_that_scripts_search_for_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mirror_1.tar"), b"x").unwrap();
    let error = Archives::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains(r#"no tar archives matching "mirror_[0-9]{6}\\.tar" found"#), "{error}");
}

#[test]
fn a_missing_chunk_is_named_with_its_run() {
    let (_from, chunks) = three_chunks();
    let findings = open(&[chunks[0].clone(), chunks[2].clone()], |_| {});
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("mirror_000002.tar is missing: run 1 wrote 3"), "{findings:?}");
    let to = carry(&chunks[..1]);
    let archives = Archives::open(to.path()).unwrap();
    assert_eq!(archives.findings().len(), 2);
    assert!(archives.findings().iter().all(|f| f.severity() == ArchiveSeverity::Incomplete));
}

#[test]
fn truncated_and_empty_chunks_are_named() {
    let (_from, chunks) = three_chunks();
    let findings = open(&chunks, |dir| {
        let cut = fs::OpenOptions::new().write(true).open(dir.join("mirror_000002.tar")).unwrap();
        cut.set_len(cut.metadata().unwrap().len() - 1).unwrap();
    });
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("mirror_000002.tar of run 1 is"), "{findings:?}");
    let findings = open(&chunks, |dir| fs::write(dir.join("mirror_000003.tar"), b"").unwrap());
    assert!(findings[0].contains("mirror_000003.tar: empty archive file"), "{findings:?}");
}

#[test]
fn files_of_others_are_distinguished_and_do_no_harm() {
    let (_from, chunks) = three_chunks();
    let to = carry(&chunks);
    fs::write(to.path().join("mirror_000009.tar"), [7; 2000]).unwrap();
    let mut builder =
        tar::Builder::new(fs::File::create(to.path().join("mirror_000008.tar")).unwrap());
    let mut head = tar::Header::new_gnu();
    head.set_size(1);
    let name = "docker/registry/v2/repositories/a/_manifests/tags/1/current/link";
    builder.append_data(&mut head, name, &b"x"[..]).unwrap();
    builder.finish().unwrap();
    let archives = Archives::open(to.path()).unwrap();
    let found = archives.findings();
    assert!(
        matches!(&found[0], ArchiveFinding::Foreign { file } if file.ends_with("mirror_000009.tar"))
    );
    assert!(
        matches!(&found[1], ArchiveFinding::OcMirrorV2 { file } if file.ends_with("mirror_000008.tar"))
    );
    assert!(found.iter().all(|finding| finding.severity() == ArchiveSeverity::Note));
    assert_eq!(archives.verify(&|_| {}), []);
}

#[test]
fn a_directory_or_a_pipe_in_a_chunks_place_is_named() {
    let (_from, chunks) = three_chunks();
    let to = carry(&chunks[..2]);
    fs::create_dir(to.path().join("mirror_000003.tar")).unwrap();
    let pipe =
        std::process::Command::new("mkfifo").arg(to.path().join("mirror_000004.tar")).status();
    assert!(pipe.unwrap().success());
    let archives = Archives::open(to.path()).unwrap();
    let unreadable: Vec<&PathBuf> = archives
        .findings()
        .iter()
        .filter_map(|finding| match finding {
            ArchiveFinding::Unreadable { file, .. } => Some(file),
            _ => None,
        })
        .collect();
    assert_eq!(
        unreadable,
        [&to.path().join("mirror_000003.tar"), &to.path().join("mirror_000004.tar")]
    );
}

#[test]
fn a_damaged_blob_is_named_with_its_files() {
    let (_from, chunks) = three_chunks();
    let layer = layer("q.io/a:1", 26_000);
    let findings = open(&chunks, |dir| {
        let path = dir.join("mirror_000002.tar");
        let mut bytes = fs::read(&path).unwrap();
        let near_the_end = bytes.len() - 1024 - 2000;
        bytes[near_the_end] ^= 1;
        fs::write(&path, bytes).unwrap();
    });
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains(&Digest::of(&layer).to_string()), "{findings:?}");
    assert!(findings[0].contains("mirror_000002.tar"), "{findings:?}");
}

#[test]
fn no_byte_can_change_unnoticed() {
    let from = Connected::new();
    let image = from.image("q.io/a:1", 700);
    let sealed = from.archive(request(1, &[&image], WIDE));
    let good = fs::read(&sealed.chunks[0]).unwrap();
    let to = carry(&sealed.chunks);
    let path = to.path().join("mirror_000001.tar");
    // Every eleventh: coprime to the block, so that all kinds of places are hit.
    for position in (0..good.len()).step_by(11) {
        let mut bytes = good.clone();
        bytes[position] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let archives = Archives::open(to.path()).unwrap();
        let findings = verify(&archives);
        assert!(!findings.is_empty(), "byte {position} of {}", good.len());
        assert!(findings.iter().any(|text| text.contains("mirror_000001.tar")), "{findings:?}");
    }
}

#[test]
fn a_chunk_that_a_later_run_does_not_build_on_is_noticed() {
    // A workspace was copied after it got its id, and both went on.
    let from = Connected::new();
    let a = from.image("q.io/a:1", 5_000);
    let identity = from.workspace.identity().unwrap();
    let other = Connected::new();
    other.workspace.save_identity(&identity, Durability::Now).unwrap();
    let b = other.image("q.io/b:1", 5_000);
    let impostor = other.archive(request(1, &[&b], WIDE));
    from.archive(request(1, &[&a], WIDE));
    let c = from.image("q.io/c:1", 5_000);
    let second = from.archive(request(2, &[&a, &c], WIDE));
    let findings = open(&[impostor.chunks, second.chunks].concat(), |_| {});
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("mirror_000001.tar is not the file that run 2 builds on"));
}
