//! Layers of a rebuilt catalog: the same files give the same bytes, on every machine.

use std::io::{self, Write as _};

use image_layer::gzip::GzipWriter;
use oci::{Digest, HashingWriter};

use crate::write::CatalogFile;

/// Where the catalog is in a rebuilt image.
pub const CATALOG_FOLDER: &str = "/configs";

/// A layer: a tar, packed with gzip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub bytes: Vec<u8>,
    /// Of the packed bytes, by which registries know it.
    pub digest: Digest,
    /// Of the tar inside, as in the config of the image.
    pub diff_id: Digest,
}

/// The layer that removes content of layers below it: the folders `gone`, and what is in
/// the folders `emptied`. Paths are absolute.
pub fn hiding_layer(gone: &[&str], emptied: &[&str]) -> io::Result<Layer> {
    let mut names: Vec<String> = Vec::new();
    for path in gone {
        let path = path.trim_matches('/');
        let (parent, name) =
            path.rsplit_once('/').map_or(("", path), |(parent, name)| (parent, name));
        let parent = if parent.is_empty() { String::new() } else { format!("{parent}/") };
        names.push(format!("{parent}.wh.{name}"));
    }
    names.extend(emptied.iter().map(|path| format!("{}/.wh..wh..opq", path.trim_matches('/'))));
    names.sort();
    names.dedup();
    pack(|tar| names.iter().try_for_each(|name| tar.append_data(&mut file(0), name, io::empty())))
}

/// The layer with the files of a catalog.
pub fn catalog_layer(files: &[CatalogFile<'_>]) -> io::Result<Layer> {
    let root = CATALOG_FOLDER.trim_start_matches('/');
    pack(|tar| {
        tar.append_data(&mut folder(), format!("{root}/"), io::empty())?;
        for entry in files {
            if let Some((parent, _)) = entry.path.rsplit_once('/') {
                tar.append_data(&mut folder(), format!("{root}/{parent}/"), io::empty())?;
            }
            let mut header = file(entry.size());
            header.set_path(format!("{root}/{}", entry.path))?;
            header.set_cksum();
            // Straight from the catalog's parts: a second copy of it would be the larger half of the
            // memory in use.
            let out = tar.get_mut();
            out.write_all(header.as_bytes())?;
            entry.write_to(out)?;
            let padding = (512 - entry.size() % 512) % 512;
            out.write_all(&[0; 512][..usize::try_from(padding).unwrap_or_default()])?;
        }
        Ok(())
    })
}

fn file(size: u64) -> tar::Header {
    header(tar::EntryType::Regular, 0o644, size)
}

fn folder() -> tar::Header {
    header(tar::EntryType::Directory, 0o755, 0)
}

/// No times, no names of users: nothing of the machine that packs.
fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

type Packer = HashingWriter<GzipWriter<HashingWriter<Vec<u8>>>>;

fn pack(fill: impl FnOnce(&mut tar::Builder<Packer>) -> io::Result<()>) -> io::Result<Layer> {
    let gzip = GzipWriter::new(HashingWriter::new(Vec::new()))?;
    let mut tar = tar::Builder::new(HashingWriter::new(gzip));
    fill(&mut tar)?;
    let (gzip, diff_id) = tar.into_inner()?.finish();
    let (bytes, digest) = gzip.finish()?.finish();
    Ok(Layer { bytes, digest, diff_id })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn names(layer: &Layer) -> Vec<String> {
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(&layer.bytes[..]).read_to_end(&mut tar).unwrap();
        assert_eq!(Digest::of(&tar), layer.diff_id);
        assert_eq!(Digest::of(&layer.bytes), layer.digest);
        let mut archive = tar::Archive::new(&tar[..]);
        let entries = archive.entries().unwrap();
        entries.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn what_is_hidden_is_named_as_layers_do_it() {
        let layer = hiding_layer(&["/configs", "/var/lib/old/"], &["/tmp/cache"]).unwrap();
        assert_eq!(names(&layer), [".wh.configs", "tmp/cache/.wh..wh..opq", "var/lib/.wh.old"]);
    }
}
