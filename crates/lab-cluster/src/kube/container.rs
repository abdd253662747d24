//! The process of a container: in the root of an image and in its own network namespace, or
//! directly as a process of this machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use lab::netns::Isolated;

use crate::node::Relay;

/// Mounts what a container has, then becomes its process. `$1` is the root, empty for that of this
/// machine, `$2` the user, `$3` the KiB of a small scratch volume or nothing, `$4` where that one
/// is mounted; followed by pairs of a folder and the path it is mounted at, `--`, and the command.
/// Each step is an `exec`, so that the process has the id of its parent's child.
const ENTER: &str = r#"root=$1 user=$2 small=$3 scratch=$4; shift 4
if [ -n "$root" ]; then mount --bind "$root" "$root"; fi
while [ "$1" != -- ]; do
    if [ -n "$root" ]; then
        if [ -d "$1" ]; then mkdir -p "$root$2"; fi
        mount --bind "$1" "$root$2"
    fi
    shift 2
done
shift
if [ -n "$small" ]; then
    mount -t tmpfs -o "size=${small}k,mode=1777" tmpfs "$root$scratch"
fi
if [ -z "$root" ]; then exec "$@"; fi
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" "$root" "$@""#;

/// The unpacked root of an image.
#[derive(Debug, Clone)]
pub struct ImageRoot {
    pub path: PathBuf,
    /// The program in it.
    pub entrypoint: String,
    /// `UID:GID`
    pub user: String,
    /// Ports of 127.0.0.1 that containers reach: registries and object stores of this machine.
    pub ports: Vec<u16>,
}

impl ImageRoot {
    /// Libraries of this machine that a program needs which is not linked statically, as debug
    /// builds are.
    fn libraries(&self) -> Vec<(PathBuf, String)> {
        let program = self.path.join(self.entrypoint.trim_start_matches('/'));
        let linked = Command::new("ldd").arg(&program).output();
        let is_static = linked.is_ok_and(|output| !output.status.success());
        let folders = if is_static { &[][..] } else { &["/lib", "/lib64", "/usr/lib"][..] };
        folders.iter().map(|folder| (PathBuf::from(folder), (*folder).to_owned())).collect()
    }
}

/// What a container is started with.
#[derive(Debug)]
pub(super) struct Container<'a> {
    /// The root of its image; without one, `program` runs as a process of this machine.
    pub(super) root: Option<&'a ImageRoot>,
    pub(super) program: &'a Path,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, OsString)>,
    /// Folders of this machine by the paths they are mounted at.
    pub(super) mounts: BTreeMap<String, PathBuf>,
    /// A scratch volume of so many KiB, at this path.
    pub(super) small_scratch: Option<(u64, String)>,
    pub(super) log: &'a Path,
}

/// A running container. Its network goes with it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) child: Child,
    _relays: Vec<Relay>,
    _network: Option<Isolated>,
}

impl Container<'_> {
    pub(super) fn start(self) -> Result<Process> {
        let (mut relays, mut network) = (Vec::new(), None);
        let mut words: Vec<OsString> = Vec::new();
        let mut command = match self.root {
            None => Command::new("unshare"),
            Some(root) => {
                let isolated = Isolated::new()?;
                for port in &root.ports {
                    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                    let listener = isolated.enter(|| TcpListener::bind(address))?;
                    let listener = listener.context("opening a port of a pod")?;
                    relays.push(Relay::of(listener, address)?);
                }
                let command = isolated.command("unshare");
                network = Some(isolated);
                command
            }
        };
        command.args(["--mount", "--propagation", "private", "--", "/bin/sh", "-ec", ENTER, "sh"]);
        match self.root {
            Some(root) => command.arg(&root.path).arg(&root.user),
            None => command.args(["", ""]),
        };
        let (small, at) = self.small_scratch.clone().unzip();
        let at = at.unwrap_or_default();
        command.arg(small.map(|kib| kib.to_string()).unwrap_or_default()).arg(self.here(&at));
        match self.root {
            Some(root) => {
                for (folder, path) in root.libraries() {
                    command.arg(folder).arg(path);
                }
                command.args(["/proc", "/proc", "/dev", "/dev"]);
                for (path, folder) in &self.mounts {
                    command.arg(folder).arg(path);
                }
                words.push(root.entrypoint.clone().into());
            }
            None => words.push(self.program.into()),
        }
        words.extend(self.arguments.iter().map(|word| OsString::from(self.here(word))));
        let environment = self.environment.iter().map(|(name, value)| {
            let value = match value.to_str() {
                Some(text) => self.here(text).into(),
                None => value.clone(),
            };
            (name, value)
        });
        let output = File::create(self.log).context("creating the log of a pod")?;
        let child = command
            .arg("--")
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("creating the log of a pod")?)
            .stderr(output)
            .spawn()
            .context("starting a container")?;
        Ok(Process { child, _relays: relays, _network: network })
    }

    /// Without a root, paths of volumes in arguments and variables are replaced by those of the
    /// folders that they represent.
    fn here(&self, word: &str) -> String {
        if self.root.is_some() {
            return word.to_owned();
        }
        let found = self.mounts.iter().find_map(|(path, folder)| {
            let (before, rest) = match word.split_once("file://") {
                Some((before, rest)) => (format!("{before}file://"), rest),
                None => (String::new(), word),
            };
            let rest = rest.strip_prefix(path.as_str())?;
            let is_below = rest.is_empty() || rest.starts_with('/');
            is_below.then(|| format!("{before}{}{rest}", folder.display()))
        });
        found.unwrap_or_else(|| word.to_owned())
    }
}

/// Makes a folder that every user can write to, as volumes of pods are.
pub(super) fn open_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
    let everyone = fs::Permissions::from_mode(0o777);
    fs::set_permissions(path, everyone).with_context(|| format!("opening {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_volumes_lead_to_their_folders() {
        let container = Container {
            root: None,
            program: Path::new("p"),
            arguments: Vec::new(),
            environment: Vec::new(),
            mounts: BTreeMap::from([("/workspace".to_owned(), PathBuf::from("/tmp/1"))]),
            small_scratch: None,
            log: Path::new("log"),
        };
        for (word, expected) in [
            ("/workspace", "/tmp/1"),
            ("/workspace/a", "/tmp/1/a"),
            ("file:///workspace", "file:///tmp/1"),
            ("/workspaces", "/workspaces"),
            ("s3://bucket/workspace", "s3://bucket/workspace"),
            ("--from=file:///workspace/x", "--from=file:///tmp/1/x"),
        ] {
            assert_eq!(container.here(word), expected);
        }
    }
}
