//! A file that a MachineConfig writes to its nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::contents::{Contents, ContentsError, Encoding};
use crate::file_mode::{FileMode, FileModeError};

/// The longest path that Linux opens.
const MAX_PATH: usize = 4096;

/// An absolute path without `.`, `..`, empty parts or a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePath(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path of a file: write it from the root, without `.`, `..` and `//`")]
pub struct FilePathError(String);

/// A file: where, with which permissions, and what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    pub path: FilePath,
    pub mode: Option<FileMode>,
    pub overwrite: Option<bool>,
    pub contents: Contents,
    /// Whatever else is written of it: owner, group, verification, the filesystem of version 2.
    rest: BTreeMap<String, Value>,
    /// Whatever else is written of its contents.
    contents_rest: BTreeMap<String, Value>,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("its entry cannot be read")]
    Shape(#[source] serde_json::Error),
    #[error(transparent)]
    Path(#[from] FilePathError),
    #[error("{path}")]
    FileMode { path: FilePath, source: FileModeError },
    #[error("{path}")]
    Contents { path: FilePath, source: ContentsError },
    #[error(
        "{0} is appended to, which the machine config operator does not support; write the whole \
         file in `contents`"
    )]
    Append(FilePath),
}

#[derive(Deserialize)]
struct Raw {
    path: String,
    mode: Option<Value>,
    overwrite: Option<bool>,
    append: Option<Value>,
    contents: Option<RawContents>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
struct RawContents {
    source: Option<String>,
    compression: Option<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

impl FilePath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The path below some other folder than the root. It stays below it.
    pub fn below(&self, folder: &Path) -> PathBuf {
        folder.join(self.0.trim_start_matches('/'))
    }

    /// Whether it is `folder`, or somewhere below it.
    pub fn is_within(&self, folder: &str) -> bool {
        let folder = folder.trim_end_matches('/');
        self.0.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for FilePath {
    type Err = FilePathError;

    fn from_str(text: &str) -> Result<Self, FilePathError> {
        let refused = || FilePathError(text.chars().take(200).collect());
        let parts = text.strip_prefix('/').ok_or_else(refused)?;
        let is_part = |part: &str| {
            let mut components = Path::new(part).components();
            matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
                && !part.contains(|c: char| c.is_control())
        };
        match text.len() < MAX_PATH && parts.split('/').all(is_part) {
            true => Ok(Self(text.to_owned())),
            false => Err(refused()),
        }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl File {
    /// A file that all users may read and only root may write.
    pub fn new(path: FilePath, bytes: &[u8], encoding: Encoding) -> Self {
        Self {
            path,
            mode: Some(FileMode::READABLE),
            overwrite: Some(true),
            contents: Contents::new(bytes, encoding),
            rest: BTreeMap::new(),
            contents_rest: BTreeMap::new(),
        }
    }

    pub(crate) fn from_value(value: &Value) -> Result<Self, FileError> {
        let raw = Raw::deserialize(value).map_err(FileError::Shape)?;
        let path: FilePath = raw.path.parse()?;
        let is_set = |value: &Value| match value {
            Value::Bool(set) => *set,
            Value::Array(list) => !list.is_empty(),
            _ => true,
        };
        if raw.append.as_ref().is_some_and(is_set) {
            return Err(FileError::Append(path));
        }
        let mode = raw.mode.as_ref().map(FileMode::from_value).transpose();
        let mode = mode.map_err(|source| FileError::FileMode { path: path.clone(), source })?;
        let RawContents { source, compression, rest: contents_rest } =
            raw.contents.unwrap_or_default();
        let contents = Contents::parse(source.as_deref(), compression.as_deref())
            .map_err(|source| FileError::Contents { path: path.clone(), source })?;
        let overwrite = raw.overwrite;
        Ok(Self { path, mode, overwrite, contents, rest: raw.rest, contents_rest })
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut contents = json!(self.contents_rest);
        if let Some(compression) = self.contents.compression() {
            contents["compression"] = json!(compression);
        }
        if let Some(source) = self.contents.source() {
            contents["source"] = json!(source);
        }
        let mut file = json!(self.rest);
        file["contents"] = contents;
        if let Some(mode) = self.mode {
            file["mode"] = json!(mode.bits());
        }
        if let Some(overwrite) = self.overwrite {
            file["overwrite"] = json!(overwrite);
        }
        file["path"] = json!(self.path.as_str());
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_folder_it_is_put_under() {
        let path: FilePath = "/etc/nmstate/openshift/cluster.yml".parse().unwrap();
        assert_eq!(path.file_name(), "cluster.yml");
        assert_eq!(
            path.below(Path::new("out")),
            Path::new("out/etc/nmstate/openshift/cluster.yml"),
        );
        for bad in ["", "etc/x", "/", "/a/../b", "/a/./b", "/a//b", "/a/", "/a/..", "/a\nb", "/a\0"]
        {
            assert!(bad.parse::<FilePath>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn within_a_folder_is_by_whole_parts() {
        let path: FilePath = "/etc/nmstate/openshift/cluster.yml".parse().unwrap();
        for folder in ["/etc/nmstate/openshift", "/etc/", "/", "/etc/nmstate/openshift/cluster.yml"]
        {
            assert!(path.is_within(folder), "{folder}");
        }
        for folder in ["/etc/nmstate/open", "/etc/nmstate/openshift/cluster", "/var"] {
            assert!(!path.is_within(folder), "{folder}");
        }
    }

    #[test]
    fn what_is_not_understood_of_a_file_is_kept() {
        let value = json!({
            "path": "/etc/x", "mode": 384, "user": {"name": "core"}, "filesystem": "root",
            "contents": {"source": "data:,x", "verification": {"hash": "sha512-0"}},
        });
        assert_eq!(File::from_value(&value).unwrap().to_value(), value);
    }

    #[test]
    fn what_cannot_be_put_on_a_node_is_refused() {
        for (value, expected) in [
            (json!({"path": "x"}), "\"x\" is not a path of a file"),
            (json!({"path": "/x", "append": [{"source": "data:,x"}]}), "/x is appended to"),
            (json!({"path": "/x", "append": true}), "/x is appended to"),
            (json!({"mode": 420}), "its entry cannot be read"),
        ] {
            let error = File::from_value(&value).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        // Version 2 writes these for files that are not appended to.
        assert!(File::from_value(&json!({"path": "/x", "append": false})).is_ok());
        assert!(File::from_value(&json!({"path": "/x", "append": []})).is_ok());
    }
}
