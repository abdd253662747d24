//! Whose a tar file is, by its first entry.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use oci::Digest;
use tar::Header;

use super::entry::{BLOCK, header, parse_index_name};
use crate::distribution::TarFiles;

/// Enough for the long names that other writers put before an entry.
const LOOK_AT: u64 = 1 << 20;

/// What a tar file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstEntry {
    /// The file has no bytes.
    Nothing,
    /// One of our indexes.
    Index {
        chunk: u32,
        digest: Digest,
        length: u64,
    },
    /// A part of a cache or of a working directory, as oc-mirror v2 archives it.
    OcMirrorV2,
    Foreign,
}

/// Reads the first entry of `file`, as far as its name. The header must be
/// exactly the one we write: nothing of it is taken on trust.
pub(crate) fn first_entry(file: &File) -> io::Result<FirstEntry> {
    let size = file.metadata()?.len();
    if size == 0 {
        return Ok(FirstEntry::Nothing);
    }
    if size < BLOCK {
        return Ok(FirstEntry::Foreign);
    }
    let mut block = [0; BLOCK as usize];
    file.read_exact_at(&mut block, 0)?;
    let found = Header::from_byte_slice(&block);
    let name = String::from_utf8_lossy(&found.path_bytes()).into_owned();
    if let (Some((chunk, digest)), Ok(length)) = (parse_index_name(&name), found.entry_size())
        && header(&name, length) == block
    {
        return Ok(FirstEntry::Index { chunk, digest, length });
    }
    Ok(if is_of_v2(file) { FirstEntry::OcMirrorV2 } else { FirstEntry::Foreign })
}

fn is_of_v2(file: &File) -> bool {
    let start = ReadAt { file, position: 0 }.take(LOOK_AT);
    let mut archive = tar::Archive::new(start);
    let Ok(mut entries) = archive.entries() else { return false };
    let Some(Ok(entry)) = entries.next() else { return false };
    TarFiles::is_entry(&String::from_utf8_lossy(&entry.path_bytes()))
}

/// Reads a file without moving its own position.
pub(crate) struct ReadAt<'a> {
    pub(crate) file: &'a File,
    pub(crate) position: u64,
}

impl Read for ReadAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::entry::index_name;

    fn seen(bytes: &[u8]) -> FirstEntry {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tar");
        std::fs::write(&path, bytes).unwrap();
        first_entry(&File::open(path).unwrap()).unwrap()
    }

    fn tar_of(name: &str) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut head = Header::new_gnu();
        head.set_size(1);
        builder.append_data(&mut head, name, &b"x"[..]).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn our_index_is_distinguished_from_all_else() {
        let digest = Digest::of(b"x");
        let name = index_name(3, &digest);
        let ours = header(&name, 9);
        assert_eq!(seen(&ours), FirstEntry::Index { chunk: 3, digest, length: 9 });
        let mut flipped = ours;
        flipped[130] ^= 1;
        assert_eq!(seen(&flipped), FirstEntry::Foreign);
        assert_eq!(seen(b""), FirstEntry::Nothing);
        assert_eq!(seen(b"short"), FirstEntry::Foreign);
        assert_eq!(seen(&[0; 2048]), FirstEntry::Foreign);
        assert_eq!(seen(&tar_of("etc/passwd")), FirstEntry::Foreign);
    }

    #[test]
    fn archives_of_oc_mirror_v2_are_recognized_by_short_and_by_long_names() {
        for short in [
            "docker/registry/v2/repositories/a/_layers/x/link",
            "docker/registry/v2/blobs/sha256/ab/data",
            "working-dir/logs/oc-mirror.log",
            "isc_2026-01-02T03:04:05Z",
        ] {
            assert_eq!(seen(&tar_of(short)), FirstEntry::OcMirrorV2, "{short}");
        }
        let long = format!("docker/registry/v2/repositories/{}/link", "a".repeat(200));
        assert_eq!(seen(&tar_of(&long)), FirstEntry::OcMirrorV2);
    }
}
