//! Runs a program in the root of a package or an image, in namespaces of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::architecture::Architecture;
use crate::command;
use crate::elf::Elf;

/// Mounts what the program needs and nothing is installed in the root, then changes the root. `$1` is
/// the root, `$2` the user, `$3` what to mount; the rest is the command.
const ENTER: &str = "\
root=$1 user=$2 mounts=$3; shift 3
mkdir -p \"$root/proc\"
mount -t proc proc \"$root/proc\"
for path in $mounts; do
    if [ -d \"$path\" ]; then mkdir -p \"$root$path\"; else : >\"$root$path\"; fi
    mount --bind \"$path\" \"$root$path\"
done
exec chroot --userspec=\"$user\" \"$root\" \"$@\"";

/// The command that runs `words` below `root`, without network. Debug programs get the libraries of
/// this machine; programs of other architectures get the emulator.
pub(crate) fn command(
    root: &Path,
    architecture: Architecture,
    user: &str,
    words: &[&str],
) -> Result<Command> {
    let program = words.first().context("there is no program to run")?;
    let file = root.join(program.trim_start_matches('/'));
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let mut mounts = Vec::new();
    if architecture.is_native()
        && Elf::parse(&bytes).is_ok_and(|elf| elf.has_interpreter)
        && !root.join("lib64").exists()
    {
        mounts.extend(["/lib", "/lib64", "/usr/lib"].map(str::to_owned));
    }
    let mut line: Vec<String> = Vec::new();
    if let Some(emulator) = architecture.emulator() {
        let mut which = Command::new("which");
        let path = command::output(which.arg(&emulator)).with_context(|| {
            format!("{emulator} is missing; `apt-get install qemu-user-static` installs it")
        })?;
        // /usr/bin may not exist in the root.
        fs::create_dir_all(root.join("usr/bin")).context("creating usr/bin")?;
        mounts.push(path.trim().to_owned());
        line.push(path.trim().to_owned());
    }
    line.extend(words.iter().map(|word| (*word).to_owned()));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]);
    command.args(["--propagation", "private", "--", "/bin/sh", "-ec", ENTER, "sh"]);
    command.arg(root).arg(user).arg(mounts.join(" ")).args(line);
    command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    Ok(command)
}

/// Runs it and returns its standard output.
pub(crate) fn output(
    root: &Path,
    architecture: Architecture,
    user: &str,
    words: &[&str],
) -> Result<String> {
    command::output(&mut command(root, architecture, user, words)?)
}

/// That a root has no file of these names.
pub(crate) fn ensure_absent(root: &Path, paths: &[&str]) -> Result<()> {
    for path in paths {
        let file = root.join(path);
        ensure!(fs::symlink_metadata(&file).is_err(), "expected no {path} in the image");
    }
    Ok(())
}
