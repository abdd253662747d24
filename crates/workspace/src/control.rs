//! The control socket of a run, next to the lock: other processes pause, resume and stop the run
//! through it.
//!
//! A request is one line of JSON, and so is the response. The socket belongs to the user who runs
//! the program; file permissions are the only authentication.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::disk_error::{At, DiskError};

const NAME: &str = ".control";
const MAX_LINE: u64 = 4096;
/// A process that sends nothing does not block the others for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What another process requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ControlRequest {
    State,
    Pause,
    Resume,
    Stop,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ControlState {
    Running,
    Paused,
    Stopping,
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    request: ControlRequest,
}

#[derive(Debug, Serialize, Deserialize)]
struct Response {
    state: ControlState,
}

/// Handles requests from other processes.
pub trait Controlled: Send + Sync + 'static {
    /// Does what is requested, and returns the state after it.
    fn control(&self, request: ControlRequest) -> ControlState;
}

/// An open control socket; closed and removed when dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    is_closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("no run is in progress in {}", .0.display())]
    NoRun(PathBuf),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("the run in {} did not respond", .0.display())]
    NoResponse(PathBuf, #[source] io::Error),
}

impl Workspace {
    fn control_path(&self) -> PathBuf {
        self.working_dir().join(NAME)
    }

    /// Opens the socket of the run that holds the lock. One that a killed run left is replaced.
    pub fn open_control(
        &self,
        controlled: Arc<dyn Controlled>,
    ) -> Result<ControlSocket, DiskError> {
        let path = self.control_path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).at("removing", &path);
            }
            _ => {}
        }
        let listener =
            short_path(&path, |short| UnixListener::bind(short)).at("creating", &path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).at("creating", &path)?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        let thread = thread::spawn(move || serve(&listener, &*controlled, &closed));
        Ok(ControlSocket { path, is_closed, thread: Some(thread) })
    }

    /// Sends a request to the run in this workspace.
    pub fn control(&self, request: ControlRequest) -> Result<ControlState, ControlError> {
        if !self.is_locked()? {
            return Err(ControlError::NoRun(self.root().to_owned()));
        }
        let send = || -> io::Result<ControlState> {
            let mut stream = short_path(&self.control_path(), |short| UnixStream::connect(short))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut text = serde_json::to_vec(&Request { request })?;
            text.push(b'\n');
            stream.write_all(&text)?;
            let response: Response = serde_json::from_slice(&line(&stream)?)?;
            Ok(response.state)
        };
        send().map_err(|error| ControlError::NoResponse(self.root().to_owned(), error))
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        // Wakes the thread, which waits for a connection.
        let woken = short_path(&self.path, |short| UnixStream::connect(short));
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(listener: &UnixListener, controlled: &dyn Controlled, is_closed: &AtomicBool) {
    for stream in listener.incoming() {
        if is_closed.load(Ordering::Acquire) {
            return;
        }
        // A process that disconnects, or sends something else, gets no response.
        let _ = stream.and_then(|stream| respond(&stream, controlled));
    }
}

fn respond(mut stream: &UnixStream, controlled: &dyn Controlled) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Request { request } = serde_json::from_slice(&line(stream)?)?;
    let mut text = serde_json::to_vec(&Response { state: controlled.control(request) })?;
    text.push(b'\n');
    stream.write_all(&text)
}

fn line(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut text)?;
    Ok(text)
}

/// Socket addresses hold about a hundred bytes; through the open folder every path is short.
fn short_path<T>(path: &Path, act: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return act(path);
    };
    let folder = File::open(folder)?;
    act(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorded(Mutex<Vec<ControlRequest>>);

    impl Controlled for Recorded {
        fn control(&self, request: ControlRequest) -> ControlState {
            self.0.lock().unwrap().push(request);
            ControlState::Paused
        }
    }

    #[test]
    fn requests_reach_the_run_below_a_path_that_is_longer_than_a_socket_address() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&dir.path().join("long/".repeat(40)));
        let none = workspace.control(ControlRequest::Pause).unwrap_err().to_string();
        assert!(none.starts_with("no run is in progress in "), "{none}");
        let _lock = workspace.lock(&[]).unwrap();
        let recorded = Arc::new(Recorded::default());
        let socket = workspace.open_control(recorded.clone()).unwrap();
        assert_eq!(workspace.control(ControlRequest::Pause).unwrap(), ControlState::Paused);
        assert_eq!(*recorded.0.lock().unwrap(), [ControlRequest::Pause]);
        let mode = fs::metadata(workspace.control_path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(socket);
        assert!(!workspace.control_path().exists());
        let silent = workspace.control(ControlRequest::Stop).unwrap_err().to_string();
        assert!(silent.contains("did not respond"), "{silent}");
    }

    #[test]
    fn a_socket_that_a_killed_run_left_is_replaced_and_nonsense_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let _lock = workspace.lock(&[]).unwrap();
        drop(UnixListener::bind(workspace.control_path()).unwrap());
        let _socket = workspace.open_control(Arc::new(Recorded::default())).unwrap();
        let mut stream = UnixStream::connect(workspace.control_path()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\n").unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "closed without a response");
        assert_eq!(workspace.control(ControlRequest::State).unwrap(), ControlState::Paused);
    }
}
