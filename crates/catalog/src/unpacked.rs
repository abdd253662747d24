//! The files of a catalog, out of the layers of its image.
//!
//! Layers are read from the top down: what one states about a path, those below cannot change. So reading
//! ends where a layer hides everything below it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use image_layer::{Change, Entry, LayerError};

use crate::files::Files;
use crate::load_error::LoadError;

/// Twice the largest real catalog. All of it is held in memory.
const MAX_CATALOG_BYTES: u64 = 640 << 20;

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error(transparent)]
    Layer(#[from] LayerError),
    #[error("the files of the catalog are larger than {} MiB", MAX_CATALOG_BYTES >> 20)]
    Large,
    #[error("{0:?} is a link, which is not followed: put the file itself into the image")]
    Link(String),
}

/// The files below the folder of a catalog, as far as layers were read.
#[derive(Debug)]
pub struct Unpacked {
    folder: Vec<String>,
    files: BTreeMap<String, Vec<u8>>,
    bytes: u64,
    /// The most bytes that are read.
    limit: u64,
    /// Paths from the folder at and below which entries of further layers are ignored; the empty
    /// one is the folder.
    settled: BTreeSet<String>,
    /// Paths that are folders: what stood there below is none.
    folders: BTreeSet<String>,
}

/// The entries of one layer, by path from the folder.
#[derive(Debug, Default, PartialEq, Eq)]
struct LayerEntries {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeSet<String>,
    settled: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Unpacked {
    /// For a catalog in `folder`, an absolute path.
    pub fn new(folder: &str) -> Self {
        let parts = folder.split('/').filter(|part| !part.is_empty()).map(str::to_owned);
        Self {
            folder: parts.collect(),
            files: BTreeMap::new(),
            bytes: 0,
            limit: MAX_CATALOG_BYTES,
            settled: BTreeSet::new(),
            folders: BTreeSet::new(),
        }
    }

    /// Whether no further layer can change anything.
    pub fn is_settled(&self) -> bool {
        self.settled.contains("")
    }

    /// Reads the next layer down, as its registry has it. The caller starts with the topmost one.
    /// Returns whether it contained a part of the catalog.
    pub fn read_layer(&mut self, packed: impl Read) -> Result<bool, UnpackError> {
        let mut changes = LayerEntries::default();
        image_layer::read(packed, |entry| self.take(&mut changes, entry))?;
        if let Some(link) = changes.links.iter().find(|path| !self.is_hidden(path)) {
            let path = format!("/{}/{link}", self.folder.join("/"));
            return Err(UnpackError::Link(path.trim_end_matches('/').to_owned()));
        }
        let has_entries = changes != LayerEntries::default();
        for (path, bytes) in changes.files {
            if !self.is_hidden(&path) {
                self.files.insert(path.clone(), bytes);
            }
            changes.settled.insert(path);
        }
        self.settled.append(&mut changes.settled);
        self.settled.append(&mut changes.links);
        self.folders.append(&mut changes.folders);
        Ok(has_entries)
    }

    fn take(
        &mut self,
        changes: &mut LayerEntries,
        entry: &mut Entry<'_>,
    ) -> Result<(), UnpackError> {
        let Some(path) = self.below(entry) else { return Ok(()) };
        // Inside one layer the last entry counts, as it does for tar.
        if !matches!(entry.change, Change::Gone | Change::Emptied) {
            let before = changes.files.remove(&path).map_or(0, |bytes| bytes.len() as u64);
            self.bytes -= before;
            changes.links.remove(&path);
        }
        match entry.change {
            Change::File if path.is_empty() => drop(changes.settled.insert(path)),
            Change::File if self.is_hidden(&path) => {}
            Change::File => {
                let mut bytes = Vec::new();
                let room = self.limit - self.bytes;
                let read = (&mut *entry.body).take(room + 1).read_to_end(&mut bytes);
                self.bytes += read.map_err(LayerError::Broken)? as u64;
                if self.bytes > self.limit {
                    return Err(UnpackError::Large);
                }
                changes.files.insert(path, bytes);
            }
            Change::Folder => drop(changes.folders.insert(path)),
            Change::Link => drop(changes.links.insert(path)),
            Change::Special | Change::Gone | Change::Emptied => drop(changes.settled.insert(path)),
        }
        Ok(())
    }

    /// The path from the folder. An entry for a folder above applies to this one, unless it
    /// is that it exists.
    fn below(&self, entry: &Entry<'_>) -> Option<String> {
        let path = entry.path();
        let shared = path.iter().zip(&self.folder).all(|(one, other)| one == other);
        match path.get(self.folder.len()..) {
            Some(rest) if shared => Some(rest.join("/")),
            None if shared && entry.change != Change::Folder => Some(String::new()),
            _ => None,
        }
    }

    fn is_hidden(&self, path: &str) -> bool {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        self.folders.contains(path)
            || above.chain(["", path]).any(|path| self.settled.contains(path))
    }

    /// The files with their paths from the folder, in that order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (&**path, &**bytes))
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// The files, ready to be read as a catalog.
    pub fn files(&self) -> Result<Files<'_>, LoadError> {
        Files::read(self.iter())
    }
}

/// Two are the same when their files are.
impl PartialEq for Unpacked {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for Unpacked {}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, EntryType, Header};

    fn layer(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (name, kind, body) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(body.len() as u64);
            tar.append_data(&mut header, name, body.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn files(entries: &[(&str, &str)]) -> Vec<u8> {
        let entries = entries.iter().map(|(name, body)| (*name, EntryType::Regular, *body));
        layer(&entries.collect::<Vec<_>>())
    }

    /// From the top down.
    fn read(folder: &str, layers: &[Vec<u8>]) -> Result<Vec<(String, String)>, UnpackError> {
        let mut unpacked = Unpacked::new(folder);
        for layer in layers {
            unpacked.read_layer(&layer[..])?;
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(unpacked.iter().map(|(path, bytes)| (path.to_owned(), text(bytes))).collect())
    }

    fn names(folder: &str, layers: &[Vec<u8>]) -> Vec<String> {
        read(folder, layers).unwrap().into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn files_of_all_layers_are_found_and_the_topmost_wins() {
        let top = files(&[("configs/a/catalog.json", "new"), ("configs2/x", ""), ("bin/opm", "")]);
        let low = files(&[("configs/a/catalog.json", "old"), ("configs/b.yaml", "b")]);
        let found = read("/configs", &[top, low]).unwrap();
        let pair = |path: &str, body: &str| (path.to_owned(), body.to_owned());
        assert_eq!(found, [pair("a/catalog.json", "new"), pair("b.yaml", "b")]);
        let twice = files(&[("configs/a", "first"), ("configs/a", "second")]);
        assert_eq!(read("/configs", &[twice]).unwrap(), [pair("a", "second")]);
    }

    #[test]
    fn what_a_layer_takes_away_is_not_found_below_it() {
        let low = || files(&[("x/configs/a/1", ""), ("x/configs/a/2", ""), ("x/configs/b", "")]);
        let cases: [(&str, &[&str]); 9] = [
            ("x/configs/a/.wh.1", &["a/2", "b"]),
            ("x/configs/.wh.a", &["b"]),
            ("x/configs/a/.wh..wh..opq", &["b"]),
            ("x/configs/.wh..wh..opq", &[]),
            ("x/.wh.configs", &[]),
            ("x/.wh..wh..opq", &[]),
            (".wh.x", &[]),
            ("x/configs/a", &["a", "b"]),
            ("x/.wh.other", &["a/1", "a/2", "b"]),
        ];
        for (gone, left) in cases {
            assert_eq!(names("/x/configs", &[files(&[(gone, "")]), low()]), left, "{gone}");
        }
        // What a layer adds is not touched by what it takes away.
        let replaced = files(&[("x/configs/c", ""), ("x/.wh.configs", "")]);
        assert_eq!(names("/x/configs", &[replaced, low()]), ["c"]);
    }

    #[test]
    fn a_folder_takes_the_place_of_a_file() {
        let top = layer(&[("configs/a", EntryType::Directory, "")]);
        assert_eq!(
            names("/configs", &[top, files(&[("configs/a", ""), ("configs/b", "")])]),
            ["b"]
        );
    }

    #[test]
    fn reading_ends_where_nothing_below_counts() {
        let mut unpacked = Unpacked::new("/configs");
        assert!(!unpacked.read_layer(&files(&[("bin/opm", "")])[..]).unwrap());
        assert!(unpacked.read_layer(&files(&[("configs/a", "")])[..]).unwrap());
        assert!(!unpacked.is_settled());
        assert!(unpacked.read_layer(&files(&[(".wh.configs", "")])[..]).unwrap());
        assert!(unpacked.is_settled());
    }

    #[test]
    fn files_beyond_the_limit_are_not_read_in_one_layer_or_in_several() {
        let within = |limit| Unpacked { limit, ..Unpacked::new("/configs") };
        let (low, top) = (files(&[("configs/a", "12345")]), files(&[("configs/b", "67890")]));
        let mut unpacked = within(10);
        for layer in [&top, &low] {
            unpacked.read_layer(&layer[..]).unwrap();
        }
        assert_eq!(unpacked.bytes(), 10);
        let mut unpacked = within(9);
        unpacked.read_layer(&top[..]).unwrap();
        let error = unpacked.read_layer(&low[..]).unwrap_err();
        assert!(matches!(error, UnpackError::Large), "{error}");
        let both = files(&[("configs/a", "12345"), ("configs/b", "67890")]);
        assert!(matches!(within(9).read_layer(&both[..]), Err(UnpackError::Large)));
        // What is not part of the catalog does not count.
        within(0).read_layer(&files(&[("bin/opm", "12345")])[..]).unwrap();
    }

    #[test]
    fn links_are_refused_unless_they_are_hidden() {
        for kind in [EntryType::Symlink, EntryType::Link] {
            let linked = layer(&[("configs/a", kind, "")]);
            let error = read("/configs", std::slice::from_ref(&linked)).unwrap_err();
            assert!(matches!(&error, UnpackError::Link(path) if path == "/configs/a"), "{error}");
            assert_eq!(names("/configs", &[files(&[("configs/a", "")]), linked]), ["a"]);
            // The folder itself, or one above it.
            for name in ["configs", "configs/"] {
                let linked = layer(&[(name, kind, "")]);
                assert!(matches!(read("/configs/x", &[linked]), Err(UnpackError::Link(_))));
            }
            // Links elsewhere are everyday matters.
            assert!(names("/configs", &[layer(&[("bin/sh", kind, "")])]).is_empty());
        }
    }
}
