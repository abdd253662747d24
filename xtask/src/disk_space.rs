//! Checks the free disk space, so that a run that would fill the disk fails at its start.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repository;

const GB: u64 = 1_000_000_000;
/// What one run of all steps writes below the build folder.
const BUILD: u64 = 10 * GB;
/// The most that tests and campaigns store in the folder for temporary files at one time.
const TEMPORARY: u64 = 4 * GB;

/// Fails if the disk is too small. The size of an earlier build is subtracted.
pub(crate) fn check() -> Result<()> {
    let build = repository::target();
    let needs = [
        (existing(&build), BUILD.saturating_sub(size(&build))),
        (existing(&std::env::temp_dir()), TEMPORARY),
    ];
    for (filesystem, free, needed) in by_filesystem(&needs)? {
        println!("    {filesystem}: {} free, {} needed", gigabytes(free), gigabytes(needed));
        ensure!(
            free >= needed,
            "expected {} of free disk space at {filesystem}, found {}: remove old build folders, or \
             set CARGO_TARGET_DIR and TMPDIR to folders on a larger disk",
            gigabytes(needed),
            gigabytes(free)
        );
    }
    Ok(())
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / GB as f64)
}

/// The nearest folder that exists.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// The disk usage of a folder; 0 if it does not exist.
fn size(folder: &Path) -> u64 {
    let du = Command::new("du").args(["--summarize", "--block-size=1"]).arg(folder).output();
    let text = du.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// Mount point, free bytes and the bytes that are needed there, for each filesystem once.
fn by_filesystem(needs: &[(PathBuf, u64)]) -> Result<Vec<(String, u64, u64)>> {
    let mut found: Vec<(String, u64, u64)> = Vec::new();
    for (folder, needed) in needs {
        let mut df = Command::new("df");
        df.args(["--block-size=1", "--output=avail,target"]).arg(folder);
        let output = df.output().context("starting `df`")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (free, mount) = parse(&text)
            .with_context(|| format!("reading the free space of {}", folder.display()))?;
        match found.iter_mut().find(|(known, ..)| known == mount) {
            Some((.., sum)) => *sum += needed,
            None => found.push((mount.to_owned(), free, *needed)),
        }
    }
    Ok(found)
}

/// The second line of `df --output=avail,target`.
fn parse(text: &str) -> Option<(u64, &str)> {
    let (free, mount) = text.lines().nth(1)?.trim().split_once(' ')?;
    Some((free.parse().ok()?, mount.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_from_df() {
        let text = "      Avail Mounted on\n 6871947673 /mnt/with space\n";
        assert_eq!(parse(text), Some((6_871_947_673, "/mnt/with space")));
        assert_eq!(parse("Avail Mounted on\n"), None);
    }

    #[test]
    fn folders_on_one_filesystem_are_added_up() {
        let here = repository::root();
        let needs = [(here.clone(), 3), (here.join("xtask"), 4)];
        let found = by_filesystem(&needs).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].2, 7);
        assert!(found[0].1 > 0);
    }

    #[test]
    fn a_build_folder_that_does_not_exist_is_on_the_disk_of_its_parent() {
        let root = repository::root();
        assert_eq!(existing(&root.join("no/such/folder")), root);
        assert_eq!(size(&root.join("no/such/folder")), 0);
        assert!(size(&root.join("xtask")) > 0);
    }
}
