//! `gather`: what is needed to diagnose br-ex, from a node that may never have joined its cluster, so
//! that must-gather has nothing of it.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use node_collection::{Index, Item, STATE, Secrets, Sink};

use crate::arguments::GatherArguments;
use crate::disk::Disk;
use crate::layout::{BOOT_ID, DOCUMENTS, PROFILES, PROFILES_OF_BOOT, REPORTS, STAGING, TRIES};
use crate::node::{Node as _, ThisNode};

/// Of larger outputs, the end is kept: logs end with what happened last.
const LARGEST: usize = 8 << 20;
/// Lines of one journal, of all boots together.
const MOST_LINES: &str = "50000";
/// No single command may keep the rest from being collected.
const PATIENCE: Duration = Duration::from_secs(20);

const FILES: [&str; 11] = [
    "/etc/nmstate/nmstate.conf",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/kubernetes/kubelet.conf.d/20-nodenet.conf",
    "/run/ofport_requests.br-ex",
    "/run/ovs-config-executed",
    "/proc/cmdline",
    "/sys/class/dmi/id/product_serial",
    BOOT_ID,
    TRIES,
    "/etc/cno/mtu-migration/config",
];

/// All files of these, not of folders below them.
const FOLDERS: [&str; 12] = [
    STAGING,
    DOCUMENTS,
    PROFILES,
    PROFILES_OF_BOOT,
    REPORTS,
    "/var/lib/brex-firstboot/attempt",
    "/run/nodeip-configuration",
    "/var/lib/ovnk",
    "/etc/ovnk",
    "/etc/NetworkManager/conf.d",
    "/etc/NetworkManager/dispatcher.d",
    "/proc/net/bonding",
];

const JOURNALS: [&str; 17] = [
    "brex-firstboot-recover",
    "brex-firstboot-stage",
    "brex-firstboot-confirm",
    "brex-firstboot-apply",
    "nmstate",
    "nmstate-configuration",
    "nodeip-configuration",
    "wait-for-node-ip",
    "wait-for-br-ex-up",
    "node-valid-hostname",
    "mtu-migration",
    "ovs-configuration",
    "NetworkManager",
    "NetworkManager-dispatcher",
    "openvswitch",
    "ovsdb-server",
    "ovs-vswitchd",
];

const COMMANDS: [(&str, &[&str]); 25] = [
    ("ip-address", &["ip", "-details", "address"]),
    ("ip-link", &["ip", "-details", "-statistics", "link"]),
    ("ip-route", &["ip", "route", "show", "table", "all"]),
    ("ip-6-route", &["ip", "-6", "route", "show", "table", "all"]),
    ("ip-rule", &["ip", "rule"]),
    ("ip-6-rule", &["ip", "-6", "rule"]),
    ("ip-neighbour", &["ip", "neighbour"]),
    ("nmcli-general", &["nmcli", "general"]),
    ("nmcli-device", &["nmcli", "--fields", "all", "device", "show"]),
    ("nmcli-connection", &["nmcli", "--fields", "all", "connection", "show"]),
    ("nmcli-lldp", &["nmcli", "device", "lldp"]),
    ("ovs-show", &["ovs-vsctl", "--timeout=10", "show"]),
    ("ovs-global", &["ovs-vsctl", "--timeout=10", "list", "Open_vSwitch"]),
    ("ovs-bridges", &["ovs-vsctl", "--timeout=10", "list", "Bridge"]),
    ("ovs-ports", &["ovs-vsctl", "--timeout=10", "list", "Port"]),
    ("ovs-interfaces", &["ovs-vsctl", "--timeout=10", "list", "Interface"]),
    ("ovs-ofports", &["ovs-ofctl", "--timeout=10", "show", "br-ex"]),
    ("ovs-bonds", &["ovs-appctl", "--timeout=10", "bond/show"]),
    ("boots", &["journalctl", "--list-boots", "--no-pager"]),
    ("hostname", &["hostname", "--fqdn"]),
    ("hostnamectl", &["hostnamectl"]),
    ("systemctl-units", &["systemctl", "list-units", "--all", "--no-pager", "--plain"]),
    ("systemctl-failed", &["systemctl", "status", "--failed", "--no-pager"]),
    ("systemctl-jobs", &["systemctl", "list-jobs", "--no-pager"]),
    ("boot-order", &["systemd-analyze", "critical-chain", "kubelet-dependencies.target"]),
];

pub(crate) fn gather(arguments: &GatherArguments) -> Result<()> {
    let disk = Disk::new(&arguments.place.root);
    let node = ThisNode::new()?;
    let mut sink = Sink::new(&arguments.out, "brex-firstboot")?;
    let program = format!("brex-firstboot {}", env!("CARGO_PKG_VERSION"));
    let mut index = Index::new(program, jiff::Timestamp::now().to_string(), node.hostname());
    let paths = paths(&disk);
    // A secret of a profile may occur in any log.
    let mut secrets = Secrets::default();
    for path in &paths {
        if let Ok(Some(bytes)) = disk.read(path) {
            secrets.learn(path, &bytes);
        }
    }
    let secrets = &secrets;
    for path in &paths {
        index.items.extend(file(&disk, path, secrets, &mut sink)?);
    }
    // Commands report on the running machine, not on a folder that represents another one.
    if arguments.place.root == Path::new("/") {
        index.items.push(state(&node, &mut sink)?);
        for (name, words) in COMMANDS {
            index.items.push(output(&format!("commands/{name}.txt"), words, secrets, &mut sink)?);
        }
        for unit in JOURNALS {
            let file = format!("journal/{unit}.log");
            index.items.push(output(&file, &journal(unit), secrets, &mut sink)?);
        }
    }
    index.finish(sink)
}

/// All files to collect.
fn paths(disk: &Disk) -> Vec<String> {
    let in_folder = |folder: &str| {
        let names = disk.names(folder).unwrap_or_default().into_iter();
        names.map(|name| format!("{folder}/{name}")).collect::<Vec<_>>()
    };
    let files = FILES.into_iter().map(str::to_owned);
    files.chain(FOLDERS.into_iter().flat_map(in_folder)).collect()
}

/// The journal of a unit over all boots: the first boot is rarely the current one. The marks of boots
/// and the limit keep it readable.
fn journal(unit: &str) -> [&str; 7] {
    [
        "journalctl",
        "--no-pager",
        "--output=short-iso-precise",
        "--lines",
        MOST_LINES,
        "--unit",
        unit,
    ]
}

/// A file of the node without its secrets; `None` if there is none.
fn file(disk: &Disk, path: &str, secrets: &Secrets, sink: &mut Sink) -> Result<Option<Item>> {
    if disk.path(path).is_dir() {
        return Ok(None);
    }
    match disk.read(path) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => {
            let file = format!("files{path}");
            sink.put(&file, &secrets.hide(path, &bytes))?;
            Ok(Some(Item::collected(&file, path)))
        }
        Err(error) => {
            let problem = format!("{:#}", anyhow::Error::from(error));
            Ok(Some(Item::missing(path, problem)))
        }
    }
}

/// What nmstate reports. Without the operator there is no NodeNetworkState.
fn state(node: &ThisNode, sink: &mut Sink) -> Result<Item> {
    let source = "the network state";
    match node.state() {
        Ok(state) => {
            let text = serde_json::to_vec_pretty(&state).context("writing the network state")?;
            sink.put(STATE, &text)?;
            Ok(Item::collected(STATE, source))
        }
        Err(error) => Ok(Item::missing(source, format!("{error:#}"))),
    }
}

fn output(file: &str, words: &[&str], secrets: &Secrets, sink: &mut Sink) -> Result<Item> {
    let source = words.join(" ");
    match run(words) {
        Ok((bytes, problem)) => {
            sink.put(file, &secrets.hide(file, &bytes))?;
            Ok(Item { file: Some(file.to_owned()), source, problem })
        }
        Err(error) => Ok(Item::missing(&source, format!("{error:#}"))),
    }
}

/// The output of a command, and the problem if it failed.
fn run(words: &[&str]) -> Result<(Vec<u8>, Option<String>)> {
    let (program, arguments) = words.split_first().context("a command has a name")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C")
        .spawn()
        .with_context(|| format!("running {program}"))?;
    let reader = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // Output that breaks off is as much as there is.
            let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
            bytes
        })
    };
    let out = reader(child.stdout.take().map(|stream| Box::new(stream) as _));
    let errors = reader(child.stderr.take().map(|stream| Box::new(stream) as _));
    let deadline = Instant::now() + PATIENCE;
    let problem = loop {
        match child.try_wait().context("waiting for a command")? {
            Some(status) if status.success() => break None,
            Some(status) => break Some(format!("ended with {status}")),
            None if Instant::now() >= deadline => {
                // It may end in this very moment.
                let _ = child.kill();
                let _ = child.wait();
                break Some(format!("did not end within {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut bytes = out.join().unwrap_or_default();
    bytes.extend(errors.join().unwrap_or_default());
    if bytes.len() > LARGEST {
        bytes.drain(..bytes.len() - LARGEST);
    }
    Ok((bytes, problem))
}
