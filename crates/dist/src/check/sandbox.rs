//! Runs a program in the root of a package or an image, in separate namespaces.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::architecture::Architecture;
use crate::command;
use crate::elf::Elf;

/// The dynamic linker of roots with their own libraries: must-gather.
const LINKER: &str = "lib64/ld-linux-x86-64.so.2";

/// Mounts what the program needs and the root does not have, then changes the root. `$1` is the root,
/// `$2` the user, `$3` folders of this machine, `$4` the emulator; the rest is the command. All of it
/// ends with the namespace, so that no file is left in the root.
const ENTER: &str = "\
root=$1 user=$2 folders=$3 emulator=$4; shift 4
mkdir -p \"$root/proc\" \"$root/tmp\"
mount -t proc proc \"$root/proc\"
mount -t tmpfs -o mode=1777 tmpfs \"$root/tmp\"
for folder in $folders; do
    mkdir -p \"$root$folder\"
    mount --bind \"$folder\" \"$root$folder\"
done
if [ -n \"$emulator\" ]; then
    : >\"$root/tmp/emulator\"
    mount --bind \"$emulator\" \"$root/tmp/emulator\"
    set -- /tmp/emulator \"$@\"
fi
exec chroot --userspec=\"$user\" \"$root\" \"$@\"";

/// The command that runs `words` below `root`, without network. Debug programs get the libraries of
/// this machine; programs of other architectures get the emulator.
pub(crate) fn command(
    root: &Path,
    architecture: Architecture,
    user: &str,
    words: &[&str],
) -> Result<Command> {
    let program = words.first().context("expected a program to run")?;
    let file = root.join(program.trim_start_matches('/'));
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let is_dynamic = Elf::parse(&bytes).is_ok_and(|elf| elf.has_interpreter);
    let needs_libraries = is_dynamic && architecture.is_native() && !root.join(LINKER).exists();
    let folders = if needs_libraries { "/lib /lib64 /usr/lib" } else { "" };
    let emulator = match architecture.emulator() {
        None => String::new(),
        Some(emulator) => {
            let mut which = Command::new("which");
            let path = command::output(which.arg(&emulator)).with_context(|| {
                format!("{emulator} is missing; `apt-get install qemu-user-static` installs it")
            })?;
            path.trim().to_owned()
        }
    };
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]);
    command.args(["--propagation", "private", "--", "/bin/sh", "-ec", ENTER, "sh"]);
    command.arg(root).arg(user).arg(folders).arg(emulator).args(words);
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

/// Fails if a root has a file with one of these paths.
pub(crate) fn ensure_absent(root: &Path, paths: &[&str]) -> Result<()> {
    for path in paths {
        let file = root.join(path);
        ensure!(fs::symlink_metadata(&file).is_err(), "expected no {path} in the image");
    }
    Ok(())
}
