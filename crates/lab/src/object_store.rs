//! An object store with the S3 API: versitygw on a directory, stopped when dropped.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::certificates::Authority;
use crate::tools::{self, Tool};

/// It takes a few milliseconds on an idle machine.
const START_DEADLINE: Duration = Duration::from_secs(300);

/// A running object store.
#[derive(Debug)]
pub struct ObjectStore {
    child: Child,
    address: SocketAddr,
    scheme: &'static str,
    folder: TempDir,
}

impl ObjectStore {
    pub const ACCESS_KEY: &str = "lab-access";
    pub const SECRET_KEY: &str = "lab-secret-key";

    /// Starts a store without buckets.
    pub fn start() -> Result<Self> {
        Self::launch(None)
    }

    /// Starts one with TLS, with a certificate of this authority.
    pub fn start_with_tls(authority: &Authority) -> Result<Self> {
        Self::launch(Some(authority))
    }

    fn launch(authority: Option<&Authority>) -> Result<Self> {
        let program = tools::path(Tool::Versitygw)?;
        let folder = TempDir::new().context("making a folder for an object store")?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let data = folder.path().join("buckets");
        fs::create_dir(&data).context("making a folder for buckets")?;
        let log = fs::File::create(folder.path().join("versitygw.log"))?;
        let mut command = Command::new(program);
        let mut scheme = "http";
        if let Some(authority) = authority {
            let server = authority.server()?.write(folder.path(), "server")?;
            command.arg("--cert").arg(server.certificate).arg("--key").arg(server.key);
            scheme = "https";
        }
        let child = command
            .env("ROOT_ACCESS_KEY", Self::ACCESS_KEY)
            .env("ROOT_SECRET_KEY", Self::SECRET_KEY)
            .args(["--port", &address.to_string(), "posix"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting versitygw")?;
        let mut store = Self { child, address, scheme, folder };
        let deadline = Instant::now() + START_DEADLINE;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = store.child.try_wait()? {
                let log = fs::read_to_string(store.folder.path().join("versitygw.log"))?;
                bail!("versitygw ended with {status}: {log}");
            }
            if Instant::now() > deadline {
                bail!("versitygw does not listen");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(store)
    }

    /// Makes a bucket; returns the folder that has its objects.
    pub fn bucket(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.path().join("buckets").join(name);
        fs::create_dir_all(&path).context("making a bucket")?;
        Ok(path)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
