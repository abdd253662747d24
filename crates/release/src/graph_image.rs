//! The content of the image of the update graph (`graph: true`).
//!
//! An update service in the cluster copies the graph's data out of this image. The
//! same data give the same layer, byte for byte: entries are sorted, and
//! owners, times and modes are fixed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use image_layer::gzip::GzipWriter;
use oci::Digest;
use tar::{Archive, Builder, EntryType, Header};

/// Where the data is in the image.
const FOLDER: &str = "var/lib/cincinnati-graph-data";
/// Some hundred times the real data.
const MAX_UNPACKED_BYTES: u64 = 256 << 20;
const MAX_FILES: usize = 100_000;
const MAX_NAME_BYTES: usize = 512;

/// The layer to put on the base image, and what the image does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphLayer {
    /// Gzipped, as a registry holds it.
    pub packed: Vec<u8>,
    /// The digest of the tar archive inside.
    pub diff_id: Digest,
    /// What the image runs: it hands the data to the update service.
    pub command: Vec<String>,
    /// For users who want to know where the layer comes from.
    pub made_by: String,
}

#[derive(Debug, thiserror::Error)]
pub enum GraphDataError {
    #[error(
        "the data of the update graph is a web page: a proxy or a login page may have responded"
    )]
    Html,
    #[error("the data of the update graph is not a gzipped tar archive, or is damaged")]
    Broken(#[source] std::io::Error),
    #[error("the data of the update graph unpacks to more than {} MiB", MAX_UNPACKED_BYTES >> 20)]
    Large,
    #[error("the data of the update graph has more than {MAX_FILES} files")]
    Many,
    #[error("the data of the update graph has a file that leads out of it: {0:?}")]
    Traversal(String),
    #[error("the data of the update graph has no channels: it is something else")]
    NoChannels,
}

/// Makes the layer of `data`, a gzipped tar archive as the update service offers it.
pub fn layer(data: &[u8]) -> Result<GraphLayer, GraphDataError> {
    if data.trim_ascii_start().starts_with(b"<") {
        return Err(GraphDataError::Html);
    }
    let files = unpack(data)?;
    if !files.keys().any(|name| name.starts_with("channels/")) {
        return Err(GraphDataError::NoChannels);
    }
    let tar = pack(&files).map_err(GraphDataError::Broken)?;
    let mut gzip = GzipWriter::new(Vec::new()).map_err(GraphDataError::Broken)?;
    gzip.write_all(&tar).map_err(GraphDataError::Broken)?;
    let packed = gzip.finish().map_err(GraphDataError::Broken)?;
    let copy = format!("exec cp -rp /{FOLDER}/* /var/lib/cincinnati/graph-data");
    Ok(GraphLayer {
        packed,
        diff_id: Digest::of(&tar),
        command: vec!["/bin/bash".into(), "-c".into(), copy],
        made_by: format!("oc-mirror: data of the update graph in /{FOLDER}"),
    })
}

/// All files of the archive, by name. Links and other things are left out: the
/// data has none.
fn unpack(data: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, GraphDataError> {
    let unpacked = flate2::read::GzDecoder::new(data).take(MAX_UNPACKED_BYTES + 1);
    let mut bytes = Vec::new();
    let mut unpacked = unpacked;
    unpacked.read_to_end(&mut bytes).map_err(GraphDataError::Broken)?;
    if bytes.len() as u64 > MAX_UNPACKED_BYTES {
        return Err(GraphDataError::Large);
    }
    let mut files = BTreeMap::new();
    let mut archive = Archive::new(&bytes[..]);
    for entry in archive.entries().map_err(GraphDataError::Broken)? {
        let mut entry = entry.map_err(GraphDataError::Broken)?;
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if path.starts_with('/') || parts.contains(&"..") || path.len() > MAX_NAME_BYTES {
            return Err(GraphDataError::Traversal(path.chars().take(MAX_NAME_BYTES).collect()));
        }
        let mut body = Vec::new();
        entry.read_to_end(&mut body).map_err(GraphDataError::Broken)?;
        files.insert(parts.join("/"), body);
        if files.len() > MAX_FILES {
            return Err(GraphDataError::Many);
        }
    }
    Ok(files)
}

fn pack(files: &BTreeMap<String, Vec<u8>>) -> std::io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    let mut folders = BTreeSet::new();
    for name in files.keys() {
        let path = format!("{FOLDER}/{name}");
        folders.extend(path.match_indices('/').map(|(end, _)| path[..=end].to_owned()));
    }
    for folder in &folders {
        tar.append_data(&mut header(EntryType::Directory, 0), folder, &[][..])?;
    }
    for (name, body) in files {
        let mut header = header(EntryType::Regular, body.len() as u64);
        tar.append_data(&mut header, format!("{FOLDER}/{name}"), &body[..])?;
    }
    tar.into_inner()
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, GzBuilder};

    use super::*;

    fn data(entries: &[(&str, &[u8])], time: u64) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (name, body) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(body.len() as u64);
            header.set_mtime(time);
            header.set_uid(1_000_850);
            header.set_mode(0o600);
            header.set_entry_type(EntryType::Regular);
            header.set_cksum();
            tar.append(&header, *body).unwrap();
        }
        let mut gzip = GzBuilder::new().mtime(time as u32).write(Vec::new(), Compression::fast());
        gzip.write_all(&tar.into_inner().unwrap()).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn the_same_data_give_the_same_layer_in_whatever_order_and_on_whatever_day() {
        let one = data(&[("./version", b"1.1.0\n"), ("channels/a.yaml", b"name: a\n")], 1);
        let other = data(&[("channels/a.yaml", b"name: a\n"), ("version", b"1.1.0\n")], 2);
        let made = layer(&one).unwrap();
        assert_eq!(made, layer(&other).unwrap());

        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(&made.packed[..]).read_to_end(&mut tar).unwrap();
        assert_eq!(Digest::of(&tar), made.diff_id);
        let mut listed = Vec::new();
        for entry in Archive::new(&tar[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 0));
            let mut body = String::new();
            entry.read_to_string(&mut body).unwrap();
            listed.push((
                entry.path().unwrap().display().to_string(),
                header.mode().unwrap(),
                body,
            ));
        }
        let expected = [
            ("var/", 0o755, ""),
            ("var/lib/", 0o755, ""),
            ("var/lib/cincinnati-graph-data/", 0o755, ""),
            ("var/lib/cincinnati-graph-data/channels/", 0o755, ""),
            ("var/lib/cincinnati-graph-data/channels/a.yaml", 0o644, "name: a\n"),
            ("var/lib/cincinnati-graph-data/version", 0o644, "1.1.0\n"),
        ];
        let listed: Vec<_> =
            listed.iter().map(|(path, mode, body)| (path.as_str(), *mode, body.as_str())).collect();
        assert_eq!(listed, expected);
    }

    #[test]
    fn what_is_not_graph_data_is_refused() {
        assert!(matches!(layer(b" <html>"), Err(GraphDataError::Html)));
        assert!(matches!(layer(b"{}"), Err(GraphDataError::Broken(_))));
        let whole = data(&[("channels/a.yaml", b"name: a\n")], 1);
        assert!(matches!(layer(&whole[..whole.len() / 2]), Err(GraphDataError::Broken(_))));
        assert!(matches!(layer(&data(&[("version", b"1")], 1)), Err(GraphDataError::NoChannels)));
        for path in ["../channels/a.yaml", "channels/../../a.yaml", "/channels/a.yaml"] {
            assert!(matches!(layer(&data(&[(path, b"x")], 1)), Err(GraphDataError::Traversal(_))));
        }
    }
}
