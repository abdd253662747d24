//! A network namespace with nothing but loopback, for proving that nothing
//! calls out. Needs root.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A separate namespace, which lasts until this is dropped.
#[derive(Debug)]
pub struct Isolated {
    /// A process that only keeps the namespace open. It ends with
    /// its standard input, so also when this process is killed.
    holder: Child,
}

impl Isolated {
    /// A new namespace whose loopback is up.
    pub fn new() -> Result<Self> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "a network namespace can be made by root only: run the tests as root"
        );
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "ip link set lo up && echo up && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("running unshare; `apt-get install util-linux` installs it")?;
        let mut line = String::new();
        if let Some(stdout) = holder.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("waiting for the namespace")?;
        }
        if line.trim() != "up" {
            let mut why = String::new();
            if let Some(mut stderr) = holder.stderr.take() {
                stderr.read_to_string(&mut why).context("reading why")?;
            }
            bail!(
                "making a network namespace: {}; it takes root's capabilities and `apt-get install iproute2`",
                why.trim()
            );
        }
        Ok(Self { holder })
    }

    /// A command that will run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).args(["--", program]);
        command
    }

    /// Does something inside, on its own thread. Sockets opened there
    /// always belong to the namespace and may be used from anywhere.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = self.path();
        let namespace = File::open(&path).with_context(|| format!("opening {path}"))?;
        let inside = || -> Result<T> {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .context("entering the network namespace")?;
            Ok(work())
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// A free port of 127.0.0.1 inside, for a server that runs outside.
    pub fn listener(&self) -> Result<TcpListener> {
        self.enter(|| TcpListener::bind(("127.0.0.1", 0)))?.context("opening a port")
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
