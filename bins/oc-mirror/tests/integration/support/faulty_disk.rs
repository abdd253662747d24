//! A filesystem that fails on demand, or that can do as little as FAT.
//!
//! FUSE hands every request for the mount point to this process, which serves it from another
//! directory. Needs root.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use tempfile::TempDir;

/// Nothing is cached: each request is passed on.
const TTL: Duration = Duration::ZERO;
/// The step of FAT's clock.
const CLOCK_STEP: u64 = 2;

/// What a filesystem can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All that is usual.
    Posix,
    /// No hard links, no symbolic links, no sockets, no modes, times in steps of two seconds.
    Fat,
}

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

#[derive(Debug)]
struct Rule {
    operation: Operation,
    path_part: String,
    /// Bytes that pass before.
    spared: u64,
    error: Errno,
}

/// A mounted filesystem; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct FaultyDisk {
    session: Option<BackgroundSession>,
    rules: Arc<Mutex<Vec<Rule>>>,
    _backing: TempDir,
}

impl FaultyDisk {
    /// Mounts one on a directory that it makes.
    pub(crate) fn mount(at: &Path, kind: Kind) -> Self {
        fs::create_dir_all(at).unwrap();
        let backing = tempfile::tempdir().unwrap();
        let rules = Arc::new(Mutex::default());
        let disk = Disk {
            kind,
            root: backing.path().to_owned(),
            rules: Arc::clone(&rules),
            nodes: Mutex::new(Nodes::new()),
        };
        let mut config = Config::default();
        config.n_threads = Some(2);
        let session = fuser::spawn_mount(disk, at, &config).unwrap_or_else(|error| {
            panic!("mounting FUSE on {}: {error}; only root may", at.display())
        });
        Self { session: Some(session), rules, _backing: backing }
    }

    /// Fails with EIO what concerns files whose path contains `path_part`, after `spared` bytes.
    pub(crate) fn fail(&self, operation: Operation, path_part: &str, spared: u64) {
        self.add(operation, path_part, spared, Errno::EIO);
    }

    /// Refuses writing as a filesystem does that was remounted read-only, after `spared` bytes.
    pub(crate) fn turn_read_only(&self, spared: u64) {
        self.refuse_writing("", spared);
    }

    /// The same for files whose path contains `path_part`.
    pub(crate) fn refuse_writing(&self, path_part: &str, spared: u64) {
        self.add(Operation::Write, path_part, spared, Errno::EROFS);
    }

    fn add(&self, operation: Operation, path_part: &str, spared: u64, error: Errno) {
        let rule = Rule { operation, path_part: path_part.to_owned(), spared, error };
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Fails nothing any more.
    pub(crate) fn heal(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
    }
}

/// Numbers and paths of files, and the files that are open.
#[derive(Debug)]
struct Nodes {
    paths: BTreeMap<u64, PathBuf>,
    numbers: BTreeMap<PathBuf, u64>,
    open: BTreeMap<u64, (PathBuf, Arc<File>)>,
    last: u64,
}

impl Nodes {
    fn new() -> Self {
        let root = PathBuf::new();
        Self {
            paths: BTreeMap::from([(1, root.clone())]),
            numbers: BTreeMap::from([(root, 1)]),
            open: BTreeMap::new(),
            last: 1,
        }
    }

    fn number(&mut self, path: PathBuf) -> u64 {
        if let Some(number) = self.numbers.get(&path) {
            return *number;
        }
        self.last += 1;
        self.paths.insert(self.last, path.clone());
        self.numbers.insert(path, self.last);
        self.last
    }

    fn forget(&mut self, path: &Path) {
        if let Some(number) = self.numbers.remove(path) {
            self.paths.remove(&number);
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        self.forget(to);
        let moved: Vec<(PathBuf, u64)> = self
            .numbers
            .iter()
            .filter(|(path, _)| path.starts_with(from))
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        for (path, number) in moved {
            let Ok(rest) = path.strip_prefix(from) else { continue };
            let new = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            self.numbers.remove(&path);
            self.numbers.insert(new.clone(), number);
            self.paths.insert(number, new);
        }
    }
}

#[derive(Debug)]
struct Disk {
    kind: Kind,
    root: PathBuf,
    rules: Arc<Mutex<Vec<Rule>>>,
    nodes: Mutex<Nodes>,
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(5))
}

impl Disk {
    fn nodes(&self) -> std::sync::MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, number: INodeNo) -> Result<PathBuf, Errno> {
        self.nodes().paths.get(&number.0).cloned().ok_or(Errno::ENOENT)
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        // FAT and exFAT refuse these in names.
        let is_bad = |c: char| c.is_control() || "\"*:<>?\\|".contains(c);
        if self.kind == Kind::Fat && name.to_string_lossy().contains(is_bad) {
            return Err(Errno::EINVAL);
        }
        Ok(self.path(parent)?.join(name))
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// Whether an operation on so many bytes fails now.
    fn check(&self, operation: Operation, path: &Path, bytes: u64) -> Result<(), Errno> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in rules.iter_mut().filter(|rule| rule.operation == operation) {
            if !path.to_string_lossy().contains(&rule.path_part) {
                continue;
            }
            if rule.spared < bytes || bytes == 0 && rule.spared == 0 {
                rule.spared = 0;
                return Err(rule.error);
            }
            rule.spared -= bytes;
        }
        Ok(())
    }

    fn attributes(&self, number: u64, meta: &fs::Metadata) -> FileAttr {
        let step = |time: io::Result<SystemTime>| {
            let time = time.unwrap_or(SystemTime::UNIX_EPOCH);
            if self.kind == Kind::Posix {
                return time;
            }
            let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds - seconds % CLOCK_STEP)
        };
        let perm = match self.kind {
            Kind::Posix => u16::try_from(meta.mode() & 0o7777).unwrap_or(0o700),
            Kind::Fat => 0o755,
        };
        FileAttr {
            ino: INodeNo(number),
            size: meta.len(),
            blocks: meta.blocks(),
            atime: step(meta.accessed()),
            mtime: step(meta.modified()),
            ctime: step(meta.modified()),
            crtime: SystemTime::UNIX_EPOCH,
            kind: FileType::from_std(meta.file_type()).unwrap_or(FileType::RegularFile),
            perm,
            nlink: 1,
            uid: meta.uid(),
            gid: meta.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn find(&self, path: PathBuf) -> Result<FileAttr, Errno> {
        let meta = fs::symlink_metadata(self.real(&path)).map_err(|error| errno(&error))?;
        let number = self.nodes().number(path);
        Ok(self.attributes(number, &meta))
    }

    fn open_file(&self, path: &Path, options: &OpenOptions) -> Result<u64, Errno> {
        let file = options.open(self.real(path)).map_err(|error| errno(&error))?;
        let mut nodes = self.nodes();
        nodes.last += 1;
        let handle = nodes.last;
        nodes.open.insert(handle, (path.to_owned(), Arc::new(file)));
        Ok(handle)
    }

    fn file(&self, handle: FileHandle) -> Result<(PathBuf, Arc<File>), Errno> {
        self.nodes().open.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    fn change(&self, path: &Path, act: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Errno> {
        self.check(Operation::Write, path, 0)?;
        act(&self.real(path)).map_err(|error| errno(&error))
    }
}

fn entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.child(parent, name).and_then(|path| self.find(path)));
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        // A file may be open that has no name any more.
        let by_handle = handle.and_then(|handle| self.file(handle).ok());
        let found = match by_handle.and_then(|(_, file)| file.metadata().ok()) {
            Some(meta) => Ok(self.attributes(number.0, &meta)),
            None => self.path(number).and_then(|path| self.find(path)),
        };
        match found {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || -> Result<FileAttr, Errno> {
            let path = self.path(number);
            if let (Some(mode), Kind::Posix, Ok(path)) = (mode, self.kind, &path) {
                let permissions = fs::Permissions::from_mode(mode & 0o7777);
                self.change(path, |real| fs::set_permissions(real, permissions))?;
            }
            let open = handle.and_then(|handle| self.file(handle).ok());
            if let Some(size) = size {
                match (&open, &path) {
                    (Some((path, file)), _) => {
                        self.change(path, |_| file.set_len(size))?;
                    }
                    (None, Ok(path)) => self.change(path, |real| {
                        OpenOptions::new().write(true).open(real)?.set_len(size)
                    })?,
                    (None, Err(error)) => return Err(*error),
                }
            }
            match open.and_then(|(_, file)| file.metadata().ok()) {
                Some(meta) => Ok(self.attributes(number.0, &meta)),
                None => self.find(path?),
            }
        };
        match change() {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    /// Sockets and pipes.
    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        const KIND: u32 = 0o170_000;
        const SOCKET: u32 = 0o140_000;
        if self.kind == Kind::Fat || mode & KIND != SOCKET {
            return reply.error(Errno::EPERM);
        }
        // The kernel keeps the socket; the directory needs a name of that kind.
        let made = self.child(parent, name).and_then(|path| {
            let real = self.real(&path);
            drop(std::os::unix::net::UnixListener::bind(&real).map_err(|error| errno(&error))?);
            self.find(path)
        });
        entry(reply, made);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.child(parent, name).and_then(|path| {
            self.change(&path, |real| fs::create_dir(real))?;
            self.find(path)
        });
        entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.child(parent, name).and_then(|path| {
            self.change(&path, |real| fs::remove_file(real))?;
            self.nodes().forget(&path);
            Ok(())
        });
        empty(reply, done);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.child(parent, name).and_then(|path| {
            self.change(&path, |real| fs::remove_dir(real))?;
            self.nodes().forget(&path);
            Ok(())
        });
        empty(reply, done);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let rename = || {
            let (from, to) = (self.child(parent, name)?, self.child(new_parent, new_name)?);
            self.change(&to, |real| fs::rename(self.real(&from), real))?;
            self.nodes().rename(&from, &to);
            Ok(())
        };
        empty(reply, rename());
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut options = OpenOptions::new();
        let writes = flags.acc_mode() != fuser::OpenAccMode::O_RDONLY;
        options.read(true).write(writes);
        let opened = self.path(number).and_then(|path| self.open_file(&path, &options));
        match opened {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let create = || {
            let path = self.child(parent, name)?;
            self.check(Operation::Write, &path, 0)?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(mode & !umask);
            let handle = self.open_file(&path, &options)?;
            Ok((self.find(path)?, handle))
        };
        match create() {
            Ok((attributes, handle)) => reply.created(
                &TTL,
                &attributes,
                Generation(0),
                FileHandle(handle),
                FopenFlags::FOPEN_DIRECT_IO,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = || {
            let (path, file) = self.file(handle)?;
            self.check(Operation::Read, &path, u64::from(size))?;
            let mut buffer = vec![0; size as usize];
            let count = file.read_at(&mut buffer, offset).map_err(|error| errno(&error))?;
            buffer.truncate(count);
            Ok(buffer)
        };
        match read() {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = || {
            let (path, file) = self.file(handle)?;
            self.check(Operation::Write, &path, data.len() as u64)?;
            file.write_all_at(data, offset).map_err(|error| errno(&error))
        };
        match write() {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or_default()),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.nodes().open.remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let done = self.file(handle).and_then(|(path, _)| self.check(Operation::Write, &path, 0));
        empty(reply, done);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let list = || -> Result<Vec<(u64, FileType, std::ffi::OsString)>, Errno> {
            let path = self.path(number)?;
            let entries = fs::read_dir(self.real(&path)).map_err(|error| errno(&error))?;
            let mut list = Vec::new();
            for entry in entries {
                let entry = entry.map_err(|error| errno(&error))?;
                let kind = entry.file_type().ok().and_then(FileType::from_std);
                let number = self.nodes().number(path.join(entry.file_name()));
                list.push((number, kind.unwrap_or(FileType::RegularFile), entry.file_name()));
            }
            list.sort_by(|a, b| a.2.cmp(&b.2));
            Ok(list)
        };
        match list() {
            Ok(list) => {
                for (place, (number, kind, name)) in list.into_iter().enumerate() {
                    let next = place as u64 + 1;
                    if next > offset && reply.add(INodeNo(number), next, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // A gibibyte.
        reply.statfs(1 << 18, 1 << 18, 1 << 18, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}
