//! Copies bytes from file to file, inside the kernel where it can.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use oci::Hasher;
use rustix::fs::copy_file_range;
use rustix::io::Errno;

use crate::direct_io::{DirectFile, DirectReader};

/// How much is copied between two reports of progress.
const AT_ONCE: u64 = 16 << 20;
const BUFFER: usize = 1 << 20;

/// From where to where, and how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) length: u64,
}

/// Copies `range` from `source` to `target`. `progress` is called with the bytes
/// of each step.
pub(crate) fn copy(
    source: &File,
    target: &File,
    range: Range,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let Range { mut from, mut to, length } = range;
    let end = from + length;
    while from < end {
        let want = usize::try_from((end - from).min(AT_ONCE)).unwrap_or(BUFFER);
        let before = from;
        match copy_file_range(source, Some(&mut from), target, Some(&mut to), want) {
            Ok(0) => return Err(ends_early()),
            Ok(_) => progress(from - before),
            Err(Errno::INTR) => {}
            Err(errno) if is_unsupported(errno) => {
                let rest = Range { from, to, length: end - from };
                return copy_buffered(source, target, rest, progress);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Between two filesystems, on old kernels, on some network filesystems.
fn is_unsupported(errno: Errno) -> bool {
    let unsupported =
        [Errno::XDEV, Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP, Errno::PERM];
    unsupported.contains(&errno)
}

fn copy_buffered(
    source: &File,
    target: &File,
    range: Range,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut done = 0;
    while done < range.length {
        let want = usize::try_from(range.length - done).unwrap_or(BUFFER).min(BUFFER);
        let count = source.read_at(&mut buffer[..want], range.from + done)?;
        if count == 0 {
            return Err(ends_early());
        }
        target.write_all_at(&buffer[..count], range.to + done)?;
        done += count as u64;
        progress(count as u64);
    }
    Ok(())
}

/// Which side of a copy failed.
#[derive(Debug)]
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies `range` and hashes what is copied, in one pass: what is written is what was hashed.
pub(crate) fn copy_hashed(
    source: &File,
    target: &File,
    range: Range,
    hasher: &mut Hasher,
    progress: &mut dyn FnMut(u64),
) -> Result<(), CopyError> {
    let mut to = range.to;
    hash(source, range.from, range.length, hasher, &mut |piece| {
        target.write_all_at(piece, to).map_err(CopyError::Write)?;
        to += piece.len() as u64;
        progress(piece.len() as u64);
        Ok(())
    })
}

/// A file that is read whole.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) length: u64,
}

/// As [`copy_hashed`], for all of a large file, past the page cache. While one piece is hashed, the
/// piece before it is written and the piece after it is read.
pub(crate) fn copy_directly(
    source: Source<'_>,
    target: &DirectFile,
    at: u64,
    hasher: &mut Hasher,
    progress: &mut dyn FnMut(u64),
) -> Result<(), CopyError> {
    let mut writer = target.writer(at, BUFFER);
    let mut each = |piece: &[u8]| {
        writer.write(piece).map_err(CopyError::Write)?;
        progress(piece.len() as u64);
        Ok(())
    };
    match DirectReader::open(source.path, source.length, BUFFER) {
        Some(reader) => {
            let mut left = source.length;
            let taken = |piece: &[u8]| {
                // A file that became longer must not be written over what follows.
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
                left -= count as u64;
                hasher.update(&piece[..count]);
                each(&piece[..count])
            };
            reader.read(taken, CopyError::Read)?;
            if left > 0 {
                return Err(CopyError::Read(ends_early()));
            }
        }
        None => hash(source.file, 0, source.length, hasher, &mut each)?,
    }
    writer.finish().map_err(CopyError::Write)
}

/// Hashes `length` bytes from `from` on; `each` gets them piece by piece.
pub(crate) fn hash(
    source: &File,
    from: u64,
    length: u64,
    hasher: &mut Hasher,
    each: &mut dyn FnMut(&[u8]) -> Result<(), CopyError>,
) -> Result<(), CopyError> {
    let size = usize::try_from(length).unwrap_or(BUFFER).min(BUFFER);
    let mut buffer = vec![0; size];
    let mut done = 0;
    while done < length {
        let want = usize::try_from(length - done).unwrap_or(size).min(size);
        let read = source.read_at(&mut buffer[..want], from + done).map_err(CopyError::Read)?;
        if read == 0 {
            return Err(CopyError::Read(ends_early()));
        }
        hasher.update(&buffer[..read]);
        each(&buffer[..read])?;
        done += read as u64;
    }
    Ok(())
}

fn ends_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than it was")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = fn(&File, &File, Range, &mut dyn FnMut(u64)) -> io::Result<()>;

    #[test]
    fn what_is_copied_is_hashed_and_an_early_end_is_the_fault_of_the_source() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("source"), &content).unwrap();
        let source = File::open(dir.path().join("source")).unwrap();
        let target = File::create(dir.path().join("target")).unwrap();
        let mut hasher = Hasher::new();
        let range = Range { from: 1000, to: 512, length: 2_500_000 };
        copy_hashed(&source, &target, range, &mut hasher, &mut |_| {}).unwrap();
        let copied = std::fs::read(dir.path().join("target")).unwrap();
        assert!(copied[512..] == content[1000..2_501_000]);
        assert_eq!(hasher.finish(), oci::Digest::of(&content[1000..2_501_000]));
        let beyond = Range { from: 2_999_999, to: 0, length: 2 };
        let error = copy_hashed(&source, &target, beyond, &mut Hasher::new(), &mut |_| {});
        assert!(matches!(error, Err(CopyError::Read(_))), "{error:?}");
    }

    #[test]
    fn both_methods_copy_the_range_and_notice_an_early_end() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("source"), &content).unwrap();
        let source = File::open(dir.path().join("source")).unwrap();
        for (name, copy) in [("kernel", copy as Copy), ("buffered", copy_buffered)] {
            let path = dir.path().join(name);
            let target = File::create(&path).unwrap();
            let mut seen = 0;
            let range = Range { from: 1000, to: 512, length: 2_500_000 };
            copy(&source, &target, range, &mut |bytes| seen += bytes).unwrap();
            assert_eq!(seen, 2_500_000, "{name}");
            let copied = std::fs::read(&path).unwrap();
            assert!(copied[512..] == content[1000..2_501_000], "{name}");
            let beyond = Range { from: 2_999_999, to: 0, length: 2 };
            let error = copy(&source, &target, beyond, &mut |_| {}).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{name}");
        }
    }
}
