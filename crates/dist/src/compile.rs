//! Compiles the programs for one architecture: static, with the list of their dependencies embedded,
//! and without any path of this machine, so that two checkouts give identical bytes.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::architecture::Architecture;
use crate::command;
use crate::packages::Effort;
use crate::programs::Program;
use crate::release::Release;
use crate::toolchain::Toolchain;

/// A program that was compiled.
#[derive(Debug, Clone)]
pub(crate) struct Built {
    pub(crate) program: Program,
    pub(crate) architecture: Architecture,
    pub(crate) path: PathBuf,
}

/// Folders of this machine and what programs contain instead of them.
fn remapped(root: &Path, target: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let home = env::var_os("HOME").map(PathBuf::from).context("HOME is not set")?;
    let cargo = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    // The compiler uses the last prefix that matches, hence the innermost folder last: the build
    // folder may be inside the checkout, and the checkout inside the home folder.
    let mut pairs =
        vec![(cargo, "/cargo"), (root.to_owned(), "/landfall"), (target.to_owned(), "/target")];
    pairs.sort_by_key(|(path, _)| path.components().count());
    Ok(pairs)
}

/// The profile that a program is compiled with. Programs with the same profile are compiled by one
/// call of cargo, so that dependencies are compiled once.
pub(crate) fn profile(program: &Program, effort: Effort) -> &'static str {
    match effort {
        Effort::Release => program.profile,
        Effort::Check => "dev",
    }
}

/// Compiles `programs`, which have to be of this checkout. Returns where they are.
pub(crate) fn compile(
    root: &Path,
    target: &Path,
    release: &Release,
    toolchain: &Toolchain,
    architecture: Architecture,
    programs: &[Program],
    effort: Effort,
) -> Result<Vec<Built>> {
    let profile = |program: &Program| profile(program, effort);
    let mut profiles: Vec<&str> = programs.iter().map(profile).collect();
    profiles.sort_unstable();
    profiles.dedup();
    let mut built = Vec::new();
    for name in profiles {
        let selected: Vec<Program> =
            programs.iter().filter(|program| profile(program) == name).copied().collect();
        let mut cargo = cargo(root, target, release, toolchain, architecture)?;
        cargo.args(["--profile", name]);
        if effort == Effort::Check {
            // Nothing reads it, and it is most of the size.
            cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_PROFILE_DEV_STRIP", "symbols");
        }
        for program in &selected {
            cargo.args(["--package", program.name, "--bin", program.name]);
        }
        let start = Instant::now();
        command::run(&mut cargo)
            .with_context(|| format!("compiling for {}", architecture.triple()))?;
        println!("    compiled for {architecture} in {} s", start.elapsed().as_secs());
        for program in selected {
            let folder = if name == "dev" { "debug" } else { name };
            let path = target.join(architecture.triple()).join(folder).join(program.name);
            ensure!(path.is_file(), "cargo succeeded, but there is no {}", path.display());
            built.push(Built { program, architecture, path });
        }
    }
    Ok(built)
}

/// Flags of the Rust compiler: no path of this machine, segments for the largest pages.
fn rust_flags(pairs: &[(PathBuf, &str)], architecture: Architecture) -> String {
    let remapped =
        pairs.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let pages = format!("-Clink-arg=-Wl,-z,max-page-size={}", architecture.largest_page());
    remapped.chain([pages]).collect::<Vec<_>>().join(" ")
}

fn cargo(
    root: &Path,
    target: &Path,
    release: &Release,
    toolchain: &Toolchain,
    architecture: Architecture,
) -> Result<Command> {
    let pairs = remapped(root, target)?;
    let c = pairs.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()));
    let triple = architecture.triple();
    let in_variable = triple.replace('-', "_");
    let folder = toolchain.zigbuild.parent().context("cargo-zigbuild has no folder")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let search = std::iter::once(folder.to_owned()).chain(env::split_paths(&path));

    let mut cargo = Command::new(&toolchain.auditable);
    cargo.args(["auditable", "zigbuild", "--locked", "--target", triple]).current_dir(root);
    cargo.env("PATH", env::join_paths(search).context("adding cargo-zigbuild to the PATH")?);
    cargo.env("CARGO_ZIGBUILD_ZIG_PATH", &toolchain.zig);
    cargo.env("CARGO_TARGET_DIR", target);
    // Flags of the user would be part of the programs.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CFLAGS", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(name);
    }
    // cargo-auditable is a wrapper of the compiler itself.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    cargo.env(
        format!("CARGO_TARGET_{}_RUSTFLAGS", in_variable.to_uppercase()),
        rust_flags(&pairs, architecture),
    );
    cargo.env(format!("CFLAGS_{in_variable}"), c.collect::<Vec<_>>().join(" "));
    // Kernels for aarch64 have pages of 4, 16 or 64 KiB. jemalloc works with pages up to the size
    // that it was built for.
    let logarithm = architecture.largest_page().ilog2().to_string();
    cargo.env("JEMALLOC_SYS_WITH_LG_PAGE", logarithm);
    cargo.envs(release.variables());
    Ok(cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_folder_is_remapped_last() {
        let pairs = remapped(Path::new("/a/b"), Path::new("/a/b/target")).unwrap();
        let position = |to: &str| pairs.iter().position(|(_, name)| *name == to).unwrap();
        assert!(position("/landfall") < position("/target"));
    }

    /// The variables that cargo is started with for an architecture.
    fn variables(architecture: Architecture) -> Vec<(String, Option<String>)> {
        let [auditable, zigbuild, zig] = ["/t/auditable", "/t/zigbuild", "/t/zig"].map(Into::into);
        let toolchain = Toolchain { auditable, zigbuild, zig };
        let release = Release {
            number: "0.1.0".into(),
            commit: "c".repeat(40),
            date: "2026-01-02".into(),
            epoch: 0,
            is_dirty: false,
        };
        let (root, target) = (Path::new("/a"), Path::new("/a/target"));
        let command = cargo(root, target, &release, &toolchain, architecture).unwrap();
        let text = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
        command.get_envs().map(|(name, value)| (text(name), value.map(text))).collect()
    }

    #[test]
    fn programs_and_their_allocator_are_built_for_the_largest_pages() {
        for (architecture, triple, page, logarithm) in [
            (Architecture::X86_64, "X86_64_UNKNOWN_LINUX_MUSL", "4096", "12"),
            (Architecture::Aarch64, "AARCH64_UNKNOWN_LINUX_MUSL", "65536", "16"),
        ] {
            let variables = variables(architecture);
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| known == name);
                found.and_then(|(_, value)| value.clone()).unwrap_or_default()
            };
            let flags = value(&format!("CARGO_TARGET_{triple}_RUSTFLAGS"));
            let expected = format!("-Clink-arg=-Wl,-z,max-page-size={page}");
            assert!(flags.split(' ').any(|flag| flag == expected), "{flags}");
            assert_eq!(value("JEMALLOC_SYS_WITH_LG_PAGE"), logarithm);
        }
    }

    #[test]
    fn flags_of_the_user_do_not_reach_the_compiler() {
        let variables = variables(Architecture::X86_64);
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CFLAGS", "RUSTC_WORKSPACE_WRAPPER"] {
            assert!(variables.contains(&(name.to_owned(), None)), "{name}");
        }
    }
}
