//! A second run of this program beside the first, at low priority: tests wait for servers and nodes
//! most of the time, and campaigns use the processor time that they leave.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::repository;

/// A run with its own log. It is killed if it is dropped before it has ended.
pub(crate) struct Aside {
    child: Child,
    log: PathBuf,
}

impl Aside {
    /// Starts `xtask test --only STEP …`. The program is the one of the test build: that build
    /// replaced the file of the program that runs.
    pub(crate) fn start(program: &Path, steps: &[&str]) -> Result<Self> {
        let log = repository::scratch("aside")?.join("log");
        let writing = || format!("writing {}", log.display());
        let output = File::create(&log).with_context(writing)?;
        let errors = output.try_clone().with_context(writing)?;
        let mut command = Command::new("nice");
        command.arg(program).arg("test");
        for step in steps {
            command.args(["--only", step]);
        }
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        Ok(Self { child: child.context("starting campaigns with `nice`")?, log })
    }

    /// Waits for its end, and prints what it printed.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.child.wait().context("waiting for the campaigns")?;
        let reading = || format!("reading {}", self.log.display());
        print!("{}", fs::read_to_string(&self.log).with_context(reading)?);
        if !status.success() {
            bail!("campaigns ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After `finish` the process is gone, and the errors say just that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
