//! Power cuts and kills before every single change of the disk: the old network or the new one.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use first_boot::report::{Command, Ending, Entry};
use node_network::network_manager::ActiveProfile;
use node_network::{Aim, Cause, NetworkState, Observation, Outcome, Recovery};

use crate::disk::{Disk, Fuse};
use crate::layout::{ATTEMPT, DOCUMENTS, FLAG, PROFILES, STAGING};
use crate::node::{Change, Node};
use crate::prepare::Rules;
use crate::{apply, confirm, recover, stage};

const DOCUMENT: &str = "interfaces:
- {name: nic0, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
- {name: br-ex, type: ovs-bridge, state: up, bridge: {port: [{name: nic0}, {name: br-ex}]}}
- {name: br-ex, type: ovs-interface, state: up, copy-mac-from: nic0, ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}, ipv6: {enabled: false}}
";
const BEFORE: &str =
    "interfaces: [{name: nic0, type: ethernet, state: up, mac-address: '52:54:00:00:00:01'}]";
const OLD: [(&str, &str); 2] = [("lab.nmconnection", "lab"), ("nic0.nmconnection", "old")];
const NEW: [(&str, &str); 3] =
    [("br-ex-br.nmconnection", "new"), ("lab.nmconnection", "lab"), ("nic0.nmconnection", "new")];

/// A node whose NetworkManager writes profiles one by one, and loses power with its disk.
struct Fake {
    disk: Disk,
    good: bool,
}

impl Fake {
    /// What NetworkManager does when nmstate applies the document.
    fn write_new_profiles(&self) -> Result<()> {
        for (name, text) in NEW {
            self.disk.write(&format!("{PROFILES}/{name}"), text.as_bytes(), 0o600)?;
        }
        Ok(())
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
    fn use_profiles(&self, _: &[ActiveProfile]) -> Result<Vec<ActiveProfile>> {
        Ok(Vec::new())
    }
    fn observe(&self, _: &Aim, _: Duration) -> Observation {
        let unread = (!self.good).then(|| "as the test wants it".into());
        Observation { unread, ..Observation::default() }
    }
    fn change(&self, _: &Change<'_>) -> Outcome {
        let after = Observation::default();
        if self.write_new_profiles().is_ok() && self.good {
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
fn fuse(changes: usize) -> Fuse {
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

/// One boot as systemd runs it. Ends early when power goes.
fn boot(root: &Path, number: u32, way: Way, good: bool, changes: usize) -> Result<Ending> {
    let id = format!("boot-{number}");
    let node = Fake { disk: Disk::with_fuse(root, fuse(changes)), good };
    let disk = &node.disk;
    let rules =
        Rules { required: true, hostname: None, hostname_timeout: Duration::ZERO, tries: 1000 };
    let (aim, patience) = (Aim::default(), Duration::ZERO);
    let mut entry = Entry::new(Command::Stage, String::new());
    recover::recover(disk, &id, &mut entry)?;
    match way {
        Way::Applied => {
            apply::apply(disk, &node, &id, &rules, (&aim, patience), &mut entry)?;
        }
        Way::Staged => {
            stage::stage(disk, &node, &id, &rules, &mut entry)?;
            if disk.exists(&format!("{STAGING}/worker-0.yml")) && !disk.exists(FLAG) {
                node.write_new_profiles()?;
                disk.write("/etc/nmstate/worker-0.applied", DOCUMENT.as_bytes(), 0o600)?;
            }
            confirm::confirm(disk, &node, &id, &aim, patience, &mut entry)?;
        }
    }
    Ok(entry.result)
}

fn new_disk() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let disk = Disk::new(root.path());
    disk.write(&format!("{DOCUMENTS}/worker-0.yml"), DOCUMENT.as_bytes(), 0o644).unwrap();
    for (name, text) in OLD {
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

fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// What NetworkManager finds when it starts: all of the old, or all of the new.
fn check(root: &Path) -> Result<()> {
    let disk = Disk::new(root);
    let held = profiles(&disk);
    let drafts = |name: &str| name.starts_with(".brex-");
    let held: Vec<_> = held.into_iter().filter(|(name, _)| !drafts(name)).collect();
    let staged = disk.exists(&format!("{STAGING}/worker-0.yml"));
    match disk.read(FLAG)? {
        Some(flag) if flag == DOCUMENT.as_bytes() && held == owned(&NEW) => Ok(()),
        None if held == owned(&OLD) && !staged => Ok(()),
        flag => bail!("flag {flag:?}, staged {staged}, profiles {held:?}"),
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
                assert!(!disk.exists(ATTEMPT));
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
