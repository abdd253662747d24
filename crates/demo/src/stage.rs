//! The demo's environment: its folder, the program it runs, and what it prints.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long `oc-mirror serve` may take to start or to end.
const SERVER_DEADLINE: Duration = Duration::from_secs(15);

/// Settings of the user that must not affect the demo.
const NOT_INHERITED: [&str; 14] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "REGISTRY_AUTH_FILE",
    "CONTAINERS_REGISTRIES_CONF",
    "OC_MIRROR_CACHE",
    "DOCKER_CONFIG",
    "UPDATE_URL_OVERRIDE",
    "OCP_SIGNATURE_URL",
    "OCP_SIGNATURE_VERIFICATION_PK",
    "XDG_RUNTIME_DIR",
];

/// The program that is shown, run in the demo's folder by the user of one side.
pub(super) struct OcMirror<'a> {
    program: &'a Path,
    folder: &'a Path,
    home: &'a Path,
    environment: Vec<(&'static str, String)>,
}

impl<'a> OcMirror<'a> {
    pub(super) fn new(
        program: &'a Path,
        folder: &'a Path,
        home: &'a Path,
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        Self { program, folder, home, environment }
    }

    /// Shows a command, runs it to its end and shows its report.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<()> {
        println!("$ oc-mirror {}", arguments.join(" "));
        let began = Instant::now();
        let output = self.command(arguments).output().context("starting oc-mirror")?;
        // Progress goes to standard error, the report to standard output.
        let (said, report) = (output.stderr, String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            show_text(&String::from_utf8_lossy(&said));
            show_text(&report);
            bail!("oc-mirror ended with {}", output.status);
        }
        show_text(&report);
        say(&format!("It took {:.1} s.", began.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Starts `oc-mirror serve` on a free port and waits until it answers.
    pub(super) fn serve(&self, workspace: &str) -> Result<Server> {
        let free =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
        let address = free.local_addr().context("looking for a free port")?;
        drop(free);
        let arguments = ["serve", workspace, "--listen", &address.to_string()];
        println!("$ oc-mirror {}", arguments.join(" "));
        // One line per request: too much to show.
        let log = self.folder.join("serve.log");
        let said = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child =
            self.command(&arguments).stderr(said).spawn().context("starting oc-mirror serve")?;
        let mut server = Server { child, address };
        let deadline = Instant::now() + SERVER_DEADLINE;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait().context("watching oc-mirror serve")? {
                show_text(&fs::read_to_string(&log).unwrap_or_default());
                bail!("oc-mirror serve ended at once with {status}");
            }
            ensure!(Instant::now() < deadline, "oc-mirror serve does not listen at {address}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(arguments).current_dir(self.folder).stdin(Stdio::null());
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        command.env("HOME", self.home).env("XDG_CONFIG_HOME", self.home.join(".config"));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A running `oc-mirror serve`. It is killed when dropped.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it as Ctrl-C would, and expects that it takes this well.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("oc-mirror serve has no process number")?;
        kill_process(pid, Signal::INT).context("interrupting oc-mirror serve")?;
        let deadline = Instant::now() + SERVER_DEADLINE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().context("watching oc-mirror serve")? {
                ensure!(status.success(), "oc-mirror serve ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("oc-mirror serve does not end when interrupted");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn heading(text: &str) {
    println!("\n==> {text}");
}

pub(super) fn say(text: &str) {
    println!("    {text}");
}

pub(super) fn show_command(text: &str) {
    println!("$ {text}");
}

pub(super) fn show_text(text: &str) {
    for line in text.lines() {
        println!("    {line}");
    }
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Shows what is in a folder, and what each folder below weighs.
pub(super) fn show_files(folder: &Path) -> Result<()> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Weight { files, bytes } = weigh(&path)?;
        let (slash, count) = match path.is_dir() {
            true => ("/", format!("  {files} files")),
            false => ("", String::new()),
        };
        println!("    {:20} {:>8}{count}", format!("{name}{slash}"), megabytes(bytes));
    }
    Ok(())
}

struct Weight {
    files: usize,
    bytes: u64,
}

fn weigh(path: &Path) -> Result<Weight> {
    let found =
        fs::symlink_metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    if !found.is_dir() {
        return Ok(Weight { files: 1, bytes: found.len() });
    }
    entries(path)?.iter().try_fold(Weight { files: 0, bytes: 0 }, |sum, path| {
        let Weight { files, bytes } = weigh(path)?;
        Ok(Weight { files: sum.files + files, bytes: sum.bytes + bytes })
    })
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", folder.display());
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>())
        .with_context(reading)?;
    paths.sort();
    Ok(paths)
}
