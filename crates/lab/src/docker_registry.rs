//! Debian's docker-registry as a child process: the registry that many
//! disconnected sites run.

mod storage;

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use oci::{ImageRef, RegistryHost};
use tempfile::TempDir;

use crate::certificates::Authority;
use crate::images::Image;
use crate::netns::Isolated;
use crate::object_store::ObjectStore;
use crate::registry::Credentials;

pub use storage::Storage;

const PROGRAM: &str = "docker-registry";
/// How long it may take to listen: a few milliseconds on an idle machine, and much longer beside
/// builds. What takes longer hangs.
const START_DEADLINE: Duration = Duration::from_secs(300);

/// How docker-registry is set up.
#[derive(Debug, Default)]
pub struct Settings {
    /// TLS with a certificate of this authority; without one, plain HTTP.
    pub tls: Option<Arc<Authority>>,
    /// The only user that is accepted; without one, all are.
    pub credentials: Option<Credentials>,
    /// Where it keeps its content; without one, in a temporary directory.
    /// Content that is there already is served.
    pub storage: Option<PathBuf>,
    /// The URL of a [`crate::object_store::ObjectStore`] and a bucket that keep its content instead.
    pub bucket: Option<(String, String)>,
    /// The port of 127.0.0.1 to listen on; without one, a free port.
    pub port: Option<u16>,
    /// Rejects every deletion with 405, as it does unless it is configured otherwise.
    pub deletion_disabled: bool,
    /// The program; without one, Debian's docker-registry 2.8.
    pub program: Option<PathBuf>,
}

impl Settings {
    /// distribution 3, which deletes single tags.
    pub fn distribution_3() -> Result<Self> {
        let program = Some(test_tools::path(test_tools::Tool::Distribution)?);
        Ok(Self { program, ..Self::default() })
    }

    fn program(&self) -> &Path {
        self.program.as_deref().unwrap_or(Path::new(PROGRAM))
    }
}

/// A running docker-registry. It is killed when dropped.
#[derive(Debug)]
pub struct DockerRegistry {
    child: Child,
    program: PathBuf,
    address: SocketAddr,
    scheme: &'static str,
    storage: PathBuf,
    files: TempDir,
}

impl DockerRegistry {
    /// Starts docker-registry and waits until it listens.
    pub fn start(settings: &Settings) -> Result<Self> {
        Self::launch(settings, Command::new(settings.program()))
    }

    /// Starts docker-registry where only loopback is reachable.
    pub fn start_in(isolated: &Isolated, settings: &Settings) -> Result<Self> {
        Self::launch(settings, isolated.command(&settings.program().to_string_lossy()))
    }

    fn launch(settings: &Settings, mut command: Command) -> Result<Self> {
        let version = Command::new(settings.program()).arg("--version").output();
        ensure!(
            version.is_ok_and(|output| output.status.success()),
            "{PROGRAM} cannot be run; `apt-get install docker-registry` installs it"
        );
        let files = TempDir::new().context("making a directory for docker-registry")?;
        let storage = settings.storage.clone().unwrap_or_else(|| files.path().join("storage"));
        let config = files.path().join("config.yml");
        fs::write(&config, configuration(settings, files.path(), &storage)?)
            .with_context(|| format!("writing {}", config.display()))?;
        let log = files.path().join("registry.log");
        let create = |path: &Path| {
            File::create(path).with_context(|| format!("creating {}", path.display()))
        };
        let child = command
            .arg("serve")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(create(&files.path().join("access.log"))?)
            .stderr(create(&log)?)
            .spawn()
            .with_context(|| format!("starting {PROGRAM}"))?;
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // From here on, whatever fails, the child is killed with the value.
        let program = settings.program().to_owned();
        let mut registry = Self { child, program, address, scheme, storage, files };
        registry.address = registry.wait_until_listening(&log)?;
        Ok(registry)
    }

    /// The address from its log. The port is open once that line is written.
    fn wait_until_listening(&mut self, log: &Path) -> Result<SocketAddr> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let text = fs::read_to_string(log).unwrap_or_default();
            if let Some(address) = listening_address(&text) {
                return Ok(address);
            }
            if let Some(status) = self.child.try_wait().context("watching docker-registry")? {
                bail!("{PROGRAM} ended at once ({status}): {}", text.trim());
            }
            if Instant::now() > deadline {
                bail!("{PROGRAM} does not listen after {START_DEADLINE:?}: {}", text.trim());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The registry's name in references: `127.0.0.1:1234`.
    pub fn host(&self) -> Result<RegistryHost> {
        Ok(self.address.to_string().parse()?)
    }

    /// Where it is reached: `http://127.0.0.1:1234`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// The reference of a tag in it.
    pub fn image(&self, repository: &str, tag: &str) -> Result<ImageRef> {
        Ok(format!("{}/{repository}:{tag}", self.address).parse()?)
    }

    /// Its process, for measuring.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its content on disk.
    pub fn storage(&self) -> Storage {
        Storage::new(&self.storage)
    }

    /// Stores an image with its attachments, directly on its disk.
    pub fn put_image(&self, image: &Image, repository: &str, tag: &str) -> Result<()> {
        self.storage().put_image(image, &repository.parse()?, &tag.parse()?)
    }

    /// Removes all content, like a new registry.
    pub fn wipe(&self) -> Result<()> {
        self.storage().wipe()
    }

    /// Runs the registry's own garbage collection, which removes blobs that no manifest names.
    /// Nothing may be pushed meanwhile. Never with `--delete-untagged`: docker-registry 2.8 then
    /// removes the images of lists, which have no tags of their own.
    pub fn collect_garbage(&self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("garbage-collect");
        let output = command
            .arg(self.files.path().join("config.yml"))
            .output()
            .with_context(|| format!("running the garbage collection of {PROGRAM}"))?;
        ensure!(
            output.status.success(),
            "the garbage collection of {PROGRAM} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }

    /// The file with one line per request, in Apache's combined format.
    pub fn access_log(&self) -> PathBuf {
        self.files.path().join("access.log")
    }
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(settings: &Settings, files: &Path, storage: &Path) -> Result<String> {
    let port = settings.port.unwrap_or(0);
    // No cache of blobs: it would outlive what a test removes from the disk.
    let mut text = format!(
        "version: 0.1
log: {{level: info, accesslog: {{disabled: false}}}}
storage:
  {}
  delete: {{enabled: {}}}
http:
  addr: 127.0.0.1:{port}
  secret: lab
",
        driver(settings, storage),
        !settings.deletion_disabled
    );
    if let Some(authority) = &settings.tls {
        let server = authority.server()?.write(files, "server")?;
        text += &format!(
            "  tls: {{certificate: {:?}, key: {:?}}}\n",
            server.certificate.display().to_string(),
            server.key.display().to_string()
        );
    }
    if let Some(credentials) = &settings.credentials {
        let path = files.join("htpasswd");
        fs::write(&path, htpasswd(credentials)?)
            .with_context(|| format!("writing {}", path.display()))?;
        let path = path.display().to_string();
        text += &format!("auth:\n  htpasswd: {{realm: lab, path: {path:?}}}\n");
    }
    Ok(text)
}

/// Where content is kept. Clients get content of a bucket from the registry, not by redirects.
fn driver(settings: &Settings, storage: &Path) -> String {
    match &settings.bucket {
        None => format!("filesystem: {{rootdirectory: {:?}}}", storage.display().to_string()),
        Some((url, bucket)) => format!(
            "s3: {{accesskey: {}, secretkey: {}, region: us-east-1, regionendpoint: {url:?}, bucket: {bucket}, forcepathstyle: true, secure: false}}\n  redirect: {{disable: true}}",
            ObjectStore::ACCESS_KEY,
            ObjectStore::SECRET_KEY,
        ),
    }
}

/// One line of a password file, hashed by the tool that administrators use.
fn htpasswd(credentials: &Credentials) -> Result<Vec<u8>> {
    let output = Command::new("htpasswd")
        .args(["-Bbn", &credentials.user, &credentials.password])
        .output()
        .context("running htpasswd; `apt-get install apache2-utils` installs it")?;
    ensure!(output.status.success(), "htpasswd failed for the user {:?}", credentials.user);
    Ok(output.stdout)
}

fn listening_address(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once("listening on ")?;
    // The line must be whole, or the port could be cut short.
    let (line, _) = rest.split_once('\n')?;
    let end = line.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':')?;
    line[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_only_from_a_whole_line() {
        let line = "level=info msg=\"listening on 127.0.0.1:34567\" go.version=go1.19\n";
        assert_eq!(listening_address(line), Some(([127, 0, 0, 1], 34567).into()));
        let tls = "msg=\"listening on 127.0.0.1:34567, tls\" go.version=go1.19\n";
        assert_eq!(listening_address(tls), Some(([127, 0, 0, 1], 34567).into()));
        assert_eq!(listening_address("msg=\"listening on 127.0.0.1:34"), None);
    }
}
