//! What is wrong with a directory of archives.

use std::fmt;
use std::path::{Path, PathBuf};

use oci::Digest;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArchiveSeverity {
    /// Worth knowing; nothing of ours is affected.
    Note,
    /// Something of a run is not here. What is here can be used.
    Incomplete,
    /// Something is here and not as it was written.
    Damaged,
}

/// One thing that is wrong. Its text names the file, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArchiveFinding {
    /// A file without content.
    Empty { file: PathBuf },
    /// A tar file that is not an archive of this program.
    Foreign { file: PathBuf },
    /// An archive of oc-mirror v2, which [`crate::distribution`] reads.
    OcMirrorV2 { file: PathBuf },
    /// The index cannot be read.
    BadIndex { file: PathBuf, reason: String },
    /// A chunk of another length than it was written with.
    Length { file: PathBuf, run: u64, length: u64, expected: u64 },
    /// A chunk of a run, of which other chunks are here.
    Missing { file: PathBuf, run: u64, chunks: usize },
    /// A chunk of the right name and another content than a later run builds on.
    Replaced { file: PathBuf, run: u64 },
    /// A blob whose content does not match its digest.
    BadBlob { digest: Digest, run: u64, files: Vec<PathBuf> },
    /// Bytes around the contents that are not as they were written.
    BadFrame { file: PathBuf, run: u64, entry: String },
    /// A file that cannot be read.
    Unreadable { file: PathBuf, reason: String },
}

impl ArchiveFinding {
    /// The files it is about.
    pub fn files(&self) -> Vec<&Path> {
        match self {
            Self::BadBlob { files, .. } => files.iter().map(PathBuf::as_path).collect(),
            Self::Empty { file }
            | Self::Foreign { file }
            | Self::OcMirrorV2 { file }
            | Self::BadIndex { file, .. }
            | Self::Length { file, .. }
            | Self::Missing { file, .. }
            | Self::Replaced { file, .. }
            | Self::BadFrame { file, .. }
            | Self::Unreadable { file, .. } => vec![file],
        }
    }

    pub fn severity(&self) -> ArchiveSeverity {
        match self {
            Self::Foreign { .. } | Self::OcMirrorV2 { .. } => ArchiveSeverity::Note,
            Self::Missing { .. } => ArchiveSeverity::Incomplete,
            _ => ArchiveSeverity::Damaged,
        }
    }
}

impl fmt::Display for ArchiveFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { file } => {
                write!(f, "{}: empty archive file (copy it again)", file.display())
            }
            Self::Foreign { file } => {
                write!(f, "{} is not an archive of this program and is ignored", file.display())
            }
            Self::OcMirrorV2 { file } => {
                write!(f, "{} is an archive of oc-mirror v2 (push it with --from)", file.display())
            }
            Self::BadIndex { file, reason } => {
                write!(f, "{} is damaged: {reason} (copy it again)", file.display())
            }
            Self::Length { file, run, length, expected } => write!(
                f,
                "{} of run {run} is {length} bytes long and should be {expected} (copy it again)",
                file.display()
            ),
            Self::Missing { file, run, chunks } => write!(
                f,
                "{} is missing: run {run} wrote {chunks} archive files (copy it too; if it was never written, the run was interrupted: start it again)",
                file.display()
            ),
            Self::Replaced { file, run } => write!(
                f,
                "{} is not the file that run {run} builds on (use that of the same workspace and run)",
                file.display()
            ),
            Self::BadBlob { digest, run, files } => {
                write!(f, "blob {digest} of run {run} is damaged in ")?;
                for (position, file) in files.iter().enumerate() {
                    let comma = if position == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", file.display())?;
                }
                f.write_str(" (copy again)")
            }
            Self::BadFrame { file, run, entry } => {
                write!(
                    f,
                    "{} of run {run} is damaged around {entry} (copy it again)",
                    file.display()
                )
            }
            Self::Unreadable { file, reason } => {
                write!(f, "{} cannot be read: {reason}", file.display())
            }
        }
    }
}
