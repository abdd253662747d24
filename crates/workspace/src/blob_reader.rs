//! Reads a blob from wherever its bytes are: one file, or pieces of several.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use oci::{Digest, Hasher};

/// How much is read at once while hashing.
const READ_AT_ONCE: usize = 512 << 10;

/// A stretch of an open file.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) file: Arc<File>,
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// The content of a blob. Files are shared and read by position, so that many
/// readers can be open at once and each takes almost no memory.
#[derive(Debug, Clone)]
pub struct BlobReader {
    extents: Arc<[Extent]>,
    length: u64,
    position: u64,
}

impl BlobReader {
    pub(crate) fn new(extents: Arc<[Extent]>) -> Self {
        let length = extents.iter().map(|extent| extent.length).sum();
        Self { extents, length, position: 0 }
    }

    pub(crate) fn of_file(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::new([Extent { file: Arc::new(file), start: 0, length }].into()))
    }

    /// The length of the whole blob.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads all that is left and returns the digest of it: every check of stored content against its
    /// digest is this one. `moved` is called with the bytes that each step read.
    pub fn hash(&mut self, moved: &dyn Fn(u64)) -> io::Result<Digest> {
        let left = usize::try_from(self.length - self.position).unwrap_or(READ_AT_ONCE);
        let mut buffer = vec![0; left.clamp(1, READ_AT_ONCE)];
        let mut hasher = Hasher::new();
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(hasher.finish()),
                count => {
                    hasher.update(&buffer[..count]);
                    moved(count as u64);
                }
            }
        }
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut before = 0;
        for extent in self.extents.iter() {
            let inside = self.position - before;
            if inside < extent.length {
                let left = usize::try_from(extent.length - inside).unwrap_or(usize::MAX);
                let want = left.min(buffer.len());
                let count = extent.file.read_at(&mut buffer[..want], extent.start + inside)?;
                if count == 0 && want > 0 {
                    let cut = "the file became shorter while it was read";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
                }
                self.position += count as u64;
                return Ok(count);
            }
            before += extent.length;
        }
        Ok(0)
    }
}

impl Seek for BlobReader {
    /// Within the blob; its end is as far as it goes.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let wanted = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let inside = wanted.filter(|position| *position <= self.length);
        self.position = inside.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> (tempfile::TempDir, BlobReader) {
        let dir = tempfile::tempdir().unwrap();
        let extent = |name: &str, text: &str, start, length| {
            std::fs::write(dir.path().join(name), text).unwrap();
            let file = Arc::new(File::open(dir.path().join(name)).unwrap());
            Extent { file, start, length }
        };
        let extents =
            [extent("a", "xxhello, x", 2, 7), extent("b", "", 0, 0), extent("c", "world", 0, 5)];
        let reader = BlobReader::new(extents.into());
        (dir, reader)
    }

    #[test]
    fn pieces_read_as_one() {
        let (_dir, mut reader) = reader();
        let mut copy = reader.clone();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello, world");
        assert_eq!(reader.length(), 12);
        copy.seek(SeekFrom::Start(5)).unwrap();
        text.clear();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, ", world");
        assert!(copy.seek(SeekFrom::Start(13)).is_err());
        assert_eq!(copy.seek(SeekFrom::End(-1)).unwrap(), 11);
    }

    #[test]
    fn a_file_that_is_cut_meanwhile_is_an_error_and_no_early_end() {
        let (dir, mut reader) = reader();
        std::fs::write(dir.path().join("c"), "wo").unwrap();
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
