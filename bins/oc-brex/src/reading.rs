//! Files that are read: bounded, and with their name in every error.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::inventory::FoundFile;

/// Lists of all MachineConfigs of a cluster are large; what is larger is something else.
const MAX_TEXT: u64 = 64 << 20;
/// No document is larger.
const MAX_DOCUMENT: u64 = 1 << 20;
/// No cluster has more hosts.
const MAX_FILES: usize = 10_000;

/// Reads a text; `-` is standard input.
pub(crate) fn text(path: &Path) -> Result<String> {
    let reading = || format!("reading {}", path.display());
    let mut text = String::new();
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(fs::File::open(path).with_context(reading)?)
    };
    source.take(MAX_TEXT + 1).read_to_string(&mut text).with_context(reading)?;
    if text.len() as u64 > MAX_TEXT {
        bail!("reading {}: it has more than {} MiB", path.display(), MAX_TEXT >> 20);
    }
    Ok(text)
}

/// Reads the bytes of one document.
pub(crate) fn document(path: &Path) -> Result<Vec<u8>> {
    let reading = || format!("reading {}", path.display());
    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(reading)?;
    file.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes).with_context(reading)?;
    if bytes.len() as u64 > MAX_DOCUMENT {
        bail!("reading {}: it has more than 1 MiB, and no document has", path.display());
    }
    Ok(bytes)
}

/// Reads all files of a folder and the folders in it, hidden ones left out.
pub(crate) fn folder(top: &Path) -> Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> = vec![top.to_owned()];
    while let Some(folder) = waiting.pop() {
        let reading = || format!("reading {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(reading)? {
            let path = entry.with_context(reading)?.path();
            let below = path.strip_prefix(top).unwrap_or(&path);
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                continue;
            }
            let kind =
                fs::metadata(&path).with_context(|| format!("reading {}", path.display()))?;
            // Deeper ones are an error, which their files are to show.
            if kind.is_dir() && below.components().count() <= 3 {
                waiting.push(path.clone());
            }
            let is_document = path.extension().is_some_and(|it| it == "yml" || it == "yaml");
            if !kind.is_file() || !is_document {
                continue;
            }
            let name = below
                .to_str()
                .with_context(|| format!("reading {}: its name is not UTF-8", path.display()))?;
            found.push(FoundFile { path: name.to_owned(), bytes: document(&path)? });
            if found.len() > MAX_FILES {
                bail!("{} holds more than {MAX_FILES} documents", top.display());
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
