//! Copies bytes from file to file, inside the kernel where it can.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::copy_file_range;
use rustix::io::Errno;

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

/// Copies `range` from `source` to `target`. `progress` is told how many bytes
/// each step brought.
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
                return copy_by_hand(source, target, rest, progress);
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

fn copy_by_hand(
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

fn ends_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than it was")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = fn(&File, &File, Range, &mut dyn FnMut(u64)) -> io::Result<()>;

    #[test]
    fn both_ways_copy_the_range_and_notice_an_early_end() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("source"), &content).unwrap();
        let source = File::open(dir.path().join("source")).unwrap();
        for (name, copy) in [("kernel", copy as Copy), ("hand", copy_by_hand)] {
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
