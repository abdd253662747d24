//! Charts on this machine: a folder, or a packed chart.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use helm::chart::{self, Chart, ChartError, MAX_FILES};

use super::repository::{Fetched, MAX_ARCHIVE_BYTES, MAX_PROVENANCE_BYTES, Packed};
use crate::fault::{EngineError, Fault};

/// Why a chart on this machine cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is larger than {} MiB", path.display(), limit >> 20)]
    Large { path: PathBuf, limit: u64 },
    #[error("the link {} leads out of the chart", .0.display())]
    Link(PathBuf),
    #[error("a name in {} is not UTF-8 text", .0.display())]
    Name(PathBuf),
    #[error("the folder {} has more than {MAX_FILES} files", .0.display())]
    Files(PathBuf),
    #[error("reading the chart {}", path.display())]
    Chart { path: PathBuf, source: ChartError },
}

impl EngineError for LocalError {
    fn fault(&self) -> Fault {
        match self {
            Self::Read { .. } => Fault::Disk,
            Self::Large { .. }
            | Self::Link(_)
            | Self::Name(_)
            | Self::Files(_)
            | Self::Chart { .. } => Fault::Configuration,
        }
    }
}

/// The chart at `path`, without packing it where it is a folder: that takes longer than rendering
/// most charts.
pub(crate) fn load(path: &Path) -> Result<Chart, LocalError> {
    let chart = match path.is_dir() {
        true => Chart::from_folder(&Folder::files(path)?),
        false => Chart::from_archive(&file(path, MAX_ARCHIVE_BYTES)?),
    };
    chart.map_err(|source| LocalError::Chart { path: path.to_owned(), source })
}

/// Reads the chart at `path`; packs it where it is a folder.
pub(crate) fn read(path: &Path) -> Result<Fetched, LocalError> {
    let chart_error = |source| LocalError::Chart { path: path.to_owned(), source };
    if path.is_dir() {
        let (chart, archive) = chart::pack(&Folder::files(path)?).map_err(chart_error)?;
        return Ok(Fetched { chart, packed: Packed::Here { archive, provenance: None } });
    }
    let archive = file(path, MAX_ARCHIVE_BYTES)?;
    let chart = Chart::from_archive(&archive).map_err(chart_error)?;
    let mut signature = path.as_os_str().to_owned();
    signature.push(".prov");
    let signature = PathBuf::from(signature);
    let provenance = match signature.is_file() {
        true => Some(file(&signature, MAX_PROVENANCE_BYTES)?),
        false => None,
    };
    Ok(Fetched { chart, packed: Packed::Here { archive, provenance } })
}

/// A file, whole.
pub(super) fn file(path: &Path, limit: u64) -> Result<Vec<u8>, LocalError> {
    let fail = |source| LocalError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(fail)?.take(limit + 1).read_to_end(&mut bytes).map_err(fail)?;
    match bytes.len() as u64 > limit {
        true => Err(LocalError::Large { path: path.to_owned(), limit }),
        false => Ok(bytes),
    }
}

struct Folder {
    root: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
}

impl Folder {
    /// The files below `path`, by their paths from there.
    fn files(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, LocalError> {
        let mut folder = Self { root: canonical(path)?, files: BTreeMap::new() };
        folder.read(path, "")?;
        Ok(folder.files)
    }

    fn read(&mut self, folder: &Path, prefix: &str) -> Result<(), LocalError> {
        let fail = |source| LocalError::Read { path: folder.to_owned(), source };
        for entry in fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| LocalError::Name(folder.to_owned()))?;
            let target = canonical(&path)?;
            if !target.starts_with(&self.root) {
                return Err(LocalError::Link(path));
            }
            let name = format!("{prefix}{name}");
            if target.is_dir() {
                // A link to a folder above would never end.
                if folder.starts_with(&target) {
                    return Err(LocalError::Link(path));
                }
                self.read(&target, &format!("{name}/"))?;
                continue;
            }
            if self.files.len() >= MAX_FILES {
                return Err(LocalError::Files(self.root.clone()));
            }
            self.files.insert(name, file(&target, MAX_ARCHIVE_BYTES)?);
        }
        Ok(())
    }
}

fn canonical(path: &Path) -> Result<PathBuf, LocalError> {
    path.canonicalize().map_err(|source| LocalError::Read { path: path.to_owned(), source })
}
