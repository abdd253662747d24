//! A machine of User-Mode Linux: its own kernel, as a process, without root or KVM. It has
//! what the host's kernel may lack: the Open vSwitch datapath, bonds, VLANs. It can be started
//! again from the same disk.
//!
//! The kernel is that of [`Tree::of_uml`]. It needs a newer C library than the host may have, so it
//! runs in a mount namespace in which the libraries of that tree cover those of the host.
//!
//! It has two NICs, by default `nic0` and `nic1`, on one LAN, which is in the machine as well. The router
//! is 198.51.100.1/24, and 192.0.2.1/24 on VLAN 100; DHCP is served on both. The LAN takes jumbo
//! frames, of 9216 bytes; the NICs have an MTU of 1500 until it is changed.
//!
//! A third NIC, `mgmt0`, is connected to a [`Lan`] of the host on request: by it the machine
//! reaches servers of the host through a [`Relay`](super::Relay). That LAN requires root.
//!
//! A machine either runs a scenario from start to end ([`Uml::boot`]), or is powered on and
//! executes steps one at a time ([`Uml::switch_on`]). Both are scripts for bash. They start in
//! `/host`, which is [`Uml::shared`], when NetworkManager and Open vSwitch run. Besides the usual
//! programs they may call
//!
//! | | |
//! |---|---|
//! | `await WHAT COMMAND…` | waits until a command succeeds, three minutes at most; `WHAT` is for the error |
//! | `lan COMMAND…` | runs a command at the other end of the wires |
//! | `power_cut` | ends the machine at once; what was not synced is lost. For scenarios only |

mod switched_on;
mod uplink;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::cell::last_words;
use super::lan::Lan;
use super::options::{self, NodeFile, Profile};
use super::run::{End, Run};
use super::{DAEMONS, wait};
use test_tools::tree::Tree;
use uplink::Uplink;

pub use switched_on::SwitchedOn;

/// In the tree of the kernel.
const PROGRAM: &str = "usr/bin/linux.uml";
const MODULES: &str = "usr/lib/uml/modules";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const INIT: &str = include_str!("uml.sh");
/// What scripts may call.
const CALLS: &str = r#"source /host/.lab/daemons.sh
lan() { ip netns exec lan "$@"; }
power_cut() {
  : > /host/.lab/power-cut
  echo o > /proc/sysrq-trigger
  sleep 600
}
"#;
/// Covers the host's libraries with those of the kernel's tree, whose root is `UMLTREE`. Then waits for
/// the end of the pipe that only our process holds, and kills the whole machine, which is several
/// processes. So it never outlives a test that was killed.
const WATCHED: &str = r#"mount --bind "$UMLTREE/$UMLLIBRARIES" "/$UMLLIBRARIES" || exit 1
unset UMLTREE UMLLIBRARIES
exec 3<&0
(read -r _ <&3; kill -9 -- -$$) 2>/dev/null &
exec "$0" "$@" 3<&- </dev/null"#;
/// How long one boot may take, scenario included, and one script on a machine that runs.
const DEADLINE: Duration = Duration::from_secs(1200);

/// How a machine is before it starts for the first time.
#[derive(Debug, Clone)]
pub struct UmlOptions {
    pub hostname: String,
    /// The names of its two NICs.
    pub nics: [String; 2],
    /// Profiles of NetworkManager. By default `nic0` uses DHCP and `nic1` has none.
    pub profiles: Vec<Profile>,
    /// Whether NetworkManager creates its own profiles, in /run, for NICs that have none.
    pub automatic_profiles: bool,
    /// Other files on its disk. All belong to root; of their modes only who may execute counts.
    pub files: Vec<NodeFile>,
    /// The LAN of the host that `mgmt0` is connected to. By default there is no such NIC.
    pub uplink: Option<Arc<Lan>>,
}

impl Default for UmlOptions {
    fn default() -> Self {
        Self {
            hostname: "node".into(),
            nics: ["nic0", "nic1"].map(str::to_owned),
            profiles: vec![Profile::dhcp("nic0")],
            automatic_profiles: false,
            files: Vec::new(),
            uplink: None,
        }
    }
}

/// A machine that is powered off: its disk, and the folder it shares with the host.
#[derive(Debug)]
pub struct Uml {
    hostname: String,
    nics: [String; 2],
    tree: Tree,
    kernel: Tree,
    folder: TempDir,
    share: PathBuf,
    uplink: Option<Uplink>,
}

impl Uml {
    /// A new machine, which never ran.
    pub fn new(options: &UmlOptions) -> Result<Self> {
        let (tree, kernel) = (Tree::of_user()?, Tree::of_uml()?);
        let folder = TempDir::new().context("making a folder for a machine")?;
        let share = folder.path().join("share");
        let uplink = options.uplink.as_ref().map(Uplink::plug).transpose()?;
        let (hostname, nics) = (options.hostname.clone(), options.nics.clone());
        let uml = Self { hostname, nics, tree, kernel, folder, share, uplink };
        ensure!(
            !uml.share.to_string_lossy().contains(char::is_whitespace),
            "{} has a blank in its name, which a kernel's command line cannot hold; set TMPDIR",
            uml.share.display()
        );
        fs::create_dir_all(uml.ours("log")).context("making a folder for a machine")?;
        uml.put("init", INIT)?;
        uml.put("daemons.sh", DAEMONS)?;
        uml.put("calls.sh", CALLS)?;
        let fixed = [
            options::network_manager(options.automatic_profiles),
            NodeFile { path: "/etc/resolv.conf".into(), content: Vec::new(), mode: 0o644 },
        ];
        let profiles = options.profiles.iter().map(Profile::file);
        for file in fixed.into_iter().chain(profiles).chain(options.files.iter().cloned()) {
            file.put_below(&uml.ours("files"))?;
        }
        Ok(uml)
    }

    /// A folder of the host that the machine sees as `/host`.
    pub fn shared(&self) -> &Path {
        &self.share
    }

    /// Copies a program to `/host`, where it keeps its name.
    pub fn install(&self, program: &Path) -> Result<()> {
        let name = program.file_name().context("a program has a name")?;
        self.install_as(program, name)
    }

    /// The same with another name.
    pub fn install_as(&self, program: &Path, name: impl AsRef<Path>) -> Result<()> {
        let to = self.share.join(name);
        let installing = || format!("copying {} to the machine", program.display());
        fs::copy(program, &to).with_context(installing)?;
        fs::set_permissions(&to, Permissions::from_mode(0o755)).with_context(installing)
    }

    /// Starts the machine, runs a scenario to its end, and switches the machine off. The next
    /// boot finds the disk as this one left it.
    pub fn boot(&mut self, scenario: &str) -> Result<Run> {
        self.prepare(scenario)?;
        let mut machine = self.start()?;
        let ended = wait::within(DEADLINE, "a machine ends", || machine.has_ended());
        drop(machine);
        ended.with_context(|| self.logs())?;

        let text = |name| {
            let bytes = fs::read(self.ours(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let output = text("output");
        let end = if let Ok(code) = text("code").trim().parse() {
            End::Exit(code)
        } else if self.ours("power-cut").exists() {
            End::PowerCut
        } else {
            bail!(
                "a machine ended before its scenario did\n--- output\n{output}\n--- console\n{}\n{}",
                text("console"),
                self.logs()
            );
        };
        Ok(Run { end, output, logs: self.logs() })
    }

    /// Starts the machine, and returns when it accepts scripts.
    pub fn switch_on(self) -> Result<SwitchedOn> {
        SwitchedOn::new(self)
    }

    /// The ends of the logs of everything that ran in it, and the kernel's.
    pub fn logs(&self) -> String {
        last_words(&self.ours("log"))
    }

    /// Puts the scenario of the next boot where the machine finds it.
    fn prepare(&self, scenario: &str) -> Result<()> {
        for name in ["output", "code", "console", "power-cut"] {
            // It is not there before the first boot.
            let _ = fs::remove_file(self.ours(name));
        }
        self.put("scenario", scenario)
    }

    fn start(&self) -> Result<Machine> {
        let kernel = File::create(self.ours("log/kernel.log")).context("creating a log")?;
        let work = self.folder.path();
        let system = self.kernel.root();
        let mut command = match &self.uplink {
            Some(uplink) => uplink.command("unshare"),
            None => Command::new("unshare"),
        };
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let child = command
            .args(["--mount", "--propagation", "private", "--", "/bin/sh", "-c", WATCHED])
            .arg(system.join(PROGRAM))
            // Where seccomp is not available, the kernel falls back to ptrace.
            .args(["mem=512M", "quiet", "seccomp=auto"])
            .arg(format!("ubd0={},{}", work.join("disk").display(), self.tree.disk().display()))
            .args(["root=/dev/ubda", "rw", "rootfstype=ext4", "con=null", "con0=null,fd:2"])
            .arg(format!("uml_dir={}", work.display()))
            .args(["umid=machine", &format!("UMLNAME={}", self.hostname)])
            .arg(format!("UMLMODULES={}", system.join(MODULES).display()))
            .arg(format!("UMLNICS={}", self.nics.join(",")))
            .args(self.uplink.iter().flat_map(Uplink::arguments))
            .args(["init=/bin/sh", "--", "-c", &loader(&self.share)])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/usr/sbin")
            .env("UMLTREE", &system)
            .env("UMLLIBRARIES", LIBRARIES)
            .stdin(Stdio::piped())
            .stdout(kernel.try_clone().context("creating a log")?)
            .stderr(kernel)
            .process_group(0)
            .spawn()
            .context("starting User-Mode Linux")?;
        Ok(Machine { child, is_over: false })
    }

    fn ours(&self, name: &str) -> PathBuf {
        self.share.join(".lab").join(name)
    }

    fn put(&self, name: &str, content: &str) -> Result<()> {
        let path = self.ours(name);
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))
    }
}

/// What the kernel runs first: it makes the shared folder visible and continues there. A kernel's
/// command line is split at blanks, so the shell has to put them in.
fn loader(share: &Path) -> String {
    let share = share.display();
    let script = format!(
        "mkdir -p /host;mount -t hostfs none /host -o hostfs={share};exec bash /host/.lab/init"
    );
    script.replace(' ', "${IFS}")
}

/// A running machine. It ends when dropped.
#[derive(Debug)]
struct Machine {
    child: Child,
    is_over: bool,
}

impl Machine {
    fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("watching a machine")?.is_some())
    }

    /// Ends it at once.
    fn kill(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        // What remains of the process group: the machine if it is to be killed, else the watcher,
        // which also keeps the group's number from being reused.
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_has_no_blank_for_the_kernel_to_split_at() {
        let loader = loader(Path::new("/tmp/x/share"));
        assert!(!loader.contains(char::is_whitespace), "{loader}");
        assert!(loader.contains("-o${IFS}hostfs=/tmp/x/share"), "{loader}");
    }
}
