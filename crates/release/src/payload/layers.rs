//! The few files of interest, out of the layers of a payload image.
//!
//! Layers are read from the top down. The first layer that says something about a
//! file (here it is, or: it was removed) has the last word, so reading stops
//! as soon as every file is settled and the large layers at the bottom are
//! rarely opened. Nothing is unpacked: names are compared, never used as paths,
//! and every size is bounded.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use tar::{Archive, EntryType};

/// The folder of a payload in which all these files are.
const FOLDER: &str = "release-manifests";
const IMAGE_REFERENCES: &str = "image-references";
const RELEASE_METADATA: &str = "release-metadata";
const BOOT_IMAGES: &str = "0000_50_installer_coreos-bootimages.yaml";

/// Real files are a hundred times smaller.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// What a layer may unpack to; real ones have some hundred megabytes.
const MAX_LAYER_BYTES: u64 = 8 << 30;
/// What a name may take in a tar archive that gives it room of its own.
const MAX_NAME_BYTES: u64 = 64 << 10;
/// How much memory a frame of zstd may ask for: 2 to this power.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Which files are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The list of images and the release's metadata.
    Components,
    /// The boot images, too.
    BootImages,
}

/// How a layer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The files found so far.
#[derive(Debug)]
pub struct PayloadFiles {
    files: BTreeMap<&'static str, State>,
}

/// What is known about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Unknown,
    Found(Vec<u8>),
    /// A layer removed it, or put something else in its place.
    Gone,
}

#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("a layer of the release payload cannot be unpacked")]
    Broken(#[source] std::io::Error),
    #[error("a layer of the release payload unpacks to more than {} GiB", MAX_LAYER_BYTES >> 30)]
    LargeLayer,
    #[error("{FOLDER}/{} in the release payload is larger than {} MiB", .0, MAX_FILE_BYTES >> 20)]
    LargeFile(&'static str),
    #[error("a layer of the release payload has a name of more than {} KiB", MAX_NAME_BYTES >> 10)]
    LongName,
    #[error("a layer of the release payload has a file that leads out of it: {0:?}")]
    Traversal(String),
    #[error("{FOLDER}/{0} in the release payload is no file but a link, which is not followed")]
    Link(&'static str),
    #[error("the release payload has no {FOLDER}/{IMAGE_REFERENCES}: it is no OpenShift release")]
    NoReferences,
}

impl Compression {
    /// By the first bytes of a layer, which do not lie as media types may.
    pub fn sniff(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

impl PayloadFiles {
    pub fn new(wanted: Wanted) -> Self {
        let names: &[&'static str] = match wanted {
            Wanted::Components => &[IMAGE_REFERENCES, RELEASE_METADATA],
            Wanted::BootImages => &[IMAGE_REFERENCES, RELEASE_METADATA, BOOT_IMAGES],
        };
        Self { files: names.iter().map(|name| (*name, State::Unknown)).collect() }
    }

    /// Whether no further layer can change anything.
    pub fn is_settled(&self) -> bool {
        self.files.values().all(|state| *state != State::Unknown)
    }

    /// Reads the next layer down, packed as it is stored. The caller starts with the
    /// topmost one.
    pub fn read_layer(
        &mut self,
        compression: Compression,
        packed: impl Read,
    ) -> Result<(), LayerError> {
        let packed = BufReader::new(packed);
        match compression {
            Compression::None => self.read_tar(packed),
            Compression::Gzip => self.read_tar(flate2::bufread::MultiGzDecoder::new(packed)),
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(packed).map_err(LayerError::Broken)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(LayerError::Broken)?;
                self.read_tar(decoder)
            }
        }
    }

    /// Reads the next layer down as a plain tar archive.
    pub fn read_tar(&mut self, tar: impl Read) -> Result<(), LayerError> {
        let mut layer = Layer::default();
        let mut limited = tar.take(MAX_LAYER_BYTES + 1);
        let outcome = layer.read(&mut limited, &self.files);
        if limited.limit() == 0 {
            return Err(LayerError::LargeLayer);
        }
        outcome?;
        for (name, state) in &mut self.files {
            if *state == State::Unknown {
                *state = layer.verdict(name)?;
            }
        }
        Ok(())
    }

    /// The list of images; every release has one.
    pub fn image_references(&self) -> Result<&[u8], LayerError> {
        self.found(IMAGE_REFERENCES).ok_or(LayerError::NoReferences)
    }

    pub fn release_metadata(&self) -> Option<&[u8]> {
        self.found(RELEASE_METADATA)
    }

    pub fn boot_images(&self) -> Option<&[u8]> {
        self.found(BOOT_IMAGES)
    }

    fn found(&self, name: &str) -> Option<&[u8]> {
        match self.files.get(name) {
            Some(State::Found(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

/// What one layer says.
#[derive(Debug, Default)]
struct Layer {
    found: BTreeMap<&'static str, Thing>,
    /// Names that the layer removes from those below it.
    removed: Vec<String>,
    /// The folder itself is removed, emptied or no folder any more.
    folder_gone: bool,
}

/// What stands in the place of a wanted file.
#[derive(Debug)]
enum Thing {
    File(Vec<u8>),
    Link,
    Other,
}

impl Layer {
    fn verdict(&mut self, name: &'static str) -> Result<State, LayerError> {
        match self.found.remove(name) {
            Some(Thing::File(bytes)) => Ok(State::Found(bytes)),
            Some(Thing::Link) => Err(LayerError::Link(name)),
            Some(Thing::Other) => Ok(State::Gone),
            None if self.folder_gone || self.removed.iter().any(|gone| gone == name) => {
                Ok(State::Gone)
            }
            None => Ok(State::Unknown),
        }
    }

    fn read(
        &mut self,
        tar: impl Read,
        wanted: &BTreeMap<&'static str, State>,
    ) -> Result<(), LayerError> {
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
                    self.take(&path, kind, &mut entry, wanted)?;
                }
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        path: &[u8],
        kind: EntryType,
        body: &mut impl Read,
        wanted: &BTreeMap<&'static str, State>,
    ) -> Result<(), LayerError> {
        let Some(parts) = parts(path)? else { return Ok(()) };
        match parts[..] {
            [".wh..wh..opq" | ".wh.release-manifests"] => self.folder_gone = true,
            [FOLDER] if kind != EntryType::Directory => self.folder_gone = true,
            [FOLDER, ".wh..wh..opq"] => self.folder_gone = true,
            [FOLDER, name] => {
                if let Some(removed) = name.strip_prefix(".wh.") {
                    self.removed.push(removed.to_owned());
                } else if let Some((name, _)) = wanted.get_key_value(name) {
                    let thing = match kind {
                        EntryType::Regular | EntryType::Continuous => {
                            Thing::File(file(name, body)?)
                        }
                        EntryType::Link | EntryType::Symlink => Thing::Link,
                        _ => Thing::Other,
                    };
                    self.found.insert(name, thing);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The components of a path, `None` if they are no text: no such file is wanted.
fn parts(path: &[u8]) -> Result<Option<Vec<&str>>, LayerError> {
    let Ok(path) = std::str::from_utf8(path) else { return Ok(None) };
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(LayerError::Traversal(path.to_owned()));
    }
    Ok(Some(parts))
}

fn bounded(entry: &mut impl Read) -> Result<Vec<u8>, LayerError> {
    let mut bytes = Vec::new();
    entry.take(MAX_NAME_BYTES + 1).read_to_end(&mut bytes).map_err(LayerError::Broken)?;
    if bytes.len() as u64 > MAX_NAME_BYTES {
        return Err(LayerError::LongName);
    }
    Ok(bytes)
}

fn file(name: &'static str, body: &mut impl Read) -> Result<Vec<u8>, LayerError> {
    let mut bytes = Vec::new();
    body.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(LayerError::Broken)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(LayerError::LargeFile(name));
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
            // The length of what follows would be another one than its header says.
            b"size" => {
                let reason = "a file of more than 8 GiB in a release payload";
                return Err(LayerError::Broken(std::io::Error::other(reason)));
            }
            _ => {}
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests;
