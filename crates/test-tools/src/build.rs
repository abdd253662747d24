//! Builds a tool into the cache, once; an interrupted build leaves no partial result.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::{Cache, Error, Recipe, Source, Tool, modules};

/// A tool that could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("{tool} cannot be built")]
    Unavailable { tool: Tool, source: Error },
    #[error("building {tool}: preparing {}", path.display())]
    Prepare { tool: Tool, path: PathBuf, source: io::Error },
    #[error("building {tool}: starting `{program}`; is it installed and on the PATH?")]
    Start { tool: Tool, program: &'static str, source: io::Error },
    #[error("building {tool}: `{command}` ended with {status}; its messages are above")]
    Failed { tool: Tool, command: String, status: ExitStatus },
    #[error("building {tool}: `{command}` succeeded, but did not create {}", path.display())]
    NoProgram { tool: Tool, command: String, path: PathBuf },
}

/// Builds `tool` unless it exists, and returns the program.
///
/// Other builds of the same tool wait for this one, in this process or another. The compiler's
/// messages go to standard error of this process. An interrupted build leaves nothing that could be
/// mistaken for the program.
pub fn build(cache: &Cache, tool: Tool) -> Result<PathBuf, BuildError> {
    if let Some(path) = existing(cache, tool)? {
        return Ok(path);
    }
    let prepare = |path: &Path| {
        let path = path.to_owned();
        move |source| BuildError::Prepare { tool, path, source }
    };
    let _lock = cache.lock(&tool.entry()).map_err(prepare(&cache.root))?;
    // Another process or thread that had the lock may have built it.
    if let Some(path) = existing(cache, tool)? {
        return Ok(path);
    }

    // Beside the final folder, so that the rename stays within one filesystem.
    let temporary = tempfile::tempdir_in(&cache.root).map_err(prepare(&cache.root))?;
    let attempt = Cache::new(temporary.path(), None);
    let command = run(tool, &attempt.folder(tool))?;
    let program = attempt.program(tool);
    if !program.is_file() {
        return Err(BuildError::NoProgram { tool, command, path: program });
    }
    let folder = cache.folder(tool);
    // A folder without the program is left from an older layout or a manual change.
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(prepare(&folder)(error));
        }
        _ => {}
    }
    fs::rename(attempt.folder(tool), &folder).map_err(prepare(&folder))?;
    Ok(cache.program(tool))
}

/// Builds a Go program for another architecture, as Go names it, into `folder`. The cache of Go
/// makes a second build fast.
pub fn build_for(tool: Tool, architecture: &str, folder: &Path) -> Result<PathBuf, BuildError> {
    let mut command = command(tool.recipe(), folder);
    command.envs([("GOOS", "linux"), ("GOARCH", architecture)]);
    let line = execute(tool, "go", &mut command)?;
    let path = folder.join(tool.recipe().name);
    if path.is_file() { Ok(path) } else { Err(BuildError::NoProgram { tool, command: line, path }) }
}

/// The program if it exists; none if it can be built.
fn existing(cache: &Cache, tool: Tool) -> Result<Option<PathBuf>, BuildError> {
    match cache.path(tool) {
        Ok(path) => Ok(Some(path)),
        Err(Error::Absent { .. }) => Ok(None),
        Err(error) => Err(BuildError::Unavailable { tool, source: error }),
    }
}

/// Builds into `folder`; returns the command line for messages.
fn run(tool: Tool, folder: &Path) -> Result<String, BuildError> {
    let mut command = command(tool.recipe(), folder);
    if let Source::NpmPackage { module, .. } = tool.recipe().source {
        copy_lock_file(module, folder).map_err(|source| BuildError::Prepare {
            tool,
            path: folder.to_owned(),
            source,
        })?;
    }
    let program = match tool.recipe().source {
        Source::GoInstall { .. } | Source::GoModule { .. } => "go",
        Source::CargoInstall
        | Source::CargoInstallOptimized { .. }
        | Source::CargoInstallWith { .. } => "cargo",
        Source::Wheel { .. } => "python3",
        Source::NpmPackage { .. } => "npm",
    };
    execute(tool, program, &mut command)
}

/// Runs the command that builds a tool; returns the command line for messages.
fn execute(tool: Tool, program: &'static str, command: &mut Command) -> Result<String, BuildError> {
    let line = command_line(command);
    let status = command.stdin(Stdio::null()).status().map_err(|source| BuildError::Start {
        tool,
        program,
        source,
    })?;
    if status.success() {
        Ok(line)
    } else {
        Err(BuildError::Failed { tool, command: line, status })
    }
}

/// npm installs into the folder that has the lock file.
fn copy_lock_file(module: &str, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(modules().join(module).join(name), folder.join(name))?;
    }
    Ok(())
}

/// The command that builds a recipe into `folder`.
fn command(recipe: Recipe, folder: &Path) -> Command {
    let Recipe { name, version, source, .. } = recipe;
    match source {
        Source::GoInstall { package } => {
            let mut go = go("install", &[]);
            go.arg(format!("{package}@v{version}")).env("GOBIN", folder);
            go
        }
        Source::GoModule { module, package, stamp, tags } => {
            let stamp = stamp.map(|variable| format!("-X {variable}=v{version}"));
            let mut go = go("build", stamp.as_slice());
            if !tags.is_empty() {
                go.args(["-tags", tags]);
            }
            go.arg("-o").arg(folder.join(name)).arg(package).current_dir(modules().join(module));
            go
        }
        Source::CargoInstall
        | Source::CargoInstallOptimized { .. }
        | Source::CargoInstallWith { .. } => {
            let mut cargo = Command::new("cargo");
            cargo.args(["install", name, "--version", version, "--locked", "--root"]).arg(folder);
            // It runs for seconds: optimizing it would take longer than it saves.
            cargo.arg("--debug").env("CARGO_PROFILE_DEV_DEBUG", "false");
            // Dependencies that tools share with each other or with this workspace are compiled once.
            cargo.env("CARGO_TARGET_DIR", build_folder());
            if let Source::CargoInstallOptimized { dependencies } = source {
                for package in dependencies {
                    cargo.arg(format!("--config=profile.dev.package.{package}.opt-level=2"));
                }
            }
            if let Source::CargoInstallWith { features } = source {
                cargo.args(["--no-default-features", "--features", features]);
            }
            cargo
        }
        Source::Wheel { module, .. } => {
            let mut python = Command::new("python3");
            python.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]);
            python.arg("--requirement").arg(modules().join(module).join("requirements.txt"));
            python.arg("--target").arg(folder);
            python
        }
        Source::NpmPackage { .. } => {
            let mut npm = Command::new("npm");
            // Scripts of packages run third-party programs; none is needed.
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
            npm
        }
    }
}

/// Where this workspace is compiled.
fn build_folder() -> PathBuf {
    let workspace = modules().join("..");
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace.join(folder),
        None => workspace.join("target"),
    }
}

/// Static programs without paths of this machine in them.
fn go(verb: &str, linker_flags: &[String]) -> Command {
    let mut go = Command::new("go");
    let flags = [&["-s".to_owned(), "-w".to_owned()], linker_flags].concat().join(" ");
    go.args([verb, "-trimpath", "-ldflags", &flags]).env("CGO_ENABLED", "0");
    go
}

fn command_line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_tool_is_not_built_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path(), None);
        let program = cache.program(Tool::Etcd);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "kept").unwrap();
        assert_eq!(build(&cache, Tool::Etcd).unwrap(), program);
        assert_eq!(fs::read(&program).unwrap(), b"kept");
    }

    #[test]
    fn every_build_pins_the_version_of_the_table() {
        for tool in Tool::ALL {
            let line = command_line(&command(tool.recipe(), Path::new("/out")));
            let pinned_by_file = matches!(
                tool.recipe().source,
                Source::GoModule { stamp: None, .. }
                    | Source::Wheel { .. }
                    | Source::NpmPackage { .. }
            );
            assert!(pinned_by_file || line.contains(tool.recipe().version), "{line}");
            assert!(!line.contains("@latest"), "{line}");
        }
    }

    #[test]
    fn a_module_is_built_in_its_committed_folder_with_its_version_stamped() {
        let command = command(Tool::KubeApiserver.recipe(), Path::new("/out"));
        let folder = command.get_current_dir().unwrap();
        assert!(folder.ends_with("tools/kubernetes"), "{}", folder.display());
        assert!(folder.join("go.sum").is_file());
        let line = command_line(&command);
        assert!(line.contains("-X k8s.io/component-base/version.gitVersion=v1.36.3"), "{line}");
        assert!(
            line.contains("-o /out/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver"),
            "{line}"
        );
    }
}
