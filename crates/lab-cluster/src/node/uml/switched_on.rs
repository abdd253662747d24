//! A machine that is on and runs the scripts it is given, until it is powered off.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

use super::super::wait;
use super::{DEADLINE, Machine, Uml};

/// Executes requests, one after the other: files with scripts. The result of one is complete when
/// its `.end` is there. The machine's kernel is not notified of changes in the shared folder, so
/// this polls; waiting for a line that never arrives starts no program, as `sleep` would.
const SCENARIO: &str = r#"
mkfifo /run/never && exec 9<> /run/never || exit 1
number=1
while :; do
  until [ -e ".lab/requests/$number" ]; do read -r -t 0.03 -u 9; done
  request=$PWD/.lab/requests/$number
  # Nothing to do is the end.
  [ -s "$request" ] || exit 0
  bash "$request" > "$request.out" 2> "$request.err" 9<&-
  echo $? > "$request.end-" && mv "$request.end-" "$request.end"
  number=$((number + 1))
done
"#;
const FOLDER: &str = "requests";

/// A machine that is on. It loses power when dropped, and what was not synced is lost.
#[derive(Debug)]
pub struct SwitchedOn {
    session: Mutex<Session>,
    // After what runs on it.
    uml: Uml,
}

#[derive(Debug)]
struct Session {
    machine: Machine,
    requests: u32,
}

impl SwitchedOn {
    pub(super) fn new(uml: Uml) -> Result<Self> {
        let session = Mutex::new(begin(&uml)?);
        let on = Self { session, uml };
        // The first response shows that everything runs.
        on.succeed("true").context("switching a machine on")?;
        Ok(on)
    }

    /// A folder of the host that the machine sees as `/host`.
    pub fn shared(&self) -> &Path {
        self.uml.shared()
    }

    /// Runs a script for bash to its end, whichever way it ends. It may call what scenarios may, and
    /// starts in `/host`. What it leaves running in the background must not hold its output.
    pub fn run(&self, script: &str) -> Result<Output> {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let request =
            self.request(&mut session, &format!("source /host/.lab/calls.sh\n{script}\n"))?;
        let end = request.with_extension("end");
        let doing = || format!("running `{}` in a machine", script.trim());
        self.wait(&mut session, || end.exists()).with_context(doing)?;
        let read = |extension: &str| fs::read(request.with_extension(extension));
        let code = read("end").with_context(doing)?;
        let code = String::from_utf8_lossy(&code).trim().parse::<i32>().with_context(doing)?;
        Ok(Output {
            // As the kernel packs it.
            status: ExitStatus::from_raw(code << 8),
            stdout: read("out").with_context(doing)?,
            stderr: read("err").with_context(doing)?,
        })
    }

    /// Runs a script that must succeed, and returns what it printed.
    pub fn succeed(&self, script: &str) -> Result<String> {
        let output = self.run(script)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            output.status.success(),
            "`{}` ended with {}: {}{}",
            script.trim(),
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        Ok(text(&output.stdout))
    }

    /// Switches the machine off in order, and on again from the same disk.
    pub fn restart(&mut self) -> Result<()> {
        {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            self.request(&mut session, "")?;
            let ended = || session.machine.has_ended();
            wait::within(DEADLINE, "a machine ends", ended).with_context(|| self.uml.logs())?;
            *session = begin(&self.uml)?;
        }
        self.succeed("true").map(drop).context("switching a machine on again")
    }

    /// Cuts the power, whatever the machine is doing, and powers it on again from the same disk.
    /// What was not synced is lost.
    pub fn lose_power(&mut self) -> Result<()> {
        {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            // Two machines must never use the same disk.
            session.machine.kill();
            *session = begin(&self.uml)?;
        }
        self.succeed("true").map(drop).context("switching a machine on after a power loss")
    }

    /// The ends of the logs of everything that runs in it, and the kernel's.
    pub fn logs(&self) -> String {
        self.uml.logs()
    }

    fn request(&self, session: &mut Session, script: &str) -> Result<PathBuf> {
        session.requests += 1;
        let path = self.uml.ours(FOLDER).join(session.requests.to_string());
        let unfinished = path.with_extension("new");
        fs::write(&unfinished, script)
            .and_then(|()| fs::rename(&unfinished, &path))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn wait(&self, session: &mut Session, done: impl Fn() -> bool) -> Result<()> {
        wait::within(DEADLINE, "a machine has answered", || {
            if done() {
                return Ok(true);
            }
            if session.machine.has_ended()? && !done() {
                bail!("the machine ended");
            }
            Ok(false)
        })
        .with_context(|| {
            let console = fs::read(self.uml.ours("console")).unwrap_or_default();
            format!("--- console\n{}\n{}", String::from_utf8_lossy(&console), self.uml.logs())
        })
    }
}

fn begin(uml: &Uml) -> Result<Session> {
    let folder = uml.ours(FOLDER);
    // There is none before the first start.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    uml.prepare(SCENARIO)?;
    Ok(Session { machine: uml.start()?, requests: 0 })
}
