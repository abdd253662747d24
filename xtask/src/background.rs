//! A second run of this program in the background, at low priority: tests wait for servers and nodes
//! most of the time, and campaigns use the idle processor time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::repository;

/// A run with its own log. It is killed if it is dropped before it has ended.
pub(crate) struct BackgroundRun {
    child: Child,
    log: PathBuf,
}

impl BackgroundRun {
    /// Starts `xtask test --only STEP …` with the program of the test build: that build replaced
    /// the file of the running program.
    pub(crate) fn start(program: &Path, steps: &[&str]) -> Result<Self> {
        let log = repository::scratch("background")?.join("log");
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

    /// Waits until it ends, and prints its log.
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

impl Drop for BackgroundRun {
    fn drop(&mut self) {
        // After `finish` the process has ended, and both calls fail for that reason only.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
