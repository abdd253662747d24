//! Programs and root file systems that the tests and the benchmarks need: the exact version of each,
//! how it is built, and where it is stored.
//!
//! A program is built once per version and user, below
//! `${XDG_CACHE_HOME:-~/.cache}/landfall/tools/<name>-<version>/`. Tests never build a tool: they
//! request its [`path`] and fail with the command to run if it is missing. `cargo xtask tools`
//! [`builds`](build) them, through this crate's program.

mod build;
mod initrd;
pub mod machine_image;
pub mod module_files;
mod packages;
mod tool;
pub mod tree;

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub use build::{BuildError, build, build_for};
pub use packages::{
    DIST_PACKAGES, MACHINE_PACKAGES, PACKAGES, Package, is_installed, missing_packages,
};
use tool::Source;
pub use tool::{Need, Recipe, Tool};

/// Where the tools are.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    kubernetes: Option<PathBuf>,
}

/// A tool that cannot be used.
#[derive(thiserror::Error)]
pub enum Error {
    #[error(
        "{tool} is not built: there is no {}; run `cargo xtask tools{}`, which builds missing tools",
        path.display(),
        tool.recipe().need.option()
    )]
    Absent { tool: Tool, path: PathBuf },
    #[error(
        "KUBEBUILDER_ASSETS is set, but there is no {}; put the program there or unset the variable",
        path.display()
    )]
    AbsentFromAssets { path: PathBuf },
    #[error("cannot determine the folder of helper tools: neither XDG_CACHE_HOME nor HOME is set")]
    NoCacheFolder,
}

/// The message itself: most callers are tests that unwrap, and their output must contain the remedy.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Cache {
    /// Tools below `root`; those of Kubernetes from `kubernetes` if given.
    pub fn new(root: impl Into<PathBuf>, kubernetes: Option<PathBuf>) -> Self {
        Self { root: root.into(), kubernetes }
    }

    /// The cache of the user who runs this process.
    pub fn of_user() -> Result<Self, Error> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // By the XDG specification, a relative path is ignored.
        let root = set("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
            .ok_or(Error::NoCacheFolder)?;
        Ok(Self::new(root.join("landfall/tools"), set("KUBEBUILDER_ASSETS")))
    }

    /// The folder of all entries.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Waits until no other thread or process creates the entry of this name. The lock lasts as long
    /// as the file is open.
    pub(crate) fn lock(&self, entry: &str) -> io::Result<File> {
        fs::create_dir_all(&self.root)?;
        let lock = File::create(self.root.join(format!(".lock-{entry}")))?;
        lock.lock()?;
        Ok(lock)
    }

    /// The program; the error names the command that builds it.
    pub fn path(&self, tool: Tool) -> Result<PathBuf, Error> {
        if let Some(assets) = self.kubernetes.as_ref().filter(|_| tool.is_kubernetes()) {
            let path = assets.join(tool.recipe().name);
            if path.is_file() {
                return Ok(path);
            }
            // Such folders usually have no controllers; this crate builds them.
            if tool != Tool::KubeControllerManager {
                return Err(Error::AbsentFromAssets { path });
            }
        }
        let path = self.program(tool);
        if path.is_file() { Ok(path) } else { Err(Error::Absent { tool, path }) }
    }

    fn folder(&self, tool: Tool) -> PathBuf {
        self.root.join(tool.entry())
    }

    fn program(&self, tool: Tool) -> PathBuf {
        let Recipe { name, source, .. } = tool.recipe();
        match source {
            // cargo install creates a `bin` folder.
            Source::CargoInstall
            | Source::CargoInstallOptimized { .. }
            | Source::CargoInstallWith { .. } => self.folder(tool).join("bin").join(name),
            // go install names a program after the last part of its package.
            Source::GoInstall { package } => {
                self.folder(tool).join(package.rsplit('/').next().unwrap_or(name))
            }
            Source::GoModule { .. } => self.folder(tool).join(name),
            Source::Wheel { program, .. } => self.folder(tool).join(program),
            Source::NpmPackage { program, .. } => {
                self.folder(tool).join("node_modules").join(name).join(program)
            }
        }
    }
}

/// The program in the user's cache. The error names the command that builds it.
pub fn path(tool: Tool) -> Result<PathBuf, Error> {
    Cache::of_user()?.path(tool)
}

/// The `tools` folder of this checkout, with the committed Go modules.
fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_missing_tool_is_an_error_that_names_the_command_which_builds_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = Cache::new(dir.path(), None).path(Tool::Cosign).unwrap_err().to_string();
        assert!(error.starts_with("cosign 2.6.5 is not built"), "{error}");
        assert!(error.contains("cargo xtask tools"), "{error}");
    }

    #[test]
    fn a_tool_is_found_below_its_name_and_version() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), None);
        for (tool, path) in [
            (Tool::Cosign, "cosign-2.6.5/cosign"),
            (Tool::CargoDeny, "cargo-deny-0.20.2/bin/cargo-deny"),
        ] {
            let program = dir.path().join(path);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            fs::write(&program, "").unwrap();
            assert_eq!(cache.path(tool).unwrap(), program);
        }
    }

    #[test]
    fn kubebuilder_assets_are_used_for_kubernetes_programs_only() {
        let (ours, assets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = Cache::new(ours.path(), Some(assets.path().to_owned()));
        fs::write(assets.path().join("etcd"), "").unwrap();
        fs::write(assets.path().join("cosign"), "").unwrap();
        assert_eq!(cache.path(Tool::Etcd).unwrap(), assets.path().join("etcd"));
        assert!(matches!(cache.path(Tool::KubeApiserver), Err(Error::AbsentFromAssets { .. })));
        assert!(matches!(cache.path(Tool::Cosign), Err(Error::Absent { .. })));
    }

    #[test]
    fn controllers_in_kubebuilder_assets_are_used() {
        let (ours, assets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = Cache::new(ours.path(), Some(assets.path().to_owned()));
        let tool = Tool::KubeControllerManager;
        assert!(matches!(cache.path(tool), Err(Error::Absent { .. })));
        let theirs = assets.path().join("kube-controller-manager");
        fs::write(&theirs, "").unwrap();
        assert_eq!(cache.path(tool).unwrap(), theirs);
    }

    #[test]
    fn the_committed_modules_require_the_versions_of_the_table() {
        for tool in Tool::ALL {
            let Recipe { version, source, .. } = tool.recipe();
            let Source::GoModule { module, package, .. } = source else { continue };
            let go_mod = fs::read_to_string(modules().join(module).join("go.mod")).unwrap();
            let required = go_mod.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.windows(2).any(|pair| {
                    package.starts_with(pair[0]) && pair[1].strip_prefix('v') == Some(version)
                })
            });
            assert!(required, "tools/{module}/go.mod does not require {package} in {version}");
        }
    }

    #[test]
    fn packages_of_npm_are_pinned_to_the_version_of_the_table_with_hashes() {
        let Recipe { name, version, source, .. } = Tool::AxeCore.recipe();
        let Source::NpmPackage { module, .. } = source else { panic!("{source:?}") };
        let lock = fs::read_to_string(modules().join(module).join("package-lock.json")).unwrap();
        let (_, pin) = lock.split_once(&format!("\"node_modules/{name}\": {{")).unwrap();
        assert!(pin.contains(&format!("\"version\": \"{version}\"")), "{pin}");
        assert!(pin.contains("\"integrity\": \"sha512-"), "{pin}");
        // The machine determines where it is downloaded from.
        assert!(!lock.contains("resolved"), "{lock}");
    }

    #[test]
    fn wheels_are_pinned_to_the_version_of_the_table_with_hashes() {
        let Recipe { version, source, .. } = Tool::Zig.recipe();
        let Source::Wheel { module, .. } = source else { panic!("{source:?}") };
        let pins = fs::read_to_string(modules().join(module).join("requirements.txt")).unwrap();
        assert!(pins.contains(&format!("ziglang=={version} ")), "{pins}");
        assert!(pins.contains("--hash=sha256:"), "{pins}");
    }
}
