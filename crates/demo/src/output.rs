//! What the demo prints.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(super) fn heading(text: &str) {
    println!("\n==> {text}");
}

pub(super) fn show_line(text: &str) {
    println!("    {text}");
}

pub(super) fn show_command(text: &str) {
    println!("$ {text}");
}

pub(super) fn show_text(text: &str) {
    for line in text.lines() {
        println!("    {line}");
    }
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Prints the files and folders in a folder, with their sizes.
pub(super) fn show_files(folder: &Path) -> Result<()> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Usage { files, bytes } = disk_usage(&path)?;
        let (slash, count) = match path.is_dir() {
            true => ("/", format!("  {files} files")),
            false => ("", String::new()),
        };
        println!("    {:20} {:>8}{count}", format!("{name}{slash}"), megabytes(bytes));
    }
    Ok(())
}

struct Usage {
    files: usize,
    bytes: u64,
}

fn disk_usage(path: &Path) -> Result<Usage> {
    let found = fs::symlink_metadata(path)
        .with_context(|| format!("reading the size of {}", path.display()))?;
    if !found.is_dir() {
        return Ok(Usage { files: 1, bytes: found.len() });
    }
    entries(path)?.iter().try_fold(Usage { files: 0, bytes: 0 }, |sum, path| {
        let Usage { files, bytes } = disk_usage(path)?;
        Ok(Usage { files: sum.files + files, bytes: sum.bytes + bytes })
    })
}

/// The paths in a folder, sorted.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", folder.display());
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>())
        .with_context(reading)?;
    paths.sort();
    Ok(paths)
}
