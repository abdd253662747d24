//! One writer per workspace.
//!
//! The lock is advisory and belongs to the process: it is free the moment the
//! process ends, for whatever reason. Readers take none. What they see under a
//! name is complete, and a lock could not be taken on a read-only medium anyway.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::redact::redact_arguments;

/// A reader that checks who holds the lock takes it for an instant; a writer
/// retries after such a collision.
const ATTEMPTS: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(20);

/// The right to write to a workspace; released when dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Who holds a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub host: String,
    /// The command line, credentials left out.
    pub command: String,
    pub started: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "the workspace {} is in use by process {} on {} since {}: {} (wait until it ends, use --wait, or use another directory)",
        workspace.display(), holder.pid, holder.host, holder.started, holder.command
    )]
    Held { workspace: PathBuf, holder: Holder },
    #[error("the workspace {} is in use by another process (wait until it ends, use --wait, or use another directory)", workspace.display())]
    HeldByUnknown { workspace: PathBuf },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Workspace {
    /// Makes this process the only writer. `arguments` is its command line,
    /// which is reported to other processes, without credentials.
    ///
    /// # Errors
    ///
    /// Another process holds the lock, or the directory cannot be written to.
    pub fn lock(&self, arguments: &[String]) -> Result<Lock, LockError> {
        let path = self.lock_path();
        let directory = self.working_dir();
        fs::create_dir_all(&directory).at("creating", &directory)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.at("locking", &path)?;
        if !try_lock(&file).at("locking", &path)? {
            let workspace = self.root().to_owned();
            return Err(match read_holder(&path) {
                Some(holder) => LockError::Held { workspace, holder },
                None => LockError::HeldByUnknown { workspace },
            });
        }
        let holder = Holder {
            pid: std::process::id(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            command: redact_arguments(arguments).join(" "),
            started: Timestamp::now(),
        };
        write_holder(&mut file, &holder).at("writing", &path)?;
        Ok(Lock { file })
    }

    /// Like [`Workspace::lock`], and waits while another process holds it. `wait` is called before
    /// each attempt after the first, with the error of the last; it returns false to give up.
    pub fn lock_waiting(
        &self,
        arguments: &[String],
        mut wait: impl FnMut(&LockError) -> bool,
    ) -> Result<Lock, LockError> {
        loop {
            match self.lock(arguments) {
                Err(error @ (LockError::Held { .. } | LockError::HeldByUnknown { .. })) => {
                    if !wait(&error) {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }

    /// The process that writes to this workspace now, if one does.
    pub fn holder(&self) -> Result<Option<Holder>, DiskError> {
        Ok(if self.is_locked()? { read_holder(&self.lock_path()) } else { None })
    }

    /// Whether some process writes to this workspace now.
    pub fn is_locked(&self) -> Result<bool, DiskError> {
        let path = self.lock_path();
        let Some(file) = unless_absent(File::open(&path)).at("locking", &path)? else {
            return Ok(false);
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error).at("locking", &path),
        }
    }

    fn lock_path(&self) -> PathBuf {
        self.working_dir().join(".lock")
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file stays: to remove it would let two processes lock two files
        // of one name. Its text is only information, so failing is harmless.
        let _ = self.file.set_len(0);
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    for attempt in 1.. {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if attempt == ATTEMPTS => break,
            Err(TryLockError::WouldBlock) => sleep(BETWEEN),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&serde_json::to_vec(holder)?)
}

fn read_holder(path: &Path) -> Option<Holder> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_second_writer_gets_the_holder_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let words = ["oc-mirror", "--src-creds=me:secret", "file:///data"];
        let lock = workspace.lock(&arguments(&words)).unwrap();
        assert!(workspace.is_locked().unwrap());
        let error = workspace.lock(&[]).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert!(error.contains("oc-mirror") && error.contains("file:///data"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        drop(lock);
        assert!(!workspace.is_locked().unwrap());
        workspace.lock(&[]).unwrap();
    }

    #[test]
    fn a_waiting_writer_gets_the_lock_once_it_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let mut lock = Some(workspace.lock(&[]).unwrap());
        let mut waits = 0;
        let waited = workspace.lock_waiting(&[], |error| {
            assert!(matches!(error, LockError::Held { .. }));
            waits += 1;
            if waits == 2 {
                lock.take();
            }
            true
        });
        assert!(waited.is_ok());
        assert_eq!(waits, 2);
        assert!(workspace.lock_waiting(&[], |_| false).is_err());
    }

    #[test]
    fn the_text_a_killed_process_left_blocks_no_writer() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let gone = Holder {
            pid: 1,
            host: "h".into(),
            command: "oc-mirror".into(),
            started: Timestamp::UNIX_EPOCH,
        };
        fs::create_dir_all(workspace.working_dir()).unwrap();
        fs::write(workspace.lock_path(), serde_json::to_vec(&gone).unwrap()).unwrap();
        assert!(!workspace.is_locked().unwrap());
        let _lock = workspace.lock(&[]).unwrap();
        let now = read_holder(&workspace.lock_path()).unwrap();
        assert_eq!(now.pid, std::process::id());
    }

    #[test]
    fn a_lock_whose_text_is_missing_still_locks() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let _lock = workspace.lock(&[]).unwrap();
        fs::write(workspace.lock_path(), b"").unwrap();
        assert!(matches!(workspace.lock(&[]), Err(LockError::HeldByUnknown { .. })));
    }

    #[test]
    fn reading_an_untouched_directory_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!Workspace::open(dir.path()).is_locked().unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_at_the_path_of_the_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("working-dir"), b"theirs").unwrap();
        let error = Workspace::open(dir.path()).lock(&[]).unwrap_err().to_string();
        assert!(
            error.contains("working-dir")
                && error.contains("another file or directory has this name"),
            "{error}"
        );
    }
}
