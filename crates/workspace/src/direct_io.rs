//! Large files past the page cache.
//!
//! Content of a mirror is written once and read once or not at all, and is larger than memory:
//! copying it into the page cache and evicting it again costs more processor time than hashing it.
//! Writes and reads happen on a thread of their own, in large aligned blocks, so that hashing
//! continues meanwhile. Where the filesystem cannot do this, or the disk is slow and the page cache
//! helps, files are written and read as usual.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::{ReadWriteFlags, preadv2};

/// Files from this size on get a thread.
pub(crate) const LARGE: u64 = 4 << 20;
/// What every filesystem accepts for addresses, offsets and lengths.
const ALIGNMENT: usize = 4096;
/// Below this rate, in bytes per second, the page cache is the better place for a burst.
const SLOW: u64 = 400 << 20;
/// The number of writes by which the speed of a disk is measured.
const TRIAL: u64 = 64;

/// Memory that starts at a multiple of the alignment.
struct Block {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    fn new(size: usize) -> Self {
        let memory = vec![0; size + ALIGNMENT];
        let start = (ALIGNMENT - memory.as_ptr().addr() % ALIGNMENT) % ALIGNMENT;
        Self { memory, start, length: 0 }
    }

    fn size(&self) -> usize {
        self.memory.len() - ALIGNMENT
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    fn room(&mut self) -> &mut [u8] {
        let end = self.start + self.size();
        &mut self.memory[self.start..end]
    }
}

/// How fast the disks of this process are, as writes past the page cache show.
struct Pace {
    in_flight: AtomicUsize,
    writes: AtomicU64,
    /// Bytes per second that all writers together reach; a moving average.
    rate: AtomicU64,
}

static PACE: Pace =
    Pace { in_flight: AtomicUsize::new(0), writes: AtomicU64::new(0), rate: AtomicU64::new(0) };

impl Pace {
    fn is_slow(&self) -> bool {
        // What a test sees must not depend on how busy the disk is.
        let is_known = !cfg!(test) && self.writes.load(Ordering::Relaxed) >= TRIAL;
        is_known && self.rate.load(Ordering::Relaxed) < SLOW
    }

    fn time(&self, bytes: usize, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let writers = self.in_flight.fetch_add(1, Ordering::Relaxed) as u64 + 1;
        let clock = Instant::now();
        let written = write();
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let micros = u64::try_from(clock.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = (bytes as u64 * writers).saturating_mul(1_000_000) / micros;
        let before = self.rate.load(Ordering::Relaxed);
        let average = if before == 0 { rate } else { before - before / 8 + rate / 8 };
        self.rate.store(average, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        written
    }
}

/// Whether writes past the page cache were measured to be slow.
pub(crate) fn is_slow() -> bool {
    PACE.is_slow()
}

fn open_direct(path: &Path, options: &mut OpenOptions) -> Option<File> {
    let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
    options.custom_flags(flags).open(path).ok()
}

/// A file that can be written past the page cache, at any place.
#[derive(Debug, Clone)]
pub(crate) struct DirectFile {
    direct: Arc<File>,
    /// For what is not aligned, and where direct writes are refused.
    buffered: Arc<File>,
}

impl DirectFile {
    /// None where that is not possible or not faster.
    pub(crate) fn open(path: &Path, buffered: &File) -> Option<Self> {
        if PACE.is_slow() { None } else { Self::of(path, buffered) }
    }

    fn of(path: &Path, buffered: &File) -> Option<Self> {
        let direct = open_direct(path, OpenOptions::new().write(true))?;
        Some(Self { direct: Arc::new(direct), buffered: Arc::new(buffered.try_clone().ok()?) })
    }

    /// Writes from `offset` on, in blocks of `block` bytes.
    pub(crate) fn writer(&self, offset: u64, block: usize) -> DirectWriter {
        let (full, filled) = sync_channel::<(Block, u64)>(1);
        let (emptied, empty) = sync_channel(2);
        let file = self.clone();
        let thread = thread::spawn(move || file.write_blocks(&filled, &emptied));
        let ready = Some(Block::new(block));
        let next = Some(Block::new(block));
        DirectWriter {
            block: ready,
            spare: next,
            offset,
            full: Some(full),
            empty,
            thread: Some(thread),
        }
    }

    fn write_blocks(
        &self,
        filled: &Receiver<(Block, u64)>,
        emptied: &SyncSender<Block>,
    ) -> io::Result<()> {
        while let Ok((mut block, offset)) = filled.recv() {
            self.write_at(block.bytes(), offset)?;
            block.length = 0;
            if emptied.send(block).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_aligned = offset.is_multiple_of(ALIGNMENT as u64);
        let whole = if is_aligned { bytes.len() / ALIGNMENT * ALIGNMENT } else { 0 };
        let (whole, rest) = bytes.split_at(whole);
        if !whole.is_empty() {
            match PACE.time(whole.len(), || self.direct.write_all_at(whole, offset)) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.buffered.write_all_at(whole, offset)?;
                }
                written => written?,
            }
        }
        self.buffered.write_all_at(rest, offset + whole.len() as u64)
    }
}

/// Writes a stretch of a file, on a thread. What was written is there after [`DirectWriter::finish`].
#[derive(Debug)]
pub(crate) struct DirectWriter {
    block: Option<Block>,
    spare: Option<Block>,
    /// Where the current block belongs.
    offset: u64,
    full: Option<SyncSender<(Block, u64)>>,
    empty: Receiver<Block>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes", self.length, self.size())
    }
}

impl DirectWriter {
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Some(block) = &mut self.block else { return self.failure() };
            // The first block ends where the next can be aligned.
            let lead = self.offset % ALIGNMENT as u64;
            let limit = match usize::try_from(lead) {
                Ok(0) | Err(_) => block.size(),
                Ok(lead) => ALIGNMENT - lead,
            };
            let count = bytes.len().min(limit - block.length);
            let at = block.length;
            block.room()[at..at + count].copy_from_slice(&bytes[..count]);
            block.length += count;
            bytes = &bytes[count..];
            if block.length == limit {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let (Some(block), Some(full)) = (self.block.take(), &self.full) else { return Ok(()) };
        let offset = self.offset;
        self.offset += block.length as u64;
        if full.send((block, offset)).is_err() {
            return self.failure();
        }
        self.block = match self.spare.take() {
            Some(spare) => Some(spare),
            None => self.empty.recv().ok(),
        };
        if self.block.is_none() { self.failure() } else { Ok(()) }
    }

    /// Why the thread ended.
    fn failure(&mut self) -> io::Result<()> {
        self.full = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(Ok(()))) | None => Err(io::Error::other("writing ended early")),
        }
    }

    /// Writes what is left.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.as_ref().is_some_and(|block| block.length > 0) {
            self.send()?;
        }
        self.full = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for DirectWriter {
    /// What arrived is kept as far as it can be: a later run continues with it.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// Reads a large file from its beginning to its end, one block ahead of its reader.
pub(crate) struct DirectReader {
    blocks: Receiver<io::Result<Block>>,
    back: SyncSender<Block>,
}

impl DirectReader {
    /// None where the file is better read as usual: it is small, or in the page cache.
    pub(crate) fn open(path: &Path, length: u64, block: usize) -> Option<Self> {
        if length < LARGE || is_cached(path) {
            return None;
        }
        let file = open_direct(path, OpenOptions::new().read(true))?;
        let (send, blocks) = sync_channel(1);
        let (back, returned) = sync_channel::<Block>(2);
        for _ in 0..2 {
            back.send(Block::new(block)).ok()?;
        }
        thread::spawn(move || {
            let mut offset = 0;
            while let Ok(mut block) = returned.recv() {
                let read = read_block(&file, &mut block, offset);
                offset += block.length as u64;
                let is_last = read.is_err() || block.length == 0;
                if send.send(read.map(|()| block)).is_err() || is_last {
                    break;
                }
            }
        });
        Some(Self { blocks, back })
    }

    /// Gives the file to `each`, piece by piece.
    pub(crate) fn read<E>(
        self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<(), E> {
        while let Ok(block) = self.blocks.recv() {
            let block = block.map_err(&failed)?;
            if block.length == 0 {
                return Ok(());
            }
            each(block.bytes())?;
            // The other end has stopped if it needs no more.
            let _ = self.back.send(block);
        }
        Err(failed(io::Error::other("reading ended early")))
    }
}

fn read_block(file: &File, block: &mut Block, offset: u64) -> io::Result<()> {
    block.length = 0;
    let count = file.read_at(block.room(), offset)?;
    block.length = count;
    Ok(())
}

/// Whether the beginning of a file is available without a read from disk.
fn is_cached(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return true };
    let mut first = [0_u8; 512];
    let mut buffers = [io::IoSliceMut::new(&mut first)];
    preadv2(&file, &mut buffers, 0, ReadWriteFlags::NOWAIT).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn every_byte_is_where_it_belongs_whatever_the_offset_and_the_pieces() {
        let dir = tempfile::tempdir_in(".").unwrap();
        for (offset, length, piece) in
            [(0, 1, 1), (512, 300_000, 777), (4096, 65_536, 4096), (1536, 200_001, 65_536)]
        {
            let path = dir.path().join("file");
            let file = File::create(&path).unwrap();
            let content = content(length);
            let Some(direct) = DirectFile::of(&path, &file) else {
                panic!("{} does not support direct writes", dir.path().display())
            };
            let mut writer = direct.writer(offset, 16 << 10);
            for piece in content.chunks(piece) {
                writer.write(piece).unwrap();
            }
            writer.finish().unwrap();
            let written = std::fs::read(&path).unwrap();
            let start = usize::try_from(offset).unwrap();
            assert!(written[..start].iter().all(|byte| *byte == 0));
            assert!(written[start..] == content, "{offset} {length} {piece}");
        }
    }

    #[test]
    fn what_was_written_before_a_writer_is_dropped_is_kept() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        let mut writer = DirectFile::of(&path, &file).unwrap().writer(0, 16 << 10);
        writer.write(&content(50_000)).unwrap();
        drop(writer);
        assert!(std::fs::read(&path).unwrap() == content(50_000));
    }

    #[test]
    fn a_failed_write_is_reported_with_its_reason() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let full = Arc::new(full);
        let direct = DirectFile { direct: Arc::clone(&full), buffered: full };
        let mut writer = direct.writer(0, 8192);
        let written = (0..10).try_for_each(|_| writer.write(&content(8192)));
        let error = written.and_then(|()| writer.finish()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_file_is_read_whole_and_an_error_of_the_reader_ends_it() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("file");
        let content = content(5 << 20);
        std::fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let open = || {
            // Out of the page cache, or it would be read as usual. The kernel keeps a page for a
            // moment if it is in use, such as by another process that reclaims memory.
            let attempts = std::iter::repeat_with(|| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                DirectReader::open(&path, content.len() as u64, 64 << 10)
            });
            attempts.take(60_000).flatten().next().expect("the page cache is emptied")
        };
        let mut read = Vec::new();
        let taken = open().read(
            |piece| {
                read.extend_from_slice(piece);
                Ok::<_, io::Error>(())
            },
            |error| error,
        );
        taken.unwrap();
        assert!(read == content);
        let stopped = open().read(|_| Err("enough"), |_| "failed");
        assert_eq!(stopped, Err("enough"));
        assert!(DirectReader::open(&path, 100, 64 << 10).is_none());
    }
}
