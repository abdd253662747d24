//! The table of tools: version, purpose and build of each.

use std::fmt;

/// A program that is built from source, not installed from the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// Checks the accessibility of pages; a script that a browser runs.
    AxeCore,
    /// Embeds the list of dependencies into programs.
    CargoAuditable,
    /// Writes Debian packages.
    CargoDeb,
    /// Checks licenses, sources, bans and advisories of our dependencies.
    CargoDeny,
    /// Builds the programs that fuzz our parsers.
    CargoFuzz,
    /// Writes RPM packages.
    CargoGenerateRpm,
    /// Measures which lines the tests run.
    CargoLlvmCov,
    /// Compiles and links for other architectures with Zig.
    CargoZigbuild,
    /// Signs images and verifies mirrored ones.
    Cosign,
    /// A registry that deletes single tags.
    Distribution,
    /// The store of the API server.
    Etcd,
    /// Renders charts, to compare with our rendering.
    Helm,
    /// Validates the Ignition in MachineConfigs.
    IgnitionValidate,
    /// Validates the manifests for a cluster.
    KubeApiserver,
    /// Creates pods of workloads, and deletes objects without an owner.
    KubeControllerManager,
    /// Installs kubectl plugins.
    Krew,
    /// Checks the manifests of kubectl plugins.
    KrewValidate,
    /// Runs plugins, and is part of the must-gather image.
    Kubectl,
    /// Builds the book.
    Mdbook,
    /// Applies a document as the service of a node does.
    Nmstatectl,
    /// Runs plugins, as sites do.
    Oc,
    /// Validates operator catalogs.
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
    /// The option of `cargo xtask tools` that builds tools for this.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Test => "",
            Self::Bench => " --bench",
            Self::Dist => " --dist",
        }
    }
}

/// One row of the table: a program in the version that is used.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// Name of the program and of its folder in the cache.
    pub name: &'static str,
    /// Exact version, without a leading `v`.
    pub version: &'static str,
    /// What it is used for, in a few words.
    pub purpose: &'static str,
    /// Minutes that a cold build takes on two cores, rounded up.
    pub minutes: u32,
    pub need: Need,
    pub(crate) source: Source,
}

/// How a program is built.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// `go install <package>@v<version>`; the go.mod of the package determines its dependencies.
    GoInstall { package: &'static str },
    /// `go build` in `tools/<module>`, whose go.mod and go.sum are committed: for modules with
    /// `replace` lines, which `go install` rejects. `stamp` is the variable that holds the version.
    GoModule {
        module: &'static str,
        package: &'static str,
        stamp: Option<&'static str>,
        tags: &'static str,
    },
    /// `cargo install <name> --version <version> --locked`, not optimized.
    CargoInstall,
    /// The same, with these of its dependencies optimized: those that compress and hash.
    CargoInstallOptimized { dependencies: &'static [&'static str] },
    /// The same, not optimized, with these features instead of the default ones.
    CargoInstallWith { features: &'static str },
    /// `pip install` of `tools/<module>/requirements.txt`, which pins version and hashes. `program` is
    /// below the folder of the package.
    Wheel { module: &'static str, program: &'static str },
    /// `npm ci` of `tools/<module>`, whose lock file pins version and hash. `program` is below the
    /// folder of the package.
    NpmPackage { module: &'static str, program: &'static str },
}

impl Tool {
    pub const ALL: [Self; 25] = [
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
        Self::Oc,
        Self::Opm,
        Self::Regsync,
        Self::Versitygw,
        Self::Zig,
    ];

    /// The name of its folder in the cache.
    pub(crate) fn entry(self) -> String {
        let Recipe { name, version, .. } = self.recipe();
        format!("{name}-{version}")
    }

    /// Whether it is written in Rust and built from source.
    pub fn is_built_by_cargo(self) -> bool {
        matches!(
            self.recipe().source,
            Source::CargoInstall
                | Source::CargoInstallOptimized { .. }
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
                source: Source::CargoInstallOptimized {
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
                purpose: "checks licenses, sources and advisories of dependencies",
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
                source: Source::CargoInstallOptimized {
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
                purpose: "renders charts, to compare with our rendering",
                minutes: 2,
                need: Need::Test,
                source: Source::GoInstall { package: "helm.sh/helm/v3/cmd/helm" },
            },
            Self::IgnitionValidate => Recipe {
                name: "ignition-validate",
                version: "2.24.0",
                purpose: "validates the Ignition in MachineConfigs",
                minutes: 1,
                need: Need::Test,
                source: Source::GoInstall { package: "github.com/coreos/ignition/v2/validate" },
            },
            Self::KubeApiserver => Recipe {
                name: "kube-apiserver",
                version: "1.36.3",
                purpose: "validates the manifests for a cluster",
                minutes: 7,
                need: Need::Test,
                source: kubernetes("k8s.io/kubernetes/cmd/kube-apiserver"),
            },
            // Most of it is already compiled for the API server.
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
                // Without the server for authors, which is most of the build time.
                source: Source::CargoInstallWith { features: "search" },
            },
            Self::Nmstatectl => Recipe {
                name: "nmstatectl",
                version: "2.2.62",
                purpose: "applies documents as the service of a node does",
                minutes: 4,
                need: Need::Test,
                source: Source::CargoInstall,
            },
            // Its releases are not tagged as a module has to be, so the version is that of a commit.
            Self::Oc => Recipe {
                name: "oc",
                version: "0.0.0-alpha.0.0.20250108103617-ae1bd9e4a75b",
                purpose: "runs plugins as sites do",
                minutes: 3,
                need: Need::Dist,
                source: Source::GoModule {
                    module: "oc",
                    package: "github.com/openshift/oc/cmd/oc",
                    stamp: None,
                    // Without it, it needs a C library that plugins do not use.
                    tags: "containers_image_openpgp",
                },
            },
            Self::Opm => Recipe {
                name: "opm",
                version: "1.73.0",
                purpose: "validates operator catalogs",
                minutes: 3,
                need: Need::Test,
                source: Source::GoModule {
                    module: "opm",
                    package: "github.com/operator-framework/operator-registry/cmd/opm",
                    stamp: None,
                    // Without these it needs C libraries that the validation of catalogs does not use.
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

    /// Whether `KUBEBUILDER_ASSETS`, the folder that tests of Kubernetes use, may contain it.
    pub(crate) const fn is_kubernetes(self) -> bool {
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
