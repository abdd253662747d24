//! Which kubeconfig is used, by the rules of kubectl.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kube::config::{Kubeconfig, KubeconfigError};

use crate::failure::ConnectError;

/// Where a kubeconfig is searched.
#[derive(Debug, Clone, Copy)]
pub struct KubeconfigPaths<'a> {
    /// Named by a flag.
    pub named: Option<&'a Path>,
    /// Used without a flag: [`default_paths`].
    pub default: &'a [PathBuf],
}

/// The paths in `KUBECONFIG`, or `.kube/config` in the home directory.
pub fn default_paths(variable: Option<&OsStr>, home: Option<&OsStr>) -> Vec<PathBuf> {
    let named = variable.into_iter().flat_map(std::env::split_paths);
    let named: Vec<PathBuf> = named.filter(|path| !path.as_os_str().is_empty()).collect();
    match (named.is_empty(), home) {
        (true, Some(home)) => vec![Path::new(home).join(".kube/config")],
        _ => named,
    }
}

impl KubeconfigPaths<'_> {
    pub(crate) fn read(&self) -> Result<Kubeconfig, ConnectError> {
        if let Some(path) = self.named {
            return read(path);
        }
        // kubectl ignores missing files as well.
        let mut merged: Option<Kubeconfig> = None;
        for path in self.default.iter().filter(|path| path.exists()) {
            let next = read(path)?;
            merged = Some(match merged {
                None => next,
                Some(merged) => {
                    merged.merge(next).map_err(|error| ConnectError::Unusable(error.to_string()))?
                }
            });
        }
        merged.ok_or_else(|| ConnectError::NoKubeconfig { searched: self.default.to_vec() })
    }
}

fn read(path: &Path) -> Result<Kubeconfig, ConnectError> {
    Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(source, path) => ConnectError::Read { path, source },
        // The content may be a password, so only the location is repeated.
        KubeconfigError::Parse(error) => ConnectError::Malformed {
            path: path.to_owned(),
            cause: error.location().map_or_else(
                || "it cannot be parsed".to_owned(),
                |place| {
                    format!(
                        "it cannot be parsed at line {}, column {}",
                        place.line(),
                        place.column()
                    )
                },
            ),
        },
        error => ConnectError::Malformed { path: path.to_owned(), cause: error.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_before_the_home_directory() {
        let home = Some(OsStr::new("/home/u"));
        assert_eq!(default_paths(None, home), [PathBuf::from("/home/u/.kube/config")]);
        assert_eq!(
            default_paths(Some(OsStr::new("/a::/b")), home),
            [PathBuf::from("/a"), PathBuf::from("/b")]
        );
        assert_eq!(default_paths(Some(OsStr::new("")), home).len(), 1);
        assert!(default_paths(None, None).is_empty());
    }

    #[test]
    fn a_malformed_kubeconfig_is_reported_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        std::fs::write(&path, "users:\n- name: u\n  user: {token: s3cret, token: [\n").unwrap();
        let paths = KubeconfigPaths { named: Some(&path), default: &[] };
        let text = paths.read().unwrap_err().to_string();
        assert!(text.contains("is not a kubeconfig") && text.contains("line 3"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}
