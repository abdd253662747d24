//! What differs between two versions of a MachineConfig, in the terms of the node that gets it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::file::{File, FilePath};
use crate::machine_config::MachineConfig;
use crate::unit::Unit;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    File {
        path: FilePath,
        what: FileChange,
    },
    Unit {
        name: String,
    },
    SshKeys,
    PasswordHash,
    System(Setting),
    /// A part of Ignition that is used when a machine is installed and never again.
    InstallOnly(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileChange {
    Added,
    Removed,
    Contents,
    /// Permissions, owner, or whether it may be overwritten.
    Attributes,
    /// The same bytes, written in another way.
    Encoding,
}

/// A setting of the operating system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    Image,
    KernelArguments,
    KernelType,
    Extensions,
    Fips,
    /// A field of the spec that is newer than this program.
    Other(String),
}

/// All differences, sorted. None when the two mean the same.
pub fn difference(old: &MachineConfig, new: &MachineConfig) -> Vec<Change> {
    let mut changes = Vec::new();
    files(&old.files, &new.files, &mut changes);
    units(&old.units, &new.units, &mut changes);
    system(old, new, &mut changes);
    sections(old, new, &mut changes);
    changes.sort();
    changes.dedup();
    changes
}

fn files(old: &[File], new: &[File], changes: &mut Vec<Change>) {
    fn by_path(files: &[File]) -> BTreeMap<&FilePath, &File> {
        files.iter().map(|file| (&file.path, file)).collect()
    }
    let (old, new) = (by_path(old), by_path(new));
    for (path, before) in &old {
        let what = match new.get(path) {
            None => FileChange::Removed,
            Some(after) if after == before => continue,
            Some(after) if after.contents.bytes() != before.contents.bytes() => {
                FileChange::Contents
            }
            Some(after) => {
                let mut written_alike = (*after).clone();
                written_alike.contents = before.contents.clone();
                if written_alike == **before {
                    FileChange::Encoding
                } else {
                    FileChange::Attributes
                }
            }
        };
        changes.push(Change::File { path: (*path).clone(), what });
    }
    for path in new.keys().filter(|path| !old.contains_key(*path)) {
        changes.push(Change::File { path: (*path).clone(), what: FileChange::Added });
    }
}

fn units(old: &[Unit], new: &[Unit], changes: &mut Vec<Change>) {
    fn by_name(units: &[Unit]) -> BTreeMap<&str, &Unit> {
        units.iter().map(|unit| (unit.name.as_str(), unit)).collect()
    }
    let (old, new) = (by_name(old), by_name(new));
    for name in old.keys().chain(new.keys()) {
        if old.get(name) != new.get(name) {
            changes.push(Change::Unit { name: (*name).to_owned() });
        }
    }
}

fn system(old: &MachineConfig, new: &MachineConfig, changes: &mut Vec<Change>) {
    let (before, after) = (&old.os, &new.os);
    let image = |os: &crate::OperatingSystem| (os.image.clone(), os.extensions_image.clone());
    let settings = [
        (image(before) != image(after), Setting::Image),
        (before.kernel_arguments != after.kernel_arguments, Setting::KernelArguments),
        (before.kernel_type != after.kernel_type, Setting::KernelType),
        (before.extensions != after.extensions, Setting::Extensions),
        (before.fips.unwrap_or(false) != after.fips.unwrap_or(false), Setting::Fips),
    ];
    let changed = settings.into_iter().filter(|(differs, _)| *differs);
    changes.extend(changed.map(|(_, setting)| Change::System(setting)));
    for key in old.spec_rest.keys().chain(new.spec_rest.keys()) {
        if old.spec_rest.get(key) != new.spec_rest.get(key) {
            changes.push(Change::System(Setting::Other(key.clone())));
        }
    }
}

/// Ignition's other sections. The version is not a difference: the operator converts it.
fn sections(old: &MachineConfig, new: &MachineConfig, changes: &mut Vec<Change>) {
    let (before, after) = (&old.ignition_rest, &new.ignition_rest);
    for key in before.keys().chain(after.keys()) {
        let (old, new) = (before.get(key), after.get(key));
        if old == new {
            continue;
        }
        if key != "passwd" {
            changes.push(Change::InstallOnly(key.clone()));
            continue;
        }
        let (old, new) = (Users::of(old), Users::of(new));
        if old.rest != new.rest {
            changes.push(Change::InstallOnly(key.clone()));
        }
        if old.ssh_keys != new.ssh_keys {
            changes.push(Change::SshKeys);
        }
        if old.password_hashes != new.password_hashes {
            changes.push(Change::PasswordHash);
        }
    }
}

/// The section of users, by what a running node takes over from it.
struct Users {
    ssh_keys: Vec<Option<Value>>,
    password_hashes: Vec<Option<Value>>,
    rest: Value,
}

impl Users {
    fn of(section: Option<&Value>) -> Self {
        let mut rest = section.cloned().unwrap_or_default();
        let (mut ssh_keys, mut password_hashes) = (Vec::new(), Vec::new());
        if let Some(Value::Array(users)) = rest.get_mut("users") {
            for user in users.iter_mut().filter_map(Value::as_object_mut) {
                ssh_keys.push(user.remove("sshAuthorizedKeys"));
                password_hashes.push(user.remove("passwordHash"));
            }
            // A user of whom nothing but the name is left is one that every node has.
            users.retain(|user| user.as_object().is_none_or(|user| user.len() > 1));
        }
        let is_empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
        if let Some(map) = rest.as_object_mut() {
            map.retain(|_, value| !is_empty(value));
        }
        if rest.as_object().is_some_and(serde_json::Map::is_empty) {
            rest = Value::Null;
        }
        ssh_keys.retain(Option::is_some);
        password_hashes.retain(Option::is_some);
        Self { ssh_keys, password_hashes, rest }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, what } => write!(f, "file {path}: {what}"),
            Self::Unit { name } => write!(f, "unit {name} changed"),
            Self::SshKeys => f.write_str("SSH keys changed"),
            Self::PasswordHash => f.write_str("a password hash changed"),
            Self::System(setting) => write!(f, "{setting} changed"),
            Self::InstallOnly(section) => write!(f, "Ignition's section `{section}` changed"),
        }
    }
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Contents => "contents changed",
            Self::Attributes => "permissions or owner changed",
            Self::Encoding => "the same contents, encoded in another way",
        })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image => f.write_str("the OS image"),
            Self::KernelArguments => f.write_str("kernel arguments"),
            Self::KernelType => f.write_str("the kernel type"),
            Self::Extensions => f.write_str("extensions"),
            Self::Fips => f.write_str("FIPS mode"),
            Self::Other(field) => write!(f, "`spec.{field}`"),
        }
    }
}
