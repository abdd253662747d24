//! Documents on the disk: which there are, and what they say.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use enhancement::Document;

/// No document is larger; whatever is, is something else.
const MAX_SIZE: u64 = 1 << 20;

/// The documents at `paths`, each once, in the order of their names. Folders
/// are searched for `*.md`; hidden ones and links to folders are not entered.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let kind = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
        if kind.is_dir() {
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
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        let reading = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(reading)? {
            let entry = entry.with_context(reading)?;
            let kind = entry.file_type().with_context(reading)?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if kind.is_dir() && !is_hidden {
                folders.push(entry.path());
            } else if !kind.is_dir() && entry.path().extension().is_some_and(|it| it == "md") {
                found.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Reads a document.
pub(crate) fn read(path: &Path) -> Result<Document> {
    let reading = || format!("reading {}", path.display());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Document::parse(&name, read_text(path).with_context(reading)?))
}

/// Reads a text of a size that a document may have.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let size = fs::metadata(path)?.len();
    if size > MAX_SIZE {
        bail!("it has {size} bytes, and no document has more than {MAX_SIZE}");
    }
    Ok(fs::read_to_string(path)?)
}
