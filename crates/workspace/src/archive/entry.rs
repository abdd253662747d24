//! Tar entries as archives have them. Everything about an entry follows from
//! its name and length, so a reader can compute each byte that a writer must have written.

use std::path::Path;

use oci::Digest;
use tar::{EntryType, Header};

/// Tar counts in blocks of this size.
pub(crate) const BLOCK: u64 = 512;
/// Two empty blocks end a tar file.
pub(crate) const TRAILER: u64 = 2 * BLOCK;
/// Chunk numbers have six digits in file names.
pub(crate) const MAX_CHUNK: u32 = 999_999;

/// `length` up to the next block.
pub(crate) fn padded(length: u64) -> u64 {
    length.div_ceil(BLOCK) * BLOCK
}

/// What an entry takes in a tar file: header, content, padding.
pub(crate) fn footprint(length: u64) -> u64 {
    BLOCK + padded(length)
}

/// The file name of a chunk.
pub(crate) fn chunk_name(number: u32) -> String {
    format!("mirror_{number:06}.tar")
}

/// The name of a chunk while it is written.
pub(crate) fn partial_name(number: u32) -> String {
    format!(".mirror_{number:06}.tar.partial")
}

/// The number in the name of a chunk that is being written.
pub(crate) fn parse_partial_name(name: &str) -> Option<u32> {
    parse_chunk_name(name.strip_prefix('.')?.strip_suffix(".partial")?)
}

/// The number in a chunk's file name.
pub(crate) fn parse_chunk_name(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("mirror_")?.strip_suffix(".tar")?;
    let plain = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// The name of a chunk's first entry. It pins the index that is its content.
pub(crate) fn index_name(chunk: u32, index: &Digest) -> String {
    format!("index/{chunk:06}.{}.json", index.as_tag_text())
}

/// Chunk number and index digest from the name of a first entry.
pub(crate) fn parse_index_name(name: &str) -> Option<(u32, Digest)> {
    let rest = name.strip_prefix("index/")?.strip_suffix(".json")?;
    let (chunk, index) = rest.split_once(".sha256-")?;
    let (chunk, index) = (chunk.parse().ok()?, Digest::from_hex(index).ok()?);
    // One spelling only.
    (index_name(chunk, &index) == name).then_some((chunk, index))
}

/// The name of a blob's entry; `part` counts from 1 when there are several.
pub(crate) fn blob_name(blob: &Digest, part: Option<usize>) -> String {
    match part {
        None => format!("blobs/sha256/{}", blob.hex()),
        Some(part) => format!("blobs/sha256/{}.part-{part:06}", blob.hex()),
    }
}

/// The header of an entry: a regular file without owner and time.
pub(crate) fn header(name: &str, length: u64) -> [u8; BLOCK as usize] {
    let mut header = Header::new_ustar();
    // Our names are ASCII, relative, and below the 100 bytes a header holds.
    let fits = header.set_path(Path::new(name));
    debug_assert!(fits.is_ok(), "{name}");
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(length);
    header.set_cksum();
    *header.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_in_no_other_spelling() {
        let digest = Digest::of(b"index");
        assert_eq!(parse_index_name(&index_name(7, &digest)), Some((7, digest)));
        assert_eq!(parse_index_name(&index_name(7, &digest).replace("000007", "+00007")), None);
        assert_eq!(parse_index_name(&index_name(7, &digest).replace("000007", "7")), None);
        assert_eq!(parse_chunk_name(&chunk_name(999_999)), Some(999_999));
        assert_eq!(parse_partial_name(&partial_name(42)), Some(42));
        assert_eq!(parse_partial_name(&chunk_name(42)), None);
        for name in [
            "mirror_00001.tar",
            "mirror_0000001.tar",
            "xmirror_000001.tar",
            "mirror_+00001.tar",
            "mirror_000001.tar.bak",
        ] {
            assert_eq!(parse_chunk_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_longest_names_fit_into_a_header() {
        let digest = Digest::of(b"x");
        for name in [blob_name(&digest, Some(999_999)), index_name(MAX_CHUNK, &digest)] {
            let bytes = header(&name, u64::MAX);
            assert_eq!(&bytes[..name.len()], name.as_bytes());
            assert_eq!(bytes[name.len()], 0);
        }
    }

    #[test]
    fn gnu_tar_reads_sizes_that_octal_digits_cannot_hold() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large.tar");
        let length = (9 << 30) + 5;
        std::fs::write(&path, header("blobs/large", length)).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(footprint(length) + TRAILER).unwrap();
        let output = std::process::Command::new("tar").arg("-tvf").arg(&path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let fields: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(fields[0], "-rw-r--r--");
        assert_eq!(fields[1], "0/0");
        assert_eq!(fields[2], "9663676421");
    }
}
