//! Where a collection goes: a folder, or a tar archive on standard output.

use std::fs;
use std::io::{self, Stdout, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

pub(super) enum Sink {
    Folder(PathBuf),
    Archive(Box<tar::Builder<Stdout>>),
}

impl Sink {
    /// A folder that is new or empty, or `-`.
    pub(super) fn new(output: &Path) -> Result<Self> {
        if output == Path::new("-") {
            return Ok(Self::Archive(Box::new(tar::Builder::new(io::stdout()))));
        }
        fs::create_dir_all(output).with_context(|| format!("creating {}", output.display()))?;
        let mut entries =
            fs::read_dir(output).with_context(|| format!("listing {}", output.display()))?;
        ensure!(entries.next().is_none(), "{} is not empty; name a new folder", output.display());
        Ok(Self::Folder(output.to_owned()))
    }

    pub(super) fn put(&mut self, file: &str, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(file);
                let writing = || format!("writing {}", path.display());
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent).with_context(writing)?;
                fs::write(&path, bytes).with_context(writing)
            }
            Self::Archive(archive) => {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                header.set_mode(0o600);
                let path = format!("brex-firstboot/{file}");
                archive
                    .append_data(&mut header, path, bytes)
                    .with_context(|| format!("archiving {file}"))
            }
        }
    }

    pub(super) fn finish(self) -> Result<()> {
        match self {
            Self::Folder(_) => Ok(()),
            Self::Archive(archive) => {
                let mut out = archive.into_inner().context("ending the archive")?;
                out.flush().context("writing the archive")
            }
        }
    }
}
