//! Runs oc-mirror in the folder of the demo.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::output::{show_line, show_text};

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

/// oc-mirror, run in the folder of the demo by the user of one side.
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

    /// Prints a command, runs it to its end and prints its report.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<()> {
        println!("$ oc-mirror {}", arguments.join(" "));
        let start = Instant::now();
        let output = self.command(arguments).output().context("starting oc-mirror")?;
        // Progress goes to standard error, the report to standard output.
        let report = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            show_text(&String::from_utf8_lossy(&output.stderr));
            show_text(&report);
            bail!("oc-mirror ended with {}", output.status);
        }
        show_text(&report);
        show_line(&format!("It took {:.1} s.", start.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Starts `oc-mirror serve` on a free port and waits until it accepts connections.
    pub(super) fn serve(&self, workspace: &str) -> Result<Server> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
        let address = free.local_addr().context("finding a free port")?;
        drop(free);
        let arguments = ["serve", workspace, "--listen", &address.to_string()];
        println!("$ oc-mirror {}", arguments.join(" "));
        // One line per request: too much to print.
        let log = self.folder.join("serve.log");
        let errors = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child =
            self.command(&arguments).stderr(errors).spawn().context("starting oc-mirror serve")?;
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

    /// Interrupts it as Ctrl-C does, and expects that it ends with success.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("oc-mirror serve has no process ID")?;
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
