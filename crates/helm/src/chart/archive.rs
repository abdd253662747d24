//! Chart archives: a tar file packed with gzip, whose files are below one folder.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::{Budget, ChartError, File, MAX_CHART_BYTES, MAX_FILE_BYTES, MAX_FILES, without_mark};

/// What the tar file may take beside the content of its files: headers, long names, padding.
const MAX_TAR_BYTES: u64 = MAX_CHART_BYTES + (MAX_FILES as u64) * 4096;

#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("the file is not a gzip archive; expected a chart packed as .tgz")]
    NotGzip,
    #[error("the archive cannot be unpacked")]
    Broken(#[source] std::io::Error),
    #[error("the archive has the path {0:?}, which leads out of the chart")]
    Traversal(String),
    #[error("the archive has the absolute path {0:?}")]
    Absolute(String),
    #[error("the archive has the link {0:?}; charts have files only")]
    Link(String),
    #[error("the archive has {0:?}, which is neither a file nor a folder")]
    Special(String),
    #[error("the archive has a name that is not UTF-8 text")]
    Name,
    #[error("the archive has the file {0:?} outside of the chart's folder")]
    OutsideFolder(String),
    #[error("the archive has no files")]
    Empty,
}

/// The files of an archive, without the folder that they are in.
pub fn unpack(packed: &[u8]) -> Result<Vec<File>, ChartError> {
    unpack_within(packed, &Budget::default())
}

/// As [`unpack`]. `budget` limits what is unpacked; the loader takes from it what it keeps.
pub(super) fn unpack_within(packed: &[u8], budget: &Budget) -> Result<Vec<File>, ChartError> {
    if !packed.starts_with(&[0x1f, 0x8b]) {
        return Err(ArchiveError::NotGzip.into());
    }
    let mut tar = MultiGzDecoder::new(packed).take(MAX_TAR_BYTES);
    let outcome = read_tar(&mut tar, budget);
    // Behind the limit, a decompression bomb appears as a truncated archive.
    if tar.limit() == 0 {
        return Err(ChartError::Size);
    }
    outcome
}

fn read_tar(tar: impl Read, budget: &Budget) -> Result<Vec<File>, ChartError> {
    let mut archive = Archive::new(tar);
    let mut files = Vec::new();
    let mut left = budget.bytes;
    for entry in archive.entries().map_err(ArchiveError::Broken)? {
        let mut entry = entry.map_err(ArchiveError::Broken)?;
        let kind = entry.header().entry_type();
        let path = String::from_utf8(entry.path_bytes().into_owned());
        let path = path.map_err(|_| ArchiveError::Name)?;
        match kind {
            EntryType::Directory | EntryType::XGlobalHeader | EntryType::XHeader => {
                checked(&path)?;
                continue;
            }
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Link | EntryType::Symlink => return Err(ArchiveError::Link(path).into()),
            _ => return Err(ArchiveError::Special(path).into()),
        }
        let parts = checked(&path)?;
        let Some((_, inside)) = parts.split_first().filter(|(_, inside)| !inside.is_empty()) else {
            return Err(ArchiveError::OutsideFolder(path).into());
        };
        let name = inside.join("/");
        let size = entry.size();
        if size > MAX_FILE_BYTES {
            return Err(ChartError::FileSize(name));
        }
        left = left.checked_sub(size).ok_or(ChartError::Size)?;
        if files.len() >= budget.files {
            return Err(ChartError::Files);
        }
        let mut data = Vec::new();
        entry.read_to_end(&mut data).map_err(ArchiveError::Broken)?;
        files.push(File { name, data: without_mark(&data).into() });
    }
    if files.is_empty() {
        return Err(ArchiveError::Empty.into());
    }
    Ok(files)
}

/// The parts of a path that stays inside.
fn checked(path: &str) -> Result<Vec<&str>, ArchiveError> {
    // Archives that are made on Windows may have backslashes.
    let is_drive = |part: &str| part.len() == 2 && part.ends_with(':');
    let parts: Vec<&str> = path.split(['/', '\\']).collect();
    if path.starts_with(['/', '\\']) || parts.iter().any(|part| is_drive(part)) {
        return Err(ArchiveError::Absolute(path.to_owned()));
    }
    if parts.contains(&"..") {
        return Err(ArchiveError::Traversal(path.to_owned()));
    }
    Ok(parts.into_iter().filter(|part| !matches!(*part, "" | ".")).collect())
}
