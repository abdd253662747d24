//! Files of Go modules that tests read: the CRDs of other projects, in exact versions.
//!
//! They are stored beside the tools, in `<name>-<version>/`, in the same folders as in their module.
//! A test requests a [`path`] and fails with the command to run if the files are missing;
//! `cargo xtask tools` [downloads](download) them. The content is pinned by the checksum that Go
//! uses in `go.sum`.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::Cache;

/// YAML files in some folders of a Go module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleFiles {
    /// Name of the folder in the cache.
    pub name: &'static str,
    /// Path of the module.
    pub module: &'static str,
    /// Exact version, without the leading `v`.
    pub version: &'static str,
    /// Checksum of the module's content, as in a `go.sum`.
    pub sum: &'static str,
    /// Folders whose `*.yaml` files are kept.
    pub folders: &'static [&'static str],
    /// What they are for, in a few words.
    pub purpose: &'static str,
}

/// The types of OpenShift. Those that are not in the payload (ClusterVersion and others from the
/// repository of the cluster-version operator or of another operator) are in the folders of the API
/// groups.
pub const OPENSHIFT_API: &ModuleFiles = &ModuleFiles {
    name: "openshift-api",
    module: "github.com/openshift/api",
    version: "0.0.0-20260105154426-319dc2e49203",
    sum: "h1:7hlJcngwAd/hLtU+CkkgWs7liQ7lNjbb+DE1A1W5hOI=",
    folders: &[
        "payload-manifests/crds",
        "config/v1/zz_generated.crd-manifests",
        "operator/v1/zz_generated.crd-manifests",
    ],
    purpose: "CRDs of OpenShift",
};

/// The types of the Operator Lifecycle Manager.
pub const OLM_API: &ModuleFiles = &ModuleFiles {
    name: "operator-framework-api",
    module: "github.com/operator-framework/api",
    version: "0.45.0",
    sum: "h1:hkROwtsLH3oszp4IW+WsXEFSDgveSahHI7DKStOtrUI=",
    folders: &["crds"],
    purpose: "CRDs of the Operator Lifecycle Manager",
};

/// The types of cluster monitoring.
pub const MONITORING_API: &ModuleFiles = &ModuleFiles {
    name: "prometheus-operator",
    module: "github.com/prometheus-operator/prometheus-operator",
    version: "0.85.0",
    sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    folders: &["example/prometheus-operator-crd"],
    purpose: "CRDs of cluster monitoring",
};

/// All files that tests read.
pub const ALL: [&ModuleFiles; 3] = [OPENSHIFT_API, OLM_API, MONITORING_API];

impl fmt::Display for ModuleFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Files that cannot be used or downloaded.
#[derive(thiserror::Error)]
pub enum Error {
    #[error(
        "the files of {files} are missing: there is no {}; run `cargo xtask tools`, which downloads missing files",
        path.display()
    )]
    Missing { files: &'static ModuleFiles, path: PathBuf },
    #[error("finding the files of a Go module: {0}")]
    Cache(#[from] crate::Error),
    #[error("downloading {files}: {}", path.display())]
    Io { files: &'static ModuleFiles, path: PathBuf, source: io::Error },
    #[error("downloading {files}: cannot start `go`; is it installed and on the PATH?")]
    Start { files: &'static ModuleFiles, source: io::Error },
    #[error("downloading {files}: `go mod download` ended with {status}: {message}")]
    Failed { files: &'static ModuleFiles, status: ExitStatus, message: String },
    #[error("downloading {files}: expected the field {field} in the output of Go, found {output}")]
    Output { files: &'static ModuleFiles, field: &'static str, output: String },
    #[error("downloading {files}: expected the checksum {}, found {found}", files.sum)]
    Checksum { files: &'static ModuleFiles, found: String },
    #[error("downloading {files}: the module has no *.yaml file in {folder}")]
    Empty { files: &'static ModuleFiles, folder: &'static str },
}

/// The message itself, as most callers are tests that unwrap.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The files in the user's cache. The error names the command that downloads them.
pub fn path(files: &'static ModuleFiles) -> Result<PathBuf, Error> {
    find(&Cache::of_user()?, files)
}

/// The files in `cache`.
pub fn find(cache: &Cache, files: &'static ModuleFiles) -> Result<PathBuf, Error> {
    let path = cache.root().join(format!("{}-{}", files.name, files.version));
    if path.is_dir() { Ok(path) } else { Err(Error::Missing { files, path }) }
}

/// Downloads the files unless they are in `cache`, and returns their folder.
///
/// An interrupted download leaves nothing that could be mistaken for the files.
pub fn download(cache: &Cache, files: &'static ModuleFiles) -> Result<PathBuf, Error> {
    let target = match find(cache, files) {
        Err(Error::Missing { path, .. }) => path,
        found => return found,
    };
    let root = cache.root();
    fs::create_dir_all(root).map_err(failed(files, root))?;
    // In the same filesystem as the target, for the rename.
    let temporary = tempfile::tempdir_in(root).map_err(failed(files, root))?;
    let module = module(files, temporary.path())?;
    let content = temporary.path().join("content");
    copy(files, &module, &content)?;
    match fs::rename(&content, &target) {
        // Another process was faster; both have the same content.
        Err(_) if target.is_dir() => Ok(target),
        renamed => renamed.map_err(failed(files, &target)).map(|()| target),
    }
}

/// Downloads the module into the cache of Go, and checks that it is the pinned content.
fn module(files: &'static ModuleFiles, working_directory: &Path) -> Result<PathBuf, Error> {
    let output = Command::new("go")
        .args(["mod", "download", "-json"])
        .arg(format!("{}@v{}", files.module, files.version))
        .current_dir(working_directory)
        // Settings of a surrounding module must not apply.
        .envs([("GOWORK", "off"), ("GOFLAGS", "")])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Start { files, source })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let printed = text(&output.stdout);
    if !output.status.success() {
        // Go reports some failures on one stream, some on the other.
        let message = format!("{} {printed}", text(&output.stderr));
        return Err(Error::Failed { files, status: output.status, message });
    }
    let field = |field| {
        string(&printed, field).ok_or_else(|| Error::Output {
            files,
            field,
            output: printed.clone(),
        })
    };
    let found = field("Sum")?;
    if found != files.sum {
        return Err(Error::Checksum { files, found: found.to_owned() });
    }
    Ok(field("Dir")?.into())
}

/// A text field of the flat JSON object that Go prints with one field per line. Text with escapes
/// is not expected in checksums and paths, and counts as missing.
fn string<'a>(json: &'a str, field: &str) -> Option<&'a str> {
    let start = format!("\"{field}\": \"");
    let value = json.lines().find_map(|line| line.trim().strip_prefix(&start))?;
    let value = value.trim_end_matches(',').strip_suffix('"')?;
    (!value.contains(['\\', '"'])).then_some(value)
}

/// Copies the chosen files; those of Go's cache are read-only.
fn copy(files: &'static ModuleFiles, module: &Path, to: &Path) -> Result<(), Error> {
    for folder in files.folders {
        let (source, target) = (module.join(folder), to.join(folder));
        fs::create_dir_all(&target).map_err(failed(files, &target))?;
        let mut copied = 0;
        for entry in fs::read_dir(&source).map_err(failed(files, &source))? {
            let path = entry.map_err(failed(files, &source))?.path();
            let (true, Some(name)) =
                (path.extension() == Some(OsStr::new("yaml")), path.file_name())
            else {
                continue;
            };
            let content = fs::read(&path).map_err(failed(files, &path))?;
            fs::write(target.join(name), content).map_err(failed(files, &target))?;
            copied += 1;
        }
        if copied == 0 {
            return Err(Error::Empty { files, folder });
        }
    }
    Ok(())
}

fn failed(files: &'static ModuleFiles, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { files, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_an_error_that_names_the_command_which_downloads_them() {
        let dir = tempfile::tempdir().unwrap();
        let error = find(&Cache::new(dir.path(), None), OLM_API).unwrap_err().to_string();
        assert!(error.starts_with("the files of operator-framework-api 0.45.0 are"), "{error}");
        assert!(error.contains("cargo xtask tools"), "{error}");
    }

    #[test]
    fn existing_files_are_not_downloaded_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("operator-framework-api-0.45.0");
        fs::create_dir(&folder).unwrap();
        assert_eq!(download(&Cache::new(dir.path(), None), OLM_API).unwrap(), folder);
    }

    #[test]
    fn the_fields_of_gos_output_are_read_and_escaped_text_is_not() {
        let output =
            "{\n\t\"Path\": \"a/b\",\n\t\"Dir\": \"/go/a\\u003cb\",\n\t\"Sum\": \"h1:x=\"\n}";
        assert_eq!(string(output, "Path"), Some("a/b"));
        assert_eq!(string(output, "Sum"), Some("h1:x="));
        assert_eq!(string(output, "Dir"), None);
        assert_eq!(string(output, "Error"), None);
    }

    #[test]
    fn yaml_files_are_copied_with_their_folders_and_an_empty_folder_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        const FILES: &ModuleFiles = &ModuleFiles { folders: &["a/crds"], ..*OLM_API };
        let module = dir.path().join("module");
        fs::create_dir_all(module.join("a/crds")).unwrap();
        fs::write(module.join("a/crds/doc.go"), "package crds").unwrap();
        let to = dir.path().join("content");
        let error = copy(FILES, &module, &to).unwrap_err();
        assert!(matches!(error, Error::Empty { folder: "a/crds", .. }), "{error}");
        fs::write(module.join("a/crds/one.yaml"), "one").unwrap();
        copy(FILES, &module, &to).unwrap();
        assert_eq!(fs::read(to.join("a/crds/one.yaml")).unwrap(), b"one");
        assert!(!to.join("a/crds/doc.go").exists());
    }

    #[test]
    fn every_module_has_a_pinned_version_and_a_checksum() {
        for files in ALL {
            let numbers = files.version.split(['.', '-']).next().unwrap();
            assert!(numbers.parse::<u32>().is_ok(), "{files}");
            // SHA-256 in base64.
            let hash = files.sum.strip_prefix("h1:").unwrap();
            assert!(hash.len() == 44 && hash.ends_with('='), "{files}: {hash}");
        }
    }
}
