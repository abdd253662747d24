//! Documents on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use enhancement::Document;

/// The largest size of a document. A larger file is something else.
const MAX_BYTES: u64 = 1 << 20;

/// Finds the documents at `paths`, each once, sorted by path. Directories are
/// searched for `*.md`, except for hidden ones and links to directories.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
        if metadata.is_dir() {
            search(path, &mut found)?;
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn search(top: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        let reading = || format!("reading {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let kind = entry.file_type().with_context(reading)?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if kind.is_dir() && !is_hidden {
                directories.push(entry.path());
            } else if !kind.is_dir() && entry.path().extension().is_some_and(|it| it == "md") {
                found.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Reads and parses a document.
pub(crate) fn open(path: &Path) -> Result<Document> {
    let reading = || format!("reading {}", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Document::parse(&name, read_text(path).with_context(reading)?))
}

/// Reads a text file of limited size.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let size = fs::metadata(path)?.len();
    if size > MAX_BYTES {
        bail!("expected at most {MAX_BYTES} bytes, found {size}");
    }
    Ok(fs::read_to_string(path)?)
}
