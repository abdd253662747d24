//! The few files of interest, out of the layers of a payload image.
//!
//! Layers are read from the top down. The first layer with an entry for a
//! file (here it is, or: it was removed) has the last word, so reading stops
//! as soon as every file is settled and the large layers at the bottom are
//! rarely opened. Nothing is unpacked: names are compared, never used as paths,
//! and every size is bounded.

use std::collections::BTreeMap;
use std::io::Read;

use image_layer::{Change, Entry};

/// The folder of a payload in which all these files are.
const FOLDER: &str = "release-manifests";
const IMAGE_REFERENCES: &str = "image-references";
const RELEASE_METADATA: &str = "release-metadata";
const BOOT_IMAGES: &str = "0000_50_installer_coreos-bootimages.yaml";

/// Real files are a hundred times smaller.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Which files are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The list of images and the release's metadata.
    Components,
    /// The boot images, too.
    BootImages,
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
    #[error("the release payload cannot be read")]
    Layer(#[from] image_layer::LayerError),
    #[error("{FOLDER}/{} in the release payload is larger than {} MiB", .0, MAX_FILE_BYTES >> 20)]
    LargeFile(&'static str),
    #[error("{FOLDER}/{0} in the release payload is a link, which is not followed")]
    Link(&'static str),
    #[error(
        "the release payload has no {FOLDER}/{IMAGE_REFERENCES}: it is not an OpenShift release"
    )]
    NoReferences,
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
    pub fn read_layer(&mut self, packed: impl Read) -> Result<(), LayerError> {
        let mut layer = Layer::default();
        image_layer::read(packed, |entry| layer.take(entry, &self.files))?;
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

/// The entries of one layer.
#[derive(Debug, Default)]
struct Layer {
    found: BTreeMap<&'static str, EntryKind>,
    /// Names that the layer removes from those below it.
    removed: Vec<String>,
    /// The folder itself is removed, emptied or no folder any more.
    folder_gone: bool,
}

/// What is at the path of a wanted file.
#[derive(Debug)]
enum EntryKind {
    File(Vec<u8>),
    Link,
    Other,
}

impl Layer {
    fn verdict(&mut self, name: &'static str) -> Result<State, LayerError> {
        match self.found.remove(name) {
            Some(EntryKind::File(bytes)) => Ok(State::Found(bytes)),
            Some(EntryKind::Link) => Err(LayerError::Link(name)),
            Some(EntryKind::Other) => Ok(State::Gone),
            None if self.folder_gone || self.removed.iter().any(|gone| gone == name) => {
                Ok(State::Gone)
            }
            None => Ok(State::Unknown),
        }
    }

    fn take(
        &mut self,
        entry: &mut Entry<'_>,
        wanted: &BTreeMap<&'static str, State>,
    ) -> Result<(), LayerError> {
        match (entry.path(), entry.change) {
            ([], Change::Emptied) | ([FOLDER], Change::Gone | Change::Emptied) => {
                self.folder_gone = true;
            }
            ([FOLDER], change) if change != Change::Folder => self.folder_gone = true,
            ([FOLDER, name], Change::Gone) => self.removed.push((*name).to_owned()),
            ([FOLDER, name], change) => {
                if let Some((name, _)) = wanted.get_key_value(*name) {
                    let thing = match change {
                        Change::File => EntryKind::File(file(name, entry.body)?),
                        Change::Link => EntryKind::Link,
                        _ => EntryKind::Other,
                    };
                    self.found.insert(name, thing);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn file(name: &'static str, body: &mut dyn Read) -> Result<Vec<u8>, LayerError> {
    let mut bytes = Vec::new();
    let read = body.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(image_layer::LayerError::Broken)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(LayerError::LargeFile(name));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
