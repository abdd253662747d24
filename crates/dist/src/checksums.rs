//! SHA256SUMS, and its signature in the key format of cosign.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};
use test_tools::Tool;

use crate::command;

pub(crate) const FILE: &str = "SHA256SUMS";
pub(crate) const SIGNATURE: &str = "SHA256SUMS.sig";

/// The SHA-256 of a file, in hexadecimal.
pub(crate) fn of_file(path: &Path) -> Result<String> {
    let reading = || format!("reading {}", path.display());
    let mut file = File::open(path).with_context(reading)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).with_context(reading)? {
            0 => return Ok(hex::encode(hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// Writes SHA256SUMS for all other files of a folder, in the format of `sha256sum`.
pub(crate) fn write(folder: &Path) -> Result<BTreeMap<String, String>> {
    let listing = || format!("listing {}", folder.display());
    let mut sums = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(listing)? {
        let entry = entry.with_context(listing)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && name != FILE && name != SIGNATURE {
            sums.insert(name, of_file(&entry.path())?);
        }
    }
    let text: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    let path = folder.join(FILE);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(sums)
}

/// Reads SHA256SUMS: sums by file name.
pub(crate) fn read(folder: &Path) -> Result<BTreeMap<String, String>> {
    let path = folder.join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    text.lines()
        .map(|line| match line.split_once("  ") {
            Some((sum, name)) => Ok((name.to_owned(), sum.to_owned())),
            None => bail!("{}: expected `SUM  FILE`, found `{line}`", path.display()),
        })
        .collect()
}

/// Signs SHA256SUMS with a private key of cosign. `COSIGN_PASSWORD` unlocks it.
pub(crate) fn sign(folder: &Path, key: &Path) -> Result<()> {
    let mut cosign = Command::new(test_tools::path(Tool::Cosign)?);
    cosign.args(["sign-blob", "--yes", "--tlog-upload=false", "--key"]).arg(key);
    cosign.arg("--output-signature").arg(folder.join(SIGNATURE)).arg(folder.join(FILE));
    command::output(&mut cosign).context("signing SHA256SUMS")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256sum_accepts_the_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b c"), "one").unwrap();
        fs::write(folder.path().join("a"), "two").unwrap();
        let sums = write(folder.path()).unwrap();
        assert_eq!(sums, read(folder.path()).unwrap());
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--strict", FILE]).current_dir(folder.path());
        assert_eq!(command::output(&mut check).unwrap(), "a: OK\nb c: OK\n");
    }
}
