//! Layers of images: reads which paths a layer adds and removes, and adds layers to an image.
//!
//! Nothing is unpacked: names are compared, never used as paths. Layers are untrusted input, so every
//! size is limited.
//!
//! # Example
//!
//! ```
//! use image_layer::{Change, LayerError};
//!
//! let mut tar = tar::Builder::new(Vec::new());
//! let mut header = tar::Header::new_ustar();
//! header.set_size(2);
//! header.set_mode(0o644);
//! tar.append_data(&mut header, "configs/a.yaml", &b"a\n"[..]).unwrap();
//! let mut found = Vec::new();
//! image_layer::read(&tar.into_inner().unwrap()[..], |entry| {
//!     found.push((entry.path().join("/"), entry.change));
//!     Ok::<(), LayerError>(())
//! })?;
//! assert_eq!(found, [("configs/a.yaml".to_owned(), Change::File)]);
//! # Ok::<(), LayerError>(())
//! ```

pub mod gzip;
pub mod stack;

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use tar::{Archive, EntryType};

/// The largest size of an unpacked layer; real ones have some hundred megabytes.
const MAX_LAYER_BYTES: u64 = 8 << 30;
/// The largest size of a tar header that contains a long name.
const MAX_NAME_BYTES: u64 = 64 << 10;
/// How much memory a frame of zstd may request: 2 to this power.
const ZSTD_WINDOW_LOG: u32 = 27;

/// The prefix of a name that the layer removes.
const WHITEOUT: &str = ".wh.";
/// Removes all that the layers below have in a folder.
const OPAQUE: &str = ".wh..wh..opq";

#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("a layer cannot be unpacked")]
    Broken(#[source] io::Error),
    #[error("a layer unpacks to more than {} GiB", MAX_LAYER_BYTES >> 30)]
    Large,
    #[error("a layer has a name of more than {} KiB", MAX_NAME_BYTES >> 10)]
    LongName,
    #[error("a layer has a file that leads out of it: {0:?}")]
    Traversal(String),
}

/// What an entry of a layer states about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    File,
    Folder,
    /// To another name, hard or symbolic.
    Link,
    /// A device, or something else that has no content.
    Special,
    /// The path of the layers below is removed.
    Gone,
    /// All that the layers below have in this folder is removed.
    Emptied,
}

/// One entry. Removals apply to the layers below only, whatever the order of the entries.
pub struct Entry<'e> {
    path: &'e [&'e str],
    pub change: Change,
    /// The content of a file; empty for all others.
    pub body: &'e mut dyn Read,
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("path", &self.path).field("change", &self.change).finish()
    }
}

impl<'e> Entry<'e> {
    /// The components of the path that the entry is about, none of them `.` or `..`.
    pub fn path(&self) -> &'e [&'e str] {
        self.path
    }
}

/// Calls `visit` with the entries of a layer, in their order. The layer is a tar file, plain or
/// compressed with gzip or zstd.
pub fn read<E: From<LayerError>>(
    packed: impl Read,
    visit: impl FnMut(&mut Entry<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let packed = BufReader::with_capacity(128 << 10, packed);
    let mut tar = unpacked(packed).map_err(LayerError::Broken)?.take(MAX_LAYER_BYTES + 1);
    let outcome = read_tar(&mut tar, visit);
    // At the limit, an archive that is too large appears to be truncated.
    if tar.limit() == 0 {
        return Err(LayerError::Large.into());
    }
    outcome
}

/// Selects the compression by the first bytes of a layer, since media types may be wrong.
fn unpacked<'r>(mut packed: impl BufRead + 'r) -> io::Result<Box<dyn Read + 'r>> {
    Ok(match packed.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(packed)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::Decoder::with_buffer(packed)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        _ => Box::new(packed),
    })
}

fn read_tar<E: From<LayerError>>(
    tar: impl Read,
    mut visit: impl FnMut(&mut Entry<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut archive = Archive::new(tar);
    // Raw, because the library would read a name of any length into memory.
    let entries = archive.entries().map_err(LayerError::Broken)?.raw(true);
    let mut long_name: Option<Vec<u8>> = None;
    for entry in entries {
        let mut entry = entry.map_err(LayerError::Broken)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                let mut name = bounded(&mut entry)?;
                name.truncate(name.iter().position(|b| *b == 0).unwrap_or(name.len()));
                long_name = Some(name);
            }
            EntryType::XHeader => long_name = pax_path(&bounded(&mut entry)?)?.or(long_name),
            EntryType::GNULongLink | EntryType::XGlobalHeader => {}
            kind => {
                let path = match long_name.take() {
                    Some(name) => name,
                    None => entry.path_bytes().into_owned(),
                };
                let path = String::from_utf8_lossy(&path);
                let parts = parts(&path)?;
                let (path, change) = interpret(&parts, kind);
                // Invalid names are not needed.
                if !path.contains(&"") {
                    visit(&mut Entry { path: &path, change, body: &mut entry })?;
                }
            }
        }
    }
    Ok(())
}

/// The path that an entry is about, and its change.
fn interpret<'p>(parts: &[&'p str], kind: EntryType) -> (Vec<&'p str>, Change) {
    if let Some((name, parents)) = parts.split_last() {
        if *name == OPAQUE {
            return (parents.to_vec(), Change::Emptied);
        }
        if let Some(gone) = name.strip_prefix(WHITEOUT) {
            return (parents.iter().copied().chain([gone]).collect(), Change::Gone);
        }
    }
    let change = match kind {
        EntryType::Regular | EntryType::Continuous => Change::File,
        EntryType::Directory => Change::Folder,
        EntryType::Link | EntryType::Symlink => Change::Link,
        _ => Change::Special,
    };
    (parts.to_vec(), change)
}

fn parts(path: &str) -> Result<Vec<&str>, LayerError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(LayerError::Traversal(path.to_owned()));
    }
    Ok(parts)
}

fn bounded(entry: &mut impl Read) -> Result<Vec<u8>, LayerError> {
    let mut bytes = Vec::new();
    entry.take(MAX_NAME_BYTES + 1).read_to_end(&mut bytes).map_err(LayerError::Broken)?;
    if bytes.len() as u64 > MAX_NAME_BYTES {
        return Err(LayerError::LongName);
    }
    Ok(bytes)
}

/// The path in an extended header.
fn pax_path(header: &[u8]) -> Result<Option<Vec<u8>>, LayerError> {
    let mut path = None;
    for record in tar::PaxExtensions::new(header) {
        let record = record.map_err(LayerError::Broken)?;
        match record.key_bytes() {
            b"path" => path = Some(record.value_bytes().to_vec()),
            // The size of the file would differ from the one in its header.
            b"size" => {
                let reason = "a layer has a file of more than 8 GiB";
                return Err(LayerError::Broken(io::Error::other(reason)));
            }
            _ => {}
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
