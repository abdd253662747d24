//! Blobs: small ones as bytes, large ones as the recipe that makes them.

use std::io::{self, BufWriter, Read, Write};

use anyhow::{Context, Result};
use bytes::Bytes;
use flate2::write::GzEncoder;
use oci::{Descriptor, Digest, HashingWriter, MediaType};

use crate::random::Keystream;

/// Blobs up to this size are kept as bytes; generating them again costs more.
const KEPT_IN_MEMORY: u64 = 64 << 10;

/// Content with its digest. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Blob {
    /// The digest of the content.
    pub digest: Digest,
    /// The length of the content.
    pub size: u64,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Bytes(Bytes),
    Layer(Recipe),
}

/// How a layer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// A bare tar.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// A layer of an image: a tar with one directory and one file of random bytes.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The layer as a registry holds it.
    pub blob: Blob,
    /// How it is packed.
    pub compression: Compression,
    /// The digest of the tar inside.
    pub diff_id: Digest,
}

/// All that is needed to make a layer again.
#[derive(Debug, Clone)]
struct Recipe {
    name: String,
    size: u64,
    compression: Compression,
}

impl Blob {
    /// A blob of these bytes.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            digest: Digest::of(&bytes),
            size: bytes.len() as u64,
            content: Content::Bytes(bytes),
        }
    }

    /// Writes the content, without holding all of it.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.content {
            Content::Bytes(bytes) => out.write_all(bytes),
            Content::Layer(recipe) => recipe.write_to(out).map(drop),
        }
    }

    /// The content, in memory.
    pub fn bytes(&self) -> io::Result<Bytes> {
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes.clone()),
            Content::Layer(recipe) => {
                let mut bytes = Vec::with_capacity(self.size as usize);
                recipe.write_to(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }

    /// A descriptor that points at this blob.
    pub fn descriptor(&self, media_type: &str) -> Descriptor {
        Descriptor::new(MediaType::new(media_type), self.digest, self.size)
    }
}

impl Layer {
    /// Makes a layer of about `size` bytes once, to compute its digest. The
    /// content depends on `name` and `size` alone; packing barely shrinks it.
    pub fn generate(name: &str, size: u64, compression: Compression) -> Result<Self> {
        let recipe = Recipe { name: name.into(), size, compression };
        let making = || format!("generating the layer {name:?}");
        if size <= KEPT_IN_MEMORY {
            let mut bytes = Vec::new();
            let diff_id = recipe.write_to(&mut bytes).with_context(making)?;
            return Ok(Self { blob: Blob::from_bytes(bytes), compression, diff_id });
        }
        let mut hashed = HashingWriter::new(io::sink());
        let diff_id = recipe.write_to(&mut hashed).with_context(making)?;
        let size = hashed.length();
        let (_, digest) = hashed.finish();
        Ok(Self {
            blob: Blob { digest, size, content: Content::Layer(recipe) },
            compression,
            diff_id,
        })
    }
}

impl Layer {
    /// A layer with these files, gzipped: paths and contents. Paths are taken
    /// as they are, also those that no honest image has.
    pub fn from_files(files: &[(&str, &[u8])]) -> Result<Self> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = header(tar::EntryType::Regular, content.len() as u64);
            let name = header.as_old_mut().name.get_mut(..path.len());
            name.with_context(|| format!("{path} is too long"))?.copy_from_slice(path.as_bytes());
            header.set_cksum();
            tar.append(&header, *content).with_context(|| format!("packing {path}"))?;
        }
        let tar = tar.into_inner().context("packing files")?;
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).context("packing files")?;
        let packed = gzip.finish().context("packing files")?;
        Ok(Self {
            blob: Blob::from_bytes(packed),
            compression: Compression::Gzip,
            diff_id: Digest::of(&tar),
        })
    }
}

impl Recipe {
    /// Writes the layer and returns the digest of the tar inside.
    fn write_to(&self, out: &mut dyn Write) -> io::Result<Digest> {
        match self.compression {
            Compression::None => self.write_tar(out),
            Compression::Gzip => {
                // Random bytes do not shrink: trying to would only cost time.
                let mut gzip = GzEncoder::new(out, flate2::Compression::none());
                let diff_id = self.write_tar(&mut gzip)?;
                gzip.finish()?;
                Ok(diff_id)
            }
            Compression::Zstd => {
                let mut zstd = zstd::Encoder::new(out, 1)?;
                let diff_id = self.write_tar(&mut zstd)?;
                zstd.finish()?;
                Ok(diff_id)
            }
        }
    }

    fn write_tar(&self, out: &mut dyn Write) -> io::Result<Digest> {
        let mut hashed = HashingWriter::new(BufWriter::with_capacity(64 << 10, out));
        let mut tar = tar::Builder::new(&mut hashed);
        let directory = format!("lab/{}/", Digest::of(self.name.as_bytes()).short());
        tar.append_data(&mut header(tar::EntryType::Directory, 0), &directory, io::empty())?;
        let content = Keystream::new(&self.name)?.take(self.size);
        let mut file = header(tar::EntryType::Regular, self.size);
        tar.append_data(&mut file, format!("{directory}content"), content)?;
        tar.finish()?;
        drop(tar);
        hashed.flush()?;
        Ok(hashed.finish().1)
    }
}

fn header(kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mtime(0);
    header.set_mode(if kind.is_dir() { 0o755 } else { 0o644 });
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_a_layer_gives_the_tar_of_its_diff_id() {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let layer = Layer::generate("x", 200_000, compression).unwrap();
            let packed = layer.blob.bytes().unwrap();
            assert_eq!(Digest::of(&packed), layer.blob.digest, "{compression:?}");
            assert_eq!(packed.len() as u64, layer.blob.size, "{compression:?}");
            let mut tar = Vec::new();
            match compression {
                Compression::None => tar.extend_from_slice(&packed),
                Compression::Gzip => {
                    flate2::read::GzDecoder::new(&packed[..])
                        .read_to_end(&mut tar)
                        .map(drop)
                        .unwrap();
                }
                Compression::Zstd => tar = zstd::decode_all(&packed[..]).unwrap(),
            }
            assert_eq!(Digest::of(&tar), layer.diff_id, "{compression:?}");
            let sizes: Vec<_> = tar::Archive::new(&tar[..])
                .entries()
                .unwrap()
                .map(|entry| entry.unwrap().size())
                .collect();
            assert_eq!(sizes, [0, 200_000]);
        }
    }

    #[test]
    fn a_large_layer_is_a_recipe_and_writes_the_same_bytes_each_time() {
        let layer = Layer::generate("large", 5 << 20, Compression::Gzip).unwrap();
        assert!(matches!(layer.blob.content, Content::Layer(_)));
        let mut first = Vec::new();
        layer.blob.write_to(&mut first).unwrap();
        assert_eq!(first, layer.blob.bytes().unwrap());
    }
}
