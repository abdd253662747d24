//! Where a collection is written: a folder, or a tar archive on standard output.

use std::fmt;
use std::fs;
use std::io::{self, Stdout, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The folder or archive, and the folder inside of the archive.
pub struct Sink {
    target: Target,
}

enum Target {
    Folder(PathBuf),
    Archive { archive: Box<tar::Builder<Stdout>>, top: String },
}

// An unfinished archive has no representation for logs.
impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.target {
            Target::Folder(_) => "Sink(folder)",
            Target::Archive { .. } => "Sink(archive)",
        })
    }
}

impl Sink {
    /// A folder that is new or empty, or `-` for an archive on standard output, whose files are below
    /// `top`.
    ///
    /// # Errors
    /// If the folder cannot be created, or is not empty.
    pub fn new(output: &Path, top: &str) -> Result<Self> {
        if output == Path::new("-") {
            let archive = Box::new(tar::Builder::new(io::stdout()));
            return Ok(Self { target: Target::Archive { archive, top: top.to_owned() } });
        }
        fs::create_dir_all(output).with_context(|| format!("creating {}", output.display()))?;
        let mut entries =
            fs::read_dir(output).with_context(|| format!("listing {}", output.display()))?;
        ensure!(entries.next().is_none(), "{} is not empty; name a new folder", output.display());
        Ok(Self { target: Target::Folder(output.to_owned()) })
    }

    /// Adds a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, file: &str, bytes: &[u8]) -> Result<()> {
        match &mut self.target {
            Target::Folder(folder) => {
                let path = folder.join(file);
                let writing = || format!("writing {}", path.display());
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent).with_context(writing)?;
                fs::write(&path, bytes).with_context(writing)
            }
            Target::Archive { archive, top } => {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                header.set_mode(0o600);
                let path = Path::new(top.as_str()).join(file);
                archive
                    .append_data(&mut header, path, bytes)
                    .with_context(|| format!("archiving {file}"))
            }
        }
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// If the end of the archive cannot be written.
    pub fn finish(self) -> Result<()> {
        match self.target {
            Target::Folder(_) => Ok(()),
            Target::Archive { archive, .. } => {
                let mut out = archive.into_inner().context("ending the archive")?;
                out.flush().context("writing the archive")
            }
        }
    }
}
