//! Power failures and kills before every single change of the disk: the old network or the new one,
//! and what other programs configured meanwhile in either case.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use first_boot::report::{Command, Ending, Entry};
use node_network::network_manager::ActiveProfile;
use node_network::{Cause, ExpectedNetwork, NetworkState, Observation, Outcome, Recovery};

use crate::confirm::Waiting;
use crate::disk::{BeforeChange, Disk};
use crate::layout::{ATTEMPT, DISPATCHER, DOCUMENTS, FLAG, HOSTNAME, PROFILES, SETTINGS, STAGING};
use crate::node::{Change, Node};
use crate::prepare::Rules;
use crate::{apply, confirm, recover, stage};

const DOCUMENT: &str = "hostname: {config: worker-0.new}
ovs-db: {external_ids: {rack: '7'}}
interfaces:
- {name: nic0, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}, dispatch: {post-activation: 'logger up'}}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: nic0}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface, state: up, copy-mac-from: nic0, ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}, ipv6: {enabled: false}}
";
const BEFORE: &str = "hostname: {running: worker-0, config: worker-0}
ovs-db: {external_ids: {system-id: x}, other_config: {}}
interfaces: [{name: nic0, type: ethernet, state: up, mac-address: '52:54:00:00:00:01'}]";
const LAB: (&str, &str) =
    ("lab.nmconnection", "[connection]\nid=lab\nuuid=lab\ninterface-name=nic9\n");
const OLD_NIC: (&str, &str) =
    ("nic0.nmconnection", "[connection]\nid=nic0\nuuid=nic0\ninterface-name=nic0\n");
/// nmstate keeps the UUID of a profile that it changes.
const NEW_NIC: (&str, &str) =
    ("nic0.nmconnection", "[connection]\nid=nic0\nuuid=nic0\ninterface-name=nic0\nmaster=br-ex\n");
const BRIDGE: (&str, &str) =
    ("br-ex-br.nmconnection", "[connection]\nid=br-ex-br\nuuid=b\ninterface-name=br-ex\n");
/// What nmstate.service configures from another file in the same boot.
const STORAGE: (&str, &str) =
    ("storage.nmconnection", "[connection]\nid=storage\nuuid=s\ninterface-name=bond7\n");
const STORAGE_NOTE: &str = "/etc/nmstate/storage.applied";
const SCRIPT: &str = "nmstate-nic0-up.sh";

/// A node whose NetworkManager writes profiles one by one, and loses power with its disk.
struct Fake {
    disk: Disk,
    good: bool,
    /// How often settings of Open vSwitch were restored.
    settings: Cell<usize>,
}

impl Fake {
    /// What happens when nmstate applies the document, and another one first.
    fn apply_documents(&self) -> Result<()> {
        for (name, text) in [STORAGE, BRIDGE, NEW_NIC] {
            self.disk.write(&format!("{PROFILES}/{name}"), text.as_bytes(), 0o600)?;
            if name == STORAGE.0 {
                self.disk.write(STORAGE_NOTE, b"storage", 0o600)?;
            }
        }
        self.disk.write(&format!("{DISPATCHER}/{SCRIPT}"), b"logger up", 0o744)?;
        Ok(self.disk.write(HOSTNAME, b"worker-0.new\n", 0o644)?)
    }
}

impl Node for Fake {
    fn hostname(&self) -> String {
        "worker-0".into()
    }
    fn state(&self) -> Result<NetworkState> {
        Ok(NetworkState::new_from_yaml(BEFORE)?)
    }
    fn active_profiles(&self) -> Result<Vec<ActiveProfile>> {
        Ok(Vec::new())
    }
    fn use_profiles(
        &self,
        _: &[ActiveProfile],
        _: &BTreeSet<String>,
    ) -> Result<Vec<ActiveProfile>> {
        Ok(Vec::new())
    }
    fn restore_settings(&self, settings: &NetworkState) -> Result<()> {
        let settings = serde_json::to_value(settings)?;
        assert_eq!(settings["ovs-db"]["external_ids"]["rack"], serde_json::Value::Null);
        self.settings.set(self.settings.get() + 1);
        Ok(())
    }
    fn observe(&self, _: &ExpectedNetwork, _: Duration) -> Observation {
        let unread = (!self.good).then(|| "as the test requires".into());
        Observation { unread, ..Observation::default() }
    }
    fn change(&self, _: &Change<'_>) -> Outcome {
        let after = Observation::default();
        if self.apply_documents().is_ok() && self.good {
            return Outcome::Committed { after };
        }
        let (cause, recovery) = (Cause::Probes, Recovery::Works);
        Outcome::RolledBack { cause, message: "x".into(), after, recovery }
    }
    fn remove_stale_bridge(&self, _: &str) -> Result<bool> {
        Ok(false)
    }
}

/// Lets so many changes happen, then none.
fn fuse(changes: usize) -> BeforeChange {
    let mut left = changes;
    Box::new(move || {
        left = left.checked_sub(1).ok_or(io::ErrorKind::Other)?;
        Ok(())
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Staged,
    Applied,
}

/// One boot as systemd runs it. Ends early when power fails.
fn boot(root: &Path, number: u32, way: Way, good: bool, changes: usize) -> Result<Ending> {
    let id = format!("boot-{number}");
    let disk = Disk::with_fuse(root, fuse(changes));
    let node = Fake { disk, good, settings: Cell::new(0) };
    let disk = &node.disk;
    let rules =
        Rules { required: true, hostname: None, hostname_timeout: Duration::ZERO, tries: 1000 };
    let waiting = Waiting::default();
    let mut entry = Entry::new(Command::Stage, String::new());
    recover::recover(disk, &id, &mut entry)?;
    match way {
        Way::Applied => {
            apply::apply(disk, &node, &id, &rules, &waiting, &mut entry)?;
        }
        Way::Staged => {
            stage::stage(disk, &node, &id, &rules, &mut entry)?;
            if disk.exists(&format!("{STAGING}/worker-0.yml")) && !disk.exists(FLAG) {
                node.apply_documents()?;
                disk.write("/etc/nmstate/worker-0.applied", DOCUMENT.as_bytes(), 0o600)?;
            }
            confirm::confirm(disk, &node, &id, &waiting, &mut entry)?;
        }
    }
    Ok(entry.result)
}

fn new_disk() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let disk = Disk::new(root.path());
    disk.write(&format!("{DOCUMENTS}/worker-0.yml"), DOCUMENT.as_bytes(), 0o644).unwrap();
    disk.write(HOSTNAME, b"worker-0\n", 0o644).unwrap();
    for (name, text) in [LAB, OLD_NIC] {
        disk.write(&format!("{PROFILES}/{name}"), text.as_bytes(), 0o600).unwrap();
    }
    root
}

fn profiles(disk: &Disk) -> Vec<(String, String)> {
    let read = |name: String| {
        let bytes = disk.read(&format!("{PROFILES}/{name}")).unwrap().unwrap();
        (name, String::from_utf8(bytes).unwrap())
    };
    disk.names(PROFILES).unwrap().into_iter().map(read).collect()
}

/// What NetworkManager finds when it starts: all of the old, or all of the new; and in either case
/// what others configured.
fn check(root: &Path) -> Result<()> {
    let disk = Disk::new(root);
    let held: Vec<(String, String)> = profiles(&disk);
    let held: Vec<(&str, &str)> = held
        .iter()
        .filter(|(name, _)| !name.starts_with(".brex-") && name != STORAGE.0)
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let script = disk.exists(&format!("{DISPATCHER}/{SCRIPT}"));
    let hostname = disk.read(HOSTNAME)?.unwrap_or_default();
    let staged = disk.exists(&format!("{STAGING}/worker-0.yml"));
    // A note of nmstate without its profiles would keep them from ever being created.
    let storage = disk.exists(&format!("{PROFILES}/{}", STORAGE.0));
    if disk.exists(STORAGE_NOTE) && !storage {
        bail!("the profile of another document is gone, and its note stays");
    }
    match disk.read(FLAG)? {
        Some(flag) if flag == DOCUMENT.as_bytes() && held == [BRIDGE, LAB, NEW_NIC] && script => {
            Ok(())
        }
        None if held == [LAB, OLD_NIC] && !staged && !script && hostname == b"worker-0\n" => Ok(()),
        flag => bail!(
            "flag {flag:?}, staged {staged}, script {script}, host name {hostname:?}, profiles {held:?}"
        ),
    }
}

#[test]
fn power_may_go_before_any_change_of_the_disk() {
    for way in [Way::Staged, Way::Applied] {
        for good in [true, false] {
            let mut changes = 0;
            loop {
                let root = new_disk();
                let ended = boot(root.path(), 1, way, good, changes);
                // The next boot, up to where NetworkManager starts.
                let disk = Disk::new(root.path());
                let mut entry = Entry::new(Command::Recover, String::new());
                recover::recover(&disk, "boot-2", &mut entry).unwrap();
                check(root.path()).unwrap_or_else(|error| {
                    panic!("{way:?}, good {good}, power gone after {changes} changes: {error}")
                });
                // And the whole of it.
                let result = boot(root.path(), 2, way, good, usize::MAX).unwrap();
                check(root.path()).unwrap();
                assert_eq!(disk.exists(FLAG), good, "{way:?} {changes} {result:?}");
                assert!(!disk.exists(ATTEMPT) && !disk.exists(SETTINGS));
                if ended.is_ok() {
                    break;
                }
                changes += 1;
            }
            assert!(changes > 5, "{way:?}, good {good}: the fuse never blew");
        }
    }
}

#[test]
fn a_command_that_was_killed_is_finished_by_running_it_again_in_the_same_boot() {
    for way in [Way::Staged, Way::Applied] {
        for good in [true, false] {
            let mut changes = 0;
            loop {
                let root = new_disk();
                let ended = boot(root.path(), 1, way, good, changes);
                if ended.is_err() || good {
                    boot(root.path(), 1, way, good, usize::MAX).unwrap();
                }
                check(root.path()).unwrap_or_else(|error| {
                    panic!("{way:?}, good {good}, killed after {changes} changes: {error}")
                });
                assert_eq!(Disk::new(root.path()).exists(FLAG), good);
                if ended.is_ok() {
                    break;
                }
                changes += 1;
            }
        }
    }
}

#[test]
fn a_confirmed_node_is_left_alone_by_every_command() {
    let root = new_disk();
    boot(root.path(), 1, Way::Staged, true, usize::MAX).unwrap();
    for way in [Way::Staged, Way::Applied] {
        // Not a single change is allowed.
        assert_eq!(boot(root.path(), 2, way, false, 0).unwrap(), Ending::NothingToDo);
        check(root.path()).unwrap();
    }
}

#[test]
fn settings_of_open_vswitch_are_restored_once_and_those_of_a_lost_boot_in_the_next() {
    let root = new_disk();
    let disk = Disk::new(root.path());
    let node = Fake { disk: Disk::new(root.path()), good: false, settings: Cell::new(0) };
    let rules =
        Rules { required: true, hostname: None, hostname_timeout: Duration::ZERO, tries: 9 };
    let mut entry = Entry::new(Command::Stage, String::new());
    stage::stage(&disk, &node, "boot-1", &rules, &mut entry).unwrap();
    node.apply_documents().unwrap();
    confirm::confirm(&disk, &node, "boot-1", &Waiting::default(), &mut entry).unwrap();
    assert_eq!(node.settings.get(), 1, "{entry:?}");

    stage::stage(&disk, &node, "boot-2", &rules, &mut entry).unwrap();
    node.apply_documents().unwrap();
    // Power fails. Open vSwitch does not run yet when `recover` does.
    recover::recover(&disk, "boot-3", &mut entry).unwrap();
    assert_eq!((node.settings.get(), disk.exists(SETTINGS)), (1, true));
    stage::stage(&disk, &node, "boot-3", &rules, &mut entry).unwrap();
    assert_eq!((node.settings.get(), disk.exists(SETTINGS)), (2, false));
}

/// Power fails after the flag and before the attempt has ended; later boots skip `confirm`.
#[test]
fn an_attempt_that_was_confirmed_does_not_stay_on_the_disk() {
    let root = new_disk();
    boot(root.path(), 1, Way::Staged, true, usize::MAX).unwrap();
    let disk = Disk::new(root.path());
    disk.write(&format!("{ATTEMPT}/attempt.json"), b"{}", 0o600).unwrap();
    let mut entry = Entry::new(Command::Recover, String::new());
    recover::recover(&disk, "boot-2", &mut entry).unwrap();
    assert!(!disk.exists(ATTEMPT));
    check(root.path()).unwrap();
}
