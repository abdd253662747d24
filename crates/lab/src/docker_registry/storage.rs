//! docker-registry's content on disk, written past the registry: filling one
//! over HTTP takes many times as long.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use oci::{Digest, RawManifest, Repository, Tag};
use tempfile::NamedTempFile;

use crate::corpus::Corpus;
use crate::images::{Blob, Image};
use crate::parallel;

/// A storage directory of docker-registry. A registry that runs on it serves
/// what is put in from then on.
#[derive(Debug, Clone)]
pub struct Storage {
    root: PathBuf,
}

impl Storage {
    /// The storage in `directory`, which need not exist yet.
    pub fn new(directory: &Path) -> Self {
        Self { root: directory.join("docker/registry/v2") }
    }

    /// Stores an image with its attachments.
    pub fn put_image(&self, image: &Image, repository: &Repository, tag: &Tag) -> Result<()> {
        for blob in image.blobs.values() {
            self.put_blob(blob)?;
        }
        self.link_image(image, repository, tag)
    }

    /// Stores a complete corpus, on all processors. Blobs that are there
    /// already are not written again.
    pub fn put_corpus(&self, corpus: &Corpus) -> Result<()> {
        let blobs: BTreeMap<&Digest, &Blob> =
            corpus.entries.iter().flat_map(|entry| &entry.image.blobs).collect();
        let blobs: Vec<_> = blobs.into_values().collect();
        parallel::each(&blobs, |blob| self.put_blob(blob))?;
        for entry in &corpus.entries {
            self.link_image(&entry.image, &entry.repository, &entry.tag)?;
        }
        Ok(())
    }

    /// Removes all content.
    pub fn wipe(&self) -> Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.root.display()))
            }
            _ => Ok(()),
        }
    }

    fn link_image(&self, image: &Image, repository: &Repository, tag: &Tag) -> Result<()> {
        let of = self.root.join("repositories").join(repository.as_str());
        for digest in image.blobs.keys() {
            link(&of.join("_layers/sha256").join(digest.hex()), digest)?;
        }
        for manifest in &image.manifests {
            self.put_manifest(&of, manifest, None)?;
        }
        self.put_manifest(&of, image.root(), Some(tag))?;
        for attachment in &image.attachments {
            self.put_manifest(&of, &attachment.manifest, attachment.tag.as_ref())?;
        }
        Ok(())
    }

    fn put_manifest(&self, of: &Path, manifest: &RawManifest, tag: Option<&Tag>) -> Result<()> {
        self.put_blob(&Blob::from_bytes(manifest.bytes.clone()))?;
        let digest = &manifest.digest;
        link(&of.join("_manifests/revisions/sha256").join(digest.hex()), digest)?;
        if let Some(tag) = tag {
            let tag = of.join("_manifests/tags").join(tag.as_str());
            link(&tag.join("index/sha256").join(digest.hex()), digest)?;
            link(&tag.join("current"), digest)?;
        }
        Ok(())
    }

    fn put_blob(&self, blob: &Blob) -> Result<()> {
        let hex = blob.digest.hex();
        let dir = self.root.join("blobs/sha256").join(&hex[..2]).join(&hex);
        let path = dir.join("data");
        if fs::metadata(&path).is_ok_and(|held| held.len() == blob.size) {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            fs::create_dir_all(&dir)?;
            let mut file = NamedTempFile::new_in(&dir)?;
            let mut buffered = BufWriter::with_capacity(256 << 10, &mut file);
            blob.write_to(&mut buffered)?;
            buffered.flush()?;
            drop(buffered);
            file.persist(&path)?;
            Ok(())
        };
        write().with_context(|| format!("writing {}", path.display()))
    }
}

fn link(dir: &Path, digest: &Digest) -> Result<()> {
    let path = dir.join("link");
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&path, digest.to_string()))
        .with_context(|| format!("writing {}", path.display()))
}
