//! A whole machine: systemd, udev, NICs on a bus, a Debian kernel, emulated in software.
//! Nothing of it is imitated, so it takes a minute or two to start.
//!
//! It has two NICs, `nic0` and `nic1`, on one LAN. The router is 198.51.100.1/24, and
//! 192.0.2.1/24 on VLAN 100; DHCP is served on both. Nothing leaves the machine.
//!
//! A scenario is a script for bash. It starts in `/lab` when systemd has started all enabled
//! units, or failed to. `/lab/out/system` then holds the output of `systemctl is-system-running`.
//! Besides the usual programs it may call `lan COMMAND…` to run a command at the other end of the
//! wires.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::options::{self, NodeFile, Profile};
use super::run::{End, Run};
use super::wait;

pub use test_tools::machine_image::Image;

const PROGRAM: &str = "qemu-system-x86_64";
/// Waits for the end of the pipe that only our process holds, then kills the machine. So it never
/// outlives a test that was killed.
const WATCHED: &str = r#"exec 3<&0
(read -r _ <&3; kill -9 $$) 2>/dev/null &
exec "$0" "$@" 3<&- </dev/null"#;
/// How long one boot may take, scenario included.
const DEADLINE: Duration = Duration::from_secs(480);
/// Space for the output of a boot.
const RESULTS: u64 = 64 << 20;
/// The end of the console that an error shows.
const TAIL: usize = 4000;
/// The names of NICs, by the last number of their MAC address.
const NICS: [&str; 3] = ["nic0", "nic1", "lan0"];

/// How a machine is before it starts for the first time.
#[derive(Debug, Clone)]
pub struct MachineOptions {
    pub hostname: String,
    /// Profiles of NetworkManager. By default `nic0` uses DHCP and `nic1` has none.
    pub profiles: Vec<Profile>,
    /// Other files on its disk.
    pub files: Vec<NodeFile>,
    /// Files of the host, and where the machine has a copy, executable for all.
    pub programs: Vec<(PathBuf, String)>,
    /// Units to enable, as their `[Install]` sections define.
    pub enable: Vec<String>,
    /// Units to mask.
    pub mask: Vec<String>,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            hostname: "node".into(),
            profiles: vec![Profile::dhcp("nic0")],
            files: Vec::new(),
            programs: Vec::new(),
            enable: Vec::new(),
            mask: Vec::new(),
        }
    }
}

/// A machine that is powered off: its disk.
#[derive(Debug)]
pub struct Machine {
    image: Image,
    folder: TempDir,
    /// What the next boot lays over the root; nothing after the first.
    first: Option<MachineOptions>,
}

impl Machine {
    /// A new machine, which never ran.
    pub fn new(options: &MachineOptions) -> Result<Self> {
        ensure!(
            test_tools::is_installed(PROGRAM),
            "a machine cannot run here: there is no {PROGRAM}; `apt-get install qemu-system-x86` \
             installs it"
        );
        let image = Image::of_user()?;
        let folder = TempDir::new().context("making a folder for a machine")?;
        let status = Command::new("cp")
            .args(["--sparse=always", "--reflink=auto"])
            .args([image.disk(), folder.path().join("disk")])
            .status()
            .context("running cp")?;
        ensure!(status.success(), "copying the disk of a machine: cp ended with {status}");
        Ok(Self { image, folder, first: Some(options.clone()) })
    }

    /// Starts the machine, runs a scenario to its end, and switches the machine off. The next
    /// boot finds the disk as this one left it. The logs are the journal of this boot.
    pub fn boot(&mut self, scenario: &str) -> Result<Run> {
        let mut tar = tar::Builder::new(self.create("payload")?);
        put(&mut tar, "lab/scenario", scenario.as_bytes(), 0o644)?;
        if let Some(options) = self.first.take() {
            put_first(&mut tar, &options)?;
        }
        tar.into_inner().context("writing what a machine is given")?;
        self.create("results")?.set_len(RESULTS).context("making room for results")?;

        let mut emulator = self.start()?;
        let ended = wait::within(DEADLINE, "a machine ends", || emulator.has_ended());
        drop(emulator);
        ended.with_context(|| self.console())?;

        let [output, code, journal] = ["output", "code", "journal"].map(|name| self.result(name));
        let Ok(code) = code?.trim().parse() else {
            bail!("a machine ended before its scenario did:\n{}", self.console());
        };
        Ok(Run { end: End::Exit(code), output: output?, logs: journal? })
    }

    fn start(&self) -> Result<Emulator> {
        let log = self.create("emulator.log")?;
        let disk = |name: &str, more: &str| {
            format!("file={},format=raw,if=virtio{more}", self.folder.path().join(name).display())
        };
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WATCHED, PROGRAM, "-accel", "tcg,thread=multi", "-cpu", "max,la57=off"])
            .args(["-machine", "q35", "-smp", "2", "-m", "1024", "-display", "none"])
            .args(["-nodefaults", "-no-reboot", "-device", "virtio-rng-pci"])
            .arg("-kernel")
            .arg(self.image.kernel())
            .arg("-initrd")
            .arg(self.image.initrd())
            .args([
                "-append",
                "root=/dev/vda rw console=ttyS0 quiet loglevel=4 panic=-1 nokaslr \
                    mitigations=off systemd.show_status=error",
            ])
            // Whether the disk is flushed to the disk of the host does not matter.
            .args(["-drive", &disk("disk", ",cache=unsafe")])
            .args(["-drive", &disk("payload", ",readonly=on")])
            .args(["-drive", &disk("results", ",cache=unsafe")])
            .arg("-serial")
            .arg(format!("file:{}", self.folder.path().join("console").display()));
        for number in 0..NICS.len() {
            command
                .args(["-netdev", &format!("hubport,id=wire{number},hubid=0"), "-device"])
                .arg(format!("virtio-net-pci,netdev=wire{number},mac={}", mac(number)));
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(log.try_clone().context("creating a log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {PROGRAM}"))?;
        Ok(Emulator { child })
    }

    fn create(&self, name: &str) -> Result<File> {
        File::create(self.folder.path().join(name)).with_context(|| format!("creating {name}"))
    }

    /// A file among the results; nothing when it is not there.
    fn result(&self, name: &str) -> Result<String> {
        let path = self.folder.path().join("results");
        let reading = || format!("reading the results of a machine: {name}");
        let mut archive = tar::Archive::new(File::open(&path).with_context(reading)?);
        for entry in archive.entries().with_context(reading)? {
            let mut entry = entry.with_context(reading)?;
            if entry.path().with_context(reading)? == Path::new("./").join(name) {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).with_context(reading)?;
                return Ok(String::from_utf8_lossy(&content).into_owned());
            }
        }
        Ok(String::new())
    }

    /// The end of the output of the machine and its emulator.
    fn console(&self) -> String {
        ["emulator.log", "console"]
            .map(|name| {
                let text = fs::read(self.folder.path().join(name)).unwrap_or_default();
                let tail = &text[text.len().saturating_sub(TAIL)..];
                format!("--- {name}\n{}\n", String::from_utf8_lossy(tail))
            })
            .concat()
    }
}

/// A running machine. It ends when dropped.
struct Emulator {
    child: Child,
}

impl Emulator {
    fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("watching a machine")?.is_some())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn mac(number: usize) -> String {
    format!("52:54:00:00:00:{number:02x}")
}

/// Files that only the first boot adds.
fn put_first(tar: &mut tar::Builder<File>, options: &MachineOptions) -> Result<()> {
    for (path, text) in OURS {
        put(tar, path, text.as_bytes(), 0o644)?;
    }
    for (number, name) in NICS.into_iter().enumerate() {
        let link = format!("[Match]\nPermanentMACAddress={}\n\n[Link]\nName={name}\n", mac(number));
        put(tar, &format!("etc/systemd/network/10-{name}.link"), link.as_bytes(), 0o644)?;
    }
    put(tar, "etc/hostname", format!("{}\n", options.hostname).as_bytes(), 0o644)?;
    let profiles = options.profiles.iter().map(Profile::file);
    let fixed = std::iter::once(options::network_manager(false));
    for file in fixed.chain(profiles).chain(options.files.iter().cloned()) {
        put(tar, file.path.trim_start_matches('/'), &file.content, file.mode)?;
    }
    for (from, to) in &options.programs {
        let content = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        put(tar, to.trim_start_matches('/'), &content, 0o755)?;
    }
    let lines = |fixed: &[&str], more: &[String]| -> String {
        let more = more.iter().map(String::as_str);
        fixed.iter().copied().chain(more).map(|unit| format!("{unit}\n")).collect()
    };
    put(tar, "lab/enable", lines(&ENABLED, &options.enable).as_bytes(), 0o644)?;
    put(tar, "lab/mask", lines(&MASKED, &options.mask).as_bytes(), 0o644)
}

fn put(tar: &mut tar::Builder<File>, path: &str, content: &[u8], mode: u32) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    tar.append_data(&mut header, path, content).with_context(|| format!("packing {path}"))
}

/// Files of every machine.
const OURS: [(&str, &str); 5] = [
    // Thousands of lines of NetworkManager's take a minute of an emulated machine's time.
    ("etc/NetworkManager/conf.d/lab.conf", "[logging]\nlevel=INFO\n"),
    ("lab/lan.sh", include_str!("machine/lan.sh")),
    ("lab/run.sh", include_str!("machine/run.sh")),
    ("etc/systemd/system/lab-lan.service", include_str!("machine/lab-lan.service")),
    ("etc/systemd/system/lab-scenario.service", include_str!("machine/lab-scenario.service")),
];
const ENABLED: [&str; 3] = ["NetworkManager.service", "lab-lan.service", "lab-scenario.service"];
/// What takes time and is useless to a machine that runs for minutes.
const MASKED: [&str; 16] = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "ldconfig.service",
    "modprobe@drm.service",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-timesyncd.service",
];
