//! Programs and root file systems that the tests and the benchmarks need: which, in which exact
//! version, how each is built, and where it is stored.
//!
//! A program is built once per version and user, below
//! `${XDG_CACHE_HOME:-~/.cache}/landfall/tools/<name>-<version>/`. Tests never build a tool: they
//! ask for its [`path`] and fail with the command to run if it is missing. `cargo xtask tools`
//! [`builds`](build) them, through this crate's program.

mod build;
mod initrd;
pub mod machine_image;
pub mod module_files;
mod packages;
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

/// A program that is built from source, not installed from the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// Checks the accessibility of pages; a script that a browser runs.
    AxeCore,
    /// Embeds the list of dependencies into programs.
    CargoAuditable,
    /// Writes Debian packages.
    CargoDeb,
    /// Checks licences, sources, bans and advisories of our dependencies.
    CargoDeny,
    /// Builds the programs that fuzz our parsers.
    CargoFuzz,
    /// Writes RPM packages.
    CargoGenerateRpm,
    /// Measures which lines the tests run.
    CargoLlvmCov,
    /// Compiles and links for other architectures with Zig.
    CargoZigbuild,
    /// Signs images and verifies what was mirrored.
    Cosign,
    /// A registry that deletes single tags.
    Distribution,
    /// The store below the API server.
    Etcd,
    /// Renders charts, to compare what we render.
    Helm,
    /// Judges the Ignition in MachineConfigs.
    IgnitionValidate,
    /// Judges the manifests made for a cluster.
    KubeApiserver,
    /// Makes pods of what is deployed, and collects what lost its owner.
    KubeControllerManager,
    /// Installs kubectl plugins.
    Krew,
    /// Checks the manifests of kubectl plugins.
    KrewValidate,
    /// Runs plugins, and is part of the must-gather image.
    Kubectl,
    /// Builds the book.
    Mdbook,
    /// What a node's own service does with a document.
    Nmstatectl,
    /// Judges operator catalogs.
    Opm,
    /// A peer in the benchmark.
    Regsync,
    /// An object store that speaks S3.
    Versitygw,
    /// Compiles C code for other architectures.
    Zig,
}

/// What needs a tool, so that a test run does not wait for the benchmark's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Test,
    Bench,
    /// Release artefacts.
    Dist,
}

impl Need {
    /// What `cargo xtask tools` needs to be told to build a tool for this.
    const fn option(self) -> &'static str {
        match self {
            Self::Test => "",
            Self::Bench => " --bench",
            Self::Dist => " --dist",
        }
    }
}

/// One row of the table: a program in the one version we use.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Name of the program and of its folder in the cache.
    pub name: &'static str,
    /// Exact version, without a leading `v`.
    pub version: &'static str,
    /// What it is wanted for, in a few words.
    pub purpose: &'static str,
    /// Minutes that a cold build takes on two cores, rounded up.
    pub minutes: u32,
    pub need: Need,
    source: Source,
}

/// How a program is built.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// `go install <package>@v<version>`; the package's own go.mod decides all else.
    GoInstall { package: &'static str },
    /// `go build` in `tools/<module>`, whose go.mod and go.sum are committed: for modules with
    /// `replace` lines, which `go install` refuses. `stamp` is the variable that holds the version.
    GoModule {
        module: &'static str,
        package: &'static str,
        stamp: Option<&'static str>,
        tags: &'static str,
    },
    /// `cargo install <name> --version <version> --locked`, not optimised.
    CargoInstall,
    /// The same, with these of its dependencies optimised: those that compress and hash.
    CargoInstallOptimised { dependencies: &'static [&'static str] },
    /// The same, not optimised, with these features instead of the default ones.
    CargoInstallWith { features: &'static str },
    /// `pip install` of `tools/<module>/requirements.txt`, which pins version and hashes. `program` is
    /// below the folder of the package.
    Wheel { module: &'static str, program: &'static str },
    /// `npm ci` of `tools/<module>`, whose lock file pins version and hash. `program` is below the
    /// folder of the package.
    NpmPackage { module: &'static str, program: &'static str },
}

impl Tool {
    pub const ALL: [Self; 24] = [
        Self::AxeCore,
        Self::CargoAuditable,
        Self::CargoDeb,
        Self::CargoDeny,
        Self::CargoFuzz,
        Self::CargoGenerateRpm,
        Self::CargoLlvmCov,
        Self::CargoZigbuild,
        Self::Cosign,
        Self::Distribution,
        Self::Etcd,
        Self::Helm,
        Self::IgnitionValidate,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Krew,
        Self::KrewValidate,
        Self::Kubectl,
        Self::Mdbook,
        Self::Nmstatectl,
        Self::Opm,
        Self::Regsync,
        Self::Versitygw,
        Self::Zig,
    ];

    /// The name of its folder in the cache.
    fn entry(self) -> String {
        let Recipe { name, version, .. } = self.recipe();
        format!("{name}-{version}")
    }

    /// Whether it is written in Rust and built from source.
    pub fn is_built_by_cargo(self) -> bool {
        matches!(
            self.recipe().source,
            Source::CargoInstall
                | Source::CargoInstallOptimised { .. }
                | Source::CargoInstallWith { .. }
        )
    }

    pub const fn recipe(self) -> Recipe {
        match self {
            Self::AxeCore => Recipe {
                name: "axe-core",
                version: "4.14.0",
                purpose: "checks the accessibility of the console's pages",
                minutes: 1,
                need: Need::Test,
                source: Source::NpmPackage { module: "axe-core", program: "axe.min.js" },
            },
            Self::CargoAuditable => Recipe {
                name: "cargo-auditable",
                version: "0.7.7",
                purpose: "embeds the list of dependencies into programs",
                minutes: 1,
                need: Need::Dist,
                source: Source::CargoInstall,
            },
            Self::CargoDeb => Recipe {
                name: "cargo-deb",
                version: "3.8.0",
                purpose: "writes Debian packages",
                minutes: 2,
                need: Need::Test,
                source: Source::CargoInstallOptimised {
                    dependencies: &[
                        "crc32fast",
                        "flate2",
                        "lzma-sys",
                        "simd-adler32",
                        "zlib-rs",
                        "zopfli",
                    ],
                },
            },
            Self::CargoDeny => Recipe {
                name: "cargo-deny",
                version: "0.20.2",
                purpose: "checks licences, sources and advisories of dependencies",
                minutes: 2,
                need: Need::Test,
                source: Source::CargoInstall,
            },
            Self::CargoFuzz => Recipe {
                name: "cargo-fuzz",
                version: "0.13.2",
                purpose: "builds the programs that fuzz our parsers",
                minutes: 1,
                need: Need::Test,
                source: Source::CargoInstall,
            },
            Self::CargoGenerateRpm => Recipe {
                name: "cargo-generate-rpm",
                version: "0.21.1",
                purpose: "writes RPM packages",
                minutes: 2,
                need: Need::Test,
                source: Source::CargoInstallOptimised {
                    dependencies: &["md-5", "rpm", "sha1", "sha2", "sha3", "zstd-sys"],
                },
            },
            Self::CargoLlvmCov => Recipe {
                name: "cargo-llvm-cov",
                version: "0.9.1",
                purpose: "measures which lines the tests run",
                minutes: 1,
                need: Need::Test,
                source: Source::CargoInstall,
            },
            Self::CargoZigbuild => Recipe {
                name: "cargo-zigbuild",
                version: "0.24.0",
                purpose: "compiles and links for other architectures with Zig",
                minutes: 1,
                need: Need::Dist,
                source: Source::CargoInstall,
            },
            Self::Cosign => Recipe {
                name: "cosign",
                version: "2.6.5",
                purpose: "signs images and verifies mirrored ones",
                minutes: 5,
                need: Need::Test,
                source: Source::GoInstall { package: "github.com/sigstore/cosign/v2/cmd/cosign" },
            },
            Self::Distribution => Recipe {
                name: "distribution",
                version: "3.1.2",
                purpose: "registry that deletes single tags",
                minutes: 2,
                need: Need::Test,
                source: Source::GoInstall {
                    package: "github.com/distribution/distribution/v3/cmd/registry",
                },
            },
            Self::Etcd => Recipe {
                name: "etcd",
                version: "3.7.3",
                purpose: "store of the API server",
                minutes: 1,
                need: Need::Test,
                source: Source::GoModule {
                    module: "etcd",
                    package: "go.etcd.io/etcd/server/v3",
                    stamp: None,
                    tags: "",
                },
            },
            Self::Helm => Recipe {
                name: "helm",
                version: "3.22.0",
                purpose: "renders charts, to compare what we render",
                minutes: 2,
                need: Need::Test,
                source: Source::GoInstall { package: "helm.sh/helm/v3/cmd/helm" },
            },
            Self::IgnitionValidate => Recipe {
                name: "ignition-validate",
                version: "2.24.0",
                purpose: "judges the Ignition in MachineConfigs",
                minutes: 1,
                need: Need::Test,
                source: Source::GoInstall { package: "github.com/coreos/ignition/v2/validate" },
            },
            Self::KubeApiserver => Recipe {
                name: "kube-apiserver",
                version: "1.36.3",
                purpose: "judges the manifests made for a cluster",
                minutes: 7,
                need: Need::Test,
                source: kubernetes("k8s.io/kubernetes/cmd/kube-apiserver"),
            },
            // Most of it is compiled for the API server already.
            Self::KubeControllerManager => Recipe {
                name: "kube-controller-manager",
                version: "1.36.3",
                purpose: "controllers of a cluster: workloads, garbage collection",
                minutes: 2,
                need: Need::Test,
                source: kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager"),
            },
            Self::Krew => Recipe {
                name: "krew",
                version: "0.5.0",
                purpose: "installs kubectl plugins",
                minutes: 2,
                need: Need::Test,
                source: krew("sigs.k8s.io/krew/cmd/krew"),
            },
            Self::KrewValidate => Recipe {
                name: "validate-krew-manifest",
                version: "0.5.0",
                purpose: "checks the manifests of kubectl plugins",
                minutes: 2,
                need: Need::Test,
                source: krew("sigs.k8s.io/krew/cmd/validate-krew-manifest"),
            },
            Self::Kubectl => Recipe {
                name: "kubectl",
                version: "1.36.3",
                purpose: "runs plugins, and is part of the must-gather image",
                minutes: 2,
                need: Need::Test,
                source: kubernetes("k8s.io/kubernetes/cmd/kubectl"),
            },
            Self::Mdbook => Recipe {
                name: "mdbook",
                version: "0.5.4",
                purpose: "builds the book in docs/",
                minutes: 2,
                need: Need::Test,
                // Without the server for authors, which is most of what it compiles.
                source: Source::CargoInstallWith { features: "search" },
            },
            Self::Nmstatectl => Recipe {
                name: "nmstatectl",
                version: "2.2.62",
                purpose: "what a node's own service does with a document",
                minutes: 4,
                need: Need::Test,
                source: Source::CargoInstall,
            },
            Self::Opm => Recipe {
                name: "opm",
                version: "1.73.0",
                purpose: "judges operator catalogs",
                minutes: 3,
                need: Need::Test,
                source: Source::GoModule {
                    module: "opm",
                    package: "github.com/operator-framework/operator-registry/cmd/opm",
                    stamp: None,
                    // Without these it wants C libraries, for what a judge of catalogs never does.
                    tags: "containers_image_openpgp json1",
                },
            },
            Self::Regsync => Recipe {
                name: "regsync",
                version: "0.11.7",
                purpose: "peer in the benchmark",
                minutes: 1,
                need: Need::Test,
                source: Source::GoInstall { package: "github.com/regclient/regclient/cmd/regsync" },
            },
            Self::Versitygw => Recipe {
                name: "versitygw",
                version: "1.8.0",
                purpose: "object store that speaks S3",
                minutes: 2,
                need: Need::Test,
                source: Source::GoInstall { package: "github.com/versity/versitygw/cmd/versitygw" },
            },
            Self::Zig => Recipe {
                name: "zig",
                version: "0.15.2",
                purpose: "compiles C code for other architectures",
                minutes: 1,
                need: Need::Dist,
                source: Source::Wheel { module: "zig", program: "ziglang/zig" },
            },
        }
    }

    /// Whether `KUBEBUILDER_ASSETS`, the folder that Kubernetes' own tests use, may hold it.
    const fn is_kubernetes(self) -> bool {
        matches!(self, Self::Etcd | Self::KubeApiserver | Self::KubeControllerManager)
    }
}

/// Programs of one module, so that what they share is compiled once.
const fn kubernetes(package: &'static str) -> Source {
    Source::GoModule {
        module: "kubernetes",
        package,
        stamp: Some("k8s.io/component-base/version.gitVersion"),
        tags: "",
    }
}

const fn krew(package: &'static str) -> Source {
    Source::GoModule { module: "krew", package, stamp: None, tags: "" }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recipe { name, version, .. } = self.recipe();
        write!(f, "{name} {version}")
    }
}

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
        "{tool} is not built: there is no {}; run `cargo xtask tools{}` once, it builds what is missing",
        path.display(),
        tool.recipe().need.option()
    )]
    Absent { tool: Tool, path: PathBuf },
    #[error(
        "KUBEBUILDER_ASSETS is set, but there is no {}; put the program there or unset the variable",
        path.display()
    )]
    AbsentFromAssets { path: PathBuf },
    #[error("cannot tell where helper tools are kept: neither XDG_CACHE_HOME nor HOME is set")]
    NoCacheFolder,
}

/// The message itself: most callers are tests that unwrap, and they are to show what to do.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Cache {
    /// Tools below `root`, Kubernetes' own from `kubernetes` when given.
    pub fn new(root: impl Into<PathBuf>, kubernetes: Option<PathBuf>) -> Self {
        Self { root: root.into(), kubernetes }
    }

    /// The cache of the user who runs this process.
    pub fn of_user() -> Result<Self, Error> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The XDG rules: a relative path is to be ignored.
        let root = set("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
            .ok_or(Error::NoCacheFolder)?;
        Ok(Self::new(root.join("landfall/tools"), set("KUBEBUILDER_ASSETS")))
    }

    /// The folder that holds everything.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Waits until no other thread or process makes the entry of this name. The lock lasts as long
    /// as the file is open.
    pub(crate) fn lock(&self, entry: &str) -> io::Result<File> {
        fs::create_dir_all(&self.root)?;
        let lock = File::create(self.root.join(format!(".lock-{entry}")))?;
        lock.lock()?;
        Ok(lock)
    }

    /// The program, or what to do to get it.
    pub fn path(&self, tool: Tool) -> Result<PathBuf, Error> {
        if let Some(assets) = self.kubernetes.as_ref().filter(|_| tool.is_kubernetes()) {
            let path = assets.join(tool.recipe().name);
            if path.is_file() {
                return Ok(path);
            }
            // Folders made for such tests usually have no controllers; we build our own.
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
            // cargo install makes a `bin` folder by itself.
            Source::CargoInstall
            | Source::CargoInstallOptimised { .. }
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

/// The program in the user's cache. The error says the one command that builds it.
pub fn path(tool: Tool) -> Result<PathBuf, Error> {
    Cache::of_user()?.path(tool)
}

/// The `tools` folder of this checkout, which holds the committed Go modules.
fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_absent_tool_is_an_error_that_says_the_command_which_builds_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = Cache::new(dir.path(), None).path(Tool::Cosign).unwrap_err().to_string();
        assert!(error.starts_with("cosign 2.6.5 is not built"), "{error}");
        assert!(error.contains("cargo xtask tools"), "{error}");
    }

    #[test]
    fn a_tool_is_found_below_its_name_and_version() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), None);
        for (tool, place) in [
            (Tool::Cosign, "cosign-2.6.5/cosign"),
            (Tool::CargoDeny, "cargo-deny-0.20.2/bin/cargo-deny"),
        ] {
            let program = dir.path().join(place);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            fs::write(&program, "").unwrap();
            assert_eq!(cache.path(tool).unwrap(), program);
        }
    }

    #[test]
    fn kubebuilder_assets_hold_kubernetes_programs_and_no_others() {
        let (ours, assets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = Cache::new(ours.path(), Some(assets.path().to_owned()));
        fs::write(assets.path().join("etcd"), "").unwrap();
        fs::write(assets.path().join("cosign"), "").unwrap();
        assert_eq!(cache.path(Tool::Etcd).unwrap(), assets.path().join("etcd"));
        assert!(matches!(cache.path(Tool::KubeApiserver), Err(Error::AbsentFromAssets { .. })));
        assert!(matches!(cache.path(Tool::Cosign), Err(Error::Absent { .. })));
    }

    #[test]
    fn controllers_are_taken_from_kubebuilder_assets_where_they_are_there() {
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
        // Where it is downloaded from is a matter of the machine.
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
