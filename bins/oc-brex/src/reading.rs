//! Files that are read: bounded, and with their name in every error.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::node_state::{self, NodeState};
use br_ex_authoring::inventory::FoundFile;
use command_line::print_message;

/// Lists of all MachineConfigs of a cluster are large; what is larger is something else.
const MAX_TEXT: u64 = 64 << 20;
/// No document is larger.
const MAX_DOCUMENT: u64 = 1 << 20;
/// All files of a folder together.
const MAX_FOLDER: u64 = 256 << 20;
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

/// Reads states of nodes, and names the parts that were left out.
pub(crate) fn states(path: &Path) -> Result<Vec<NodeState>> {
    let states = node_state::parse(&text(path)?);
    let states = states.with_context(|| format!("reading {}", path.display()))?;
    for note in states.iter().flat_map(|state| &state.notes) {
        print_message(&format!("note: {}: {note}", path.display()));
    }
    Ok(states)
}

/// The name of a node, if this is one and not a file. Paths and names of documents are files, also
/// where they are missing: a mistyped name must not send requests to a cluster.
pub(crate) fn node(source: &Path) -> Option<&str> {
    let name = source.to_str()?;
    let is_file = name == "-"
        || name.contains('/')
        || [".yml", ".yaml", ".json"].iter().any(|extension| name.ends_with(extension))
        || source.exists();
    (!is_file).then_some(name)
}

/// Reads the bytes of one document.
pub(crate) fn document(path: &Path) -> Result<Vec<u8>> {
    bounded(path, MAX_DOCUMENT)
}

/// Reads the bytes of a file that may be a document or a manifest.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>> {
    bounded(path, MAX_TEXT)
}

fn bounded(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let reading = || format!("reading {}", path.display());
    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(reading)?;
    file.take(limit + 1).read_to_end(&mut bytes).with_context(reading)?;
    if bytes.len() as u64 > limit {
        bail!("reading {}: expected at most {} MiB", path.display(), limit >> 20);
    }
    Ok(bytes)
}

/// Reads all YAML files of a folder and the folders in it. Hidden files are skipped; other files
/// are named on standard error. Every command reads folders with this function.
pub(crate) fn folder(top: &Path) -> Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut size = 0;
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
            if kind.is_file() && !is_document {
                print_message(&format!(
                    "note: not read: {} ends neither in .yml nor in .yaml",
                    path.display()
                ));
            }
            if !kind.is_file() || !is_document {
                continue;
            }
            let name = below
                .to_str()
                .with_context(|| format!("reading {}: its name is not UTF-8", path.display()))?;
            let bytes = bytes(&path)?;
            size += bytes.len() as u64;
            found.push(FoundFile { path: name.to_owned(), bytes });
            if found.len() > MAX_FILES {
                bail!("{} holds more than {MAX_FILES} documents", top.display());
            }
            if size > MAX_FOLDER {
                bail!("reading {}: expected at most {} MiB", top.display(), MAX_FOLDER >> 20);
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
