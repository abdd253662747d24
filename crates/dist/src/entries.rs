//! Files of an artefact: path, mode and content. All artefact formats are written from these.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    File(PathBuf),
    Bytes(Vec<u8>),
    Link(String),
    Folder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Relative to the root of the artefact, without a leading `/`.
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Content,
}

impl Entry {
    pub(crate) fn program(path: impl Into<String>, file: &Path) -> Self {
        Self { path: path.into(), mode: 0o755, content: Content::File(file.to_owned()) }
    }

    pub(crate) fn file(path: impl Into<String>, file: &Path) -> Self {
        Self { path: path.into(), mode: 0o644, content: Content::File(file.to_owned()) }
    }

    pub(crate) fn bytes(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, content: Content::Bytes(bytes.into()) }
    }

    pub(crate) fn link(path: impl Into<String>, to: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o777, content: Content::Link(to.into()) }
    }

    pub(crate) fn folder(path: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), mode, content: Content::Folder }
    }

    /// The same below another folder.
    pub(crate) fn below(mut self, folder: &str) -> Self {
        self.path = format!("{folder}/{}", self.path);
        self
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        match &self.content {
            Content::File(path) => {
                fs::read(path).with_context(|| format!("reading {}", path.display()))
            }
            Content::Bytes(bytes) => Ok(bytes.clone()),
            Content::Link(_) | Content::Folder => Ok(Vec::new()),
        }
    }
}

/// Writes the entries as a tar archive. The same entries give the same bytes: sorted, owned by root,
/// with one time, and with every parent folder.
pub(crate) fn write_tar(out: impl Write, entries: &[Entry], epoch: u64) -> Result<()> {
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut folders: BTreeSet<String> = entries
        .iter()
        .filter(|entry| entry.content == Content::Folder)
        .map(|entry| entry.path.clone())
        .collect();
    let mut builder = tar::Builder::new(out);
    for entry in entries {
        for parent in parents(&entry.path) {
            if folders.insert(parent.clone()) {
                append(&mut builder, &Entry::folder(parent, 0o755), epoch)?;
            }
        }
        append(&mut builder, entry, epoch)?;
    }
    builder.into_inner().and_then(|mut out| out.flush()).context("ending the archive")
}

fn append(builder: &mut tar::Builder<impl Write>, entry: &Entry, epoch: u64) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_mtime(epoch);
    header.set_uid(0);
    header.set_gid(0);
    let writing = || format!("writing {} to the archive", entry.path);
    match &entry.content {
        Content::Link(to) => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, &entry.path, to).with_context(writing)
        }
        Content::Folder => {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            let path = format!("{}/", entry.path);
            builder.append_data(&mut header, path, io::empty()).with_context(writing)
        }
        Content::File(_) | Content::Bytes(_) => {
            let bytes = entry.read()?;
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, &entry.path, bytes.as_slice()).with_context(writing)
        }
    }
}

/// `a`, `a/b` of `a/b/c`.
fn parents(path: &str) -> impl Iterator<Item = String> {
    path.match_indices('/').map(|(at, _)| path[..at].to_owned())
}

/// Writes the entries below a folder, for programs that read them from there.
pub(crate) fn write_folder(folder: &Path, entries: &[Entry]) -> Result<()> {
    for entry in entries {
        let path = folder.join(&entry.path);
        let writing = || format!("writing {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(writing)?;
        }
        match &entry.content {
            Content::Link(to) => symlink(to, &path).with_context(writing)?,
            Content::Folder => fs::create_dir_all(&path).with_context(writing)?,
            Content::File(_) | Content::Bytes(_) => {
                fs::write(&path, entry.read()?).with_context(writing)?;
                let mode = fs::Permissions::from_mode(entry.mode);
                fs::set_permissions(&path, mode).with_context(writing)?;
            }
        }
    }
    Ok(())
}

/// Compresses with gzip, without a time and a name in the header.
pub(crate) fn gzip(out: impl Write, compression: flate2::Compression) -> impl FinishGzip {
    flate2::GzBuilder::new().write(out, compression)
}

/// A compressor that has to be finished, since errors of the last write would be lost otherwise.
pub(crate) trait FinishGzip: Write {
    fn finish(self) -> io::Result<()>;
}

impl<W: Write> FinishGzip for flate2::write::GzEncoder<W> {
    fn finish(self) -> io::Result<()> {
        Self::finish(self).and_then(|mut out| out.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_tar(&mut bytes, entries, 1_700_000_000).unwrap();
        bytes
    }

    #[test]
    fn the_order_of_entries_and_the_time_of_files_do_not_change_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        fs::write(&file, "content").unwrap();
        let (a, b) = (Entry::program("x/f", &file), Entry::bytes("x/y/g", "g"));
        let first = archive(&[a.clone(), b.clone()]);
        fs::write(&file, "content").unwrap();
        assert_eq!(first, archive(&[b, a]));
    }

    #[test]
    fn every_parent_folder_is_in_the_archive_once() {
        let entries = [
            Entry::bytes("x/y/a", ""),
            Entry::bytes("x/y/b", ""),
            Entry::folder("x/tmp", 0o1777),
            Entry::link("x/l", "y/a"),
        ];
        let bytes = archive(&entries);
        let mut reader = tar::Archive::new(bytes.as_slice());
        let names: Vec<String> = reader
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["x/", "x/l", "x/tmp/", "x/y/", "x/y/a", "x/y/b"]);
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut out = gzip(full, flate2::Compression::fast());
        let written = write_tar(&mut out, &[Entry::bytes("a", vec![1; 1 << 20])], 0);
        let error = written.and_then(|()| Ok(out.finish()?)).unwrap_err();
        assert!(format!("{error:#}").contains("No space left on device"), "{error:#}");
    }
}
