//! Which workspace this is, and the numbers it has given out.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Workspace;
use crate::atomic_file::{self, Durability};
use crate::disk_error::{At, DiskError, unless_absent};

/// The random name of a workspace: 32 lowercase hex digits. Archives carry it,
/// so that those of two workspaces are not taken for one series.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid workspace id {0:?}: expected 32 lowercase hex digits")]
pub struct WorkspaceIdError(String);

/// The form that this program writes, and the newest it reads. Raised when an older program would
/// misread a workspace.
const FORMAT: u32 = 1;

/// The content of `working-dir/internal/workspace.json`. Numbers are assigned
/// once, even when the run no longer exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    /// The form of the workspace. That of the first versions is not written down.
    #[serde(default)]
    pub(crate) format: u32,
    pub(crate) id: WorkspaceId,
    pub(crate) last_run: u64,
    pub(crate) last_chunk: u32,
}

impl WorkspaceId {
    fn random() -> io::Result<Self> {
        let mut bytes = [0_u8; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

impl Workspace {
    /// This workspace's identity; created when there is none yet.
    pub(crate) fn identity(&self) -> Result<Identity, DiskError> {
        if let Some(identity) = self.known_identity()? {
            return Ok(identity);
        }
        let path = self.internal().join("workspace.json");
        let id = WorkspaceId::random().at("choosing an id for", &path)?;
        let identity = Identity { format: FORMAT, id, last_run: 0, last_chunk: 0 };
        self.save_identity(&identity, Durability::Now)?;
        Ok(identity)
    }

    /// This workspace's identity, if it has one.
    pub(crate) fn known_identity(&self) -> Result<Option<Identity>, DiskError> {
        let path = self.internal().join("workspace.json");
        let Some(text) = unless_absent(fs::read(&path)).at("reading", &path)? else {
            return Ok(None);
        };
        #[derive(Deserialize)]
        struct Form {
            #[serde(default)]
            format: u32,
        }
        // First, as later forms may have other fields.
        let form: Form =
            serde_json::from_slice(&text).map_err(io::Error::other).at("reading", &path)?;
        if form.format > FORMAT {
            let newer = format!(
                "the workspace was written by a newer version of oc-mirror (format {}, expected at most {FORMAT}): use that version",
                form.format
            );
            return Err(DiskError::new("reading", &path, io::Error::other(newer)));
        }
        serde_json::from_slice(&text).map_err(io::Error::other).at("reading", &path).map(Some)
    }

    /// Before something is written under a new number, the number is on the disk
    /// ([`Durability::Now`]): it must not be given out again after a power cut.
    pub(crate) fn save_identity(
        &self,
        identity: &Identity,
        durability: Durability,
    ) -> Result<(), DiskError> {
        let path = self.internal().join("workspace.json");
        let text = serde_json::to_vec_pretty(identity).map_err(io::Error::other);
        atomic_file::write(&path, &text.at("writing", &path)?, durability)
    }
}

impl FromStr for WorkspaceId {
    type Err = WorkspaceIdError;

    fn from_str(text: &str) -> Result<Self, WorkspaceIdError> {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 32 && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(WorkspaceIdError(text.to_owned()))
        }
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for WorkspaceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkspaceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_chosen_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let mut identity = workspace.identity().unwrap();
        identity.last_run = 7;
        workspace.save_identity(&identity, Durability::Now).unwrap();
        assert_eq!(workspace.identity().unwrap(), identity);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Workspace::open(other.path()).identity().unwrap().id, identity.id);
    }

    #[test]
    fn a_workspace_of_a_newer_version_is_refused_and_one_of_the_first_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let identity = workspace.identity().unwrap();
        let path = workspace.internal().join("workspace.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"format\": 1", "\"format\": 2")).unwrap();
        let error = workspace.known_identity().unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("newer version of oc-mirror (format 2"), "{source}");
        fs::write(&path, text.replace("\"format\": 1,", "")).unwrap();
        assert_eq!(workspace.identity().unwrap(), Identity { format: 0, ..identity });
    }

    #[test]
    fn ids_from_elsewhere_are_checked() {
        assert!("0123456789abcdef0123456789abcdef".parse::<WorkspaceId>().is_ok());
        for text in
            ["", "0123", "0123456789ABCDEF0123456789ABCDEF", "../456789abcdef0123456789abcdef01"]
        {
            assert!(text.parse::<WorkspaceId>().is_err(), "{text}");
        }
    }
}
