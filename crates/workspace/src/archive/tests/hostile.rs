//! Archives that an attacker made.

use super::*;
use crate::archive::Index;
use crate::archive::entry::{TRAILER, footprint, header, index_name};

/// A chunk with `text` as its index, correctly named, and `rest` behind it.
fn chunk(text: &[u8], rest: usize) -> Vec<u8> {
    let name = index_name(1, &Digest::of(text));
    let mut bytes = header(&name, text.len() as u64).to_vec();
    bytes.extend(text);
    bytes.resize(footprint(text.len() as u64) as usize + rest + TRAILER as usize, 0);
    bytes
}

fn findings_of(bytes: &[u8]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mirror_000001.tar"), bytes).unwrap();
    let archives = Archives::open(dir.path()).unwrap();
    assert_eq!(archives.images().count(), 0);
    verify(&archives)
}

fn good() -> Index {
    let from = Connected::new();
    let image = from.image("q.io/a:1", 700);
    from.planned(request(1, &[&image], WIDE)).index().clone()
}

#[test]
fn indexes_that_contradict_themselves_are_refused() {
    type Change = fn(&mut Index);
    let changes: [(Change, &str); 15] = [
        (|i| i.blobs[0].parts[0].offset += 512, "gap or an overlap"),
        (|i| i.blobs[0].parts[0].offset = 0, "has no place"),
        (|i| i.blobs[0].parts[0].offset += 1, "has no place"),
        (|i| i.blobs[0].parts[0].offset = u64::MAX - 511, "has no place"),
        (|i| i.blobs[0].parts[0].length = u64::MAX, "has no place"),
        (|i| i.blobs[0].size += 1, "has no place"),
        (|i| i.blobs[0].parts.clear(), "has no place"),
        (|i| i.blobs[0].parts[0].chunk = 7, "has no place"),
        (|i| i.blobs.swap(0, 1), "not sorted"),
        (|i| i.chunks[0].length = u64::MAX / 512 * 512, "checksum"),
        (|i| i.chunks[0].checksum = Digest::of(b"other"), "checksum"),
        (|i| i.chunks[0].number = 1_000_000, "listed wrongly"),
        (|i| i.chunks[0].run = 2, "listed wrongly"),
        (|i| i.images[0].tree.manifests.clear(), "names no manifest"),
        (|i| i.images[0].tree.manifests[0].size = 9, "needed and not listed"),
    ];
    let rest = good().chunks[0].length as usize;
    for (number, (change, wanted)) in changes.iter().enumerate() {
        let mut index = good();
        change(&mut index);
        let found = findings_of(&chunk(&serde_json::to_vec(&index).unwrap(), rest));
        assert_eq!(found.len(), 1, "{number}: {found:?}");
        assert!(found[0].contains(wanted), "{number}: {found:?}");
    }
}

#[test]
fn indexes_that_are_none_are_refused() {
    let newer = br#"{"format":2,"everything":"else"}"#;
    assert!(findings_of(&chunk(newer, 0))[0].contains("newer than this program"));
    for text in [&b"{"[..], b"[]", b"", br#"{"format":1}"#] {
        assert!(findings_of(&chunk(text, 0))[0].contains("not valid JSON of an index"));
    }
    let deep = format!("{{\"format\":1,\"x\":{}", "[".repeat(100_000));
    assert!(findings_of(&chunk(deep.as_bytes(), 0))[0].contains("not valid JSON of an index"));
    let text = serde_json::to_string(&good()).unwrap().replace("q.io/a:1", "q.io/../etc:1");
    assert!(findings_of(&chunk(text.as_bytes(), 0))[0].contains("not a repository"));
}

#[test]
fn an_index_that_claims_to_be_huge_is_not_read() {
    let name = index_name(1, &Digest::of(b""));
    let found = findings_of(&header(&name, u64::MAX >> 1));
    assert!(found[0].contains("more than the"), "{found:?}");
    let found = findings_of(&header(&name, 1 << 20));
    assert_eq!(found.len(), 1, "{found:?}");
}
