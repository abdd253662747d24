//! Documents by which images are selected: update graphs, signatures, the lists
//! of what a release consists of.
//!
//! A document has the name under which users find it below `working-dir`. Its
//! content is a blob like all content, and is in every archive, so that
//! the other side can select again without any request.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use mirror_plan::BlobRef;
use oci::Digest;
use serde::{Deserialize, Serialize};

use crate::archive::Archives;
use crate::atomic_file::{self, Durability};
use crate::blobs::BlobError;
use crate::disk_error::{At, DiskError, unless_absent};
use crate::distribution::Distribution;
use crate::{Holdings, Workspace};

/// The largest document that is kept or read: some fifty times that of a real
/// update graph.
pub const MAX_DOCUMENT_BYTES: u64 = 32 << 20;
const VERSION: u32 = 1;

/// A document that is kept, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    #[serde(flatten)]
    pub blob: BlobRef,
    pub saved: Timestamp,
}

/// The content of `working-dir/internal/documents.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    version: u32,
    documents: BTreeMap<String, Document>,
}

#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("{0:?} is not a valid document name: it is outside of working-dir")]
    Name(String),
    #[error(
        "the document {name} has {size} bytes, more than the {MAX_DOCUMENT_BYTES} that are kept"
    )]
    Large { name: String, size: u64 },
    #[error("the document {name} is {place}")]
    Absent { name: String, place: String },
    #[error("the document {name} is damaged on disk: copy it again from the connected side")]
    Damaged { name: String },
    #[error("keeping the document {name}")]
    Store { name: String, source: BlobError },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Workspace {
    /// Keeps a document in place of an earlier one of its name. Content that is
    /// kept already keeps its time, so that a run that learns nothing new
    /// changes nothing.
    pub fn save_document(&self, name: &str, bytes: &[u8]) -> Result<BlobRef, DocumentError> {
        let path = self.document_path(name)?;
        let size = bytes.len() as u64;
        if size > MAX_DOCUMENT_BYTES {
            return Err(DocumentError::Large { name: name.to_owned(), size });
        }
        let blob = BlobRef { digest: Digest::of(bytes), size };
        let store = |source| DocumentError::Store { name: name.to_owned(), source };
        self.blobs().put(&blob.digest, bytes).map_err(store)?;
        if fs::read(&path).ok().as_deref() != Some(bytes) {
            atomic_file::write(&path, bytes, Durability::Later)?;
        }
        let mut documents = self.documents()?;
        if documents.get(name).is_none_or(|held| held.blob != blob) {
            documents.insert(name.to_owned(), Document { blob, saved: Timestamp::now() });
            self.save_documents(documents)?;
        }
        Ok(blob)
    }

    /// All documents that are kept.
    pub fn documents(&self) -> Result<BTreeMap<String, Document>, DiskError> {
        let path = self.documents_path();
        let Some(text) = unless_absent(fs::read(&path)).at("reading", &path)? else {
            return Ok(BTreeMap::new());
        };
        let listed: Listed =
            serde_json::from_slice(&text).map_err(io::Error::other).at("reading", &path)?;
        if listed.version > VERSION {
            let newer = "it was written by a newer version of oc-mirror: use that one";
            return Err(DiskError::new("reading", &path, io::Error::other(newer)));
        }
        Ok(listed.documents)
    }

    fn save_documents(&self, documents: BTreeMap<String, Document>) -> Result<(), DiskError> {
        let path = self.documents_path();
        let listed = Listed { version: VERSION, documents };
        let text = serde_json::to_vec(&listed).map_err(io::Error::other).at("writing", &path)?;
        atomic_file::write(&path, &text, Durability::Later)
    }

    fn documents_path(&self) -> PathBuf {
        self.internal().join("documents.json")
    }

    fn document_path(&self, name: &str) -> Result<PathBuf, DocumentError> {
        let mut parts = Path::new(name).components();
        let plain = parts.all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !plain || name.contains(['\\', '\0']) {
            return Err(DocumentError::Name(name.to_owned()));
        }
        Ok(self.working_dir().join(name))
    }
}

/// A document in an archive.
struct ArchivedDocument {
    document: Document,
    /// Whether the workspace that is here wrote the archive: then its own document is not older.
    own: bool,
}

impl ArchivedDocument {
    fn is_newer_than(&self, here: &Document) -> bool {
        !self.own && here.saved <= self.document.saved
    }
}

impl Holdings {
    /// The newest document of this name; `None` when there is none. One that was kept and cannot be
    /// read is an error: an older one would select something else.
    pub fn document(&self, name: &str) -> Result<Option<Vec<u8>>, DocumentError> {
        let here = match self.workspace() {
            Some(workspace) => workspace.documents()?.remove(name),
            None => None,
        };
        let archived = self.archived_documents(|held| held == name).last();
        let newest = match (here, archived) {
            (Some(here), Some((_, archived))) if !archived.is_newer_than(&here) => Some(here),
            (here, archived) => archived.map(|(_, archived)| archived.document).or(here),
        };
        if let Some(document) = newest {
            return self.read_document(name, &document.blob).map(Some);
        }
        let Some(distribution) = self.distribution() else { return Ok(None) };
        Ok(distribution.document(name).at("reading the document", Path::new(name))?)
    }

    /// The names of all available documents.
    pub fn document_names(&self) -> Result<BTreeSet<String>, DocumentError> {
        let mut names: BTreeSet<String> = self.document_list()?.into_keys().collect();
        names.extend(self.distribution().into_iter().flat_map(Distribution::document_names));
        Ok(names)
    }

    /// Every document that the workspace and its archives have, the newest of each name.
    pub fn document_list(&self) -> Result<BTreeMap<String, Document>, DocumentError> {
        let here = match self.workspace() {
            Some(workspace) => workspace.documents()?,
            None => BTreeMap::new(),
        };
        let archived: BTreeMap<&String, ArchivedDocument> =
            self.archived_documents(|_| true).collect();
        let mut documents = here;
        for (name, archived) in archived {
            if documents.get(name).is_none_or(|here| archived.is_newer_than(here)) {
                documents.insert(name.clone(), archived.document);
            }
        }
        Ok(documents)
    }

    /// The documents of all archives, oldest first.
    fn archived_documents(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&String, ArchivedDocument)> {
        let runs = self.archives().into_iter().flat_map(Archives::runs);
        let files = runs.flat_map(|run| run.index.files.iter().map(move |file| (file, run)));
        files.filter(move |((name, _), _)| wanted(name)).map(|((name, blob), run)| {
            let document = Document { blob: *blob, saved: run.time };
            (name, ArchivedDocument { document, own: self.is_own(run) })
        })
    }

    fn read_document(&self, name: &str, blob: &BlobRef) -> Result<Vec<u8>, DocumentError> {
        let name = || name.to_owned();
        if blob.size > MAX_DOCUMENT_BYTES {
            return Err(DocumentError::Large { name: name(), size: blob.size });
        }
        let Some(reader) = self.blob(&blob.digest)? else {
            let place = match self.whereabouts(&blob.digest) {
                Some(place) if !place.absent.is_empty() => {
                    let files = place.absent.join(", ");
                    format!("in {files} of run {}, not in this directory", place.run)
                }
                _ => "neither in the workspace nor in an archive here".to_owned(),
            };
            return Err(DocumentError::Absent { name: name(), place });
        };
        let mut bytes = Vec::new();
        let read = reader.take(blob.size + 1).read_to_end(&mut bytes);
        read.at("reading the document", Path::new(&name()))?;
        if Digest::of(&bytes) != blob.digest {
            return Err(DocumentError::Damaged { name: name() });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::ArchivePlan;
    use crate::sample;

    #[test]
    fn a_document_is_found_by_its_name_below_working_dir_and_by_holdings() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let name = "hold-release/cincinnati-graph-data/amd64-stable-4.16.json";
        workspace.save_document(name, b"old").unwrap();
        workspace.save_document(name, b"new").unwrap();
        let file = dir.path().join("working-dir").join(name);
        assert_eq!(fs::read(file).unwrap(), b"new");
        let holdings = Holdings::new(Some(workspace), None);
        assert_eq!(holdings.document(name).unwrap().unwrap(), b"new");
        assert_eq!(holdings.document("other").unwrap(), None);
    }

    #[test]
    fn saving_the_same_again_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        workspace.save_document("a", b"text").unwrap();
        let before = workspace.documents().unwrap();
        workspace.save_document("a", b"text").unwrap();
        assert_eq!(workspace.documents().unwrap(), before);
    }

    #[test]
    fn names_that_lead_elsewhere_and_documents_without_measure_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        for name in ["", "..", "../x", "/etc/x", "a/../../x"] {
            let error = workspace.save_document(name, b"").unwrap_err();
            assert!(matches!(error, DocumentError::Name(_)), "{name:?}: {error}");
        }
        let large = vec![0; usize::try_from(MAX_DOCUMENT_BYTES).unwrap() + 1];
        let error = workspace.save_document("a", &large).unwrap_err();
        assert!(matches!(error, DocumentError::Large { .. }), "{error}");
    }

    #[test]
    fn every_archive_contains_its_documents_even_when_an_earlier_one_did() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        let document = workspace.save_document("graph.json", b"graph").unwrap();
        let archive = |run: u64, layer: &[u8]| {
            let image = sample::image(workspace.blobs(), &format!("q.io/a:{run}"), layer);
            let mut request = sample::archive_request(run, vec![image]);
            request.files.insert("graph.json".to_owned(), document);
            match workspace.plan_archive(request).unwrap() {
                ArchivePlan::Write(planned) => {
                    workspace.write_archive(&lock, &planned, &mut |_| {}).unwrap().chunks
                }
                ArchivePlan::NothingNew { .. } => Vec::new(),
            }
        };
        archive(1, b"one");
        let chunks = archive(2, b"two");
        let other = tempfile::tempdir().unwrap();
        for chunk in &chunks {
            fs::copy(chunk, other.path().join(chunk.file_name().unwrap())).unwrap();
        }
        let archives = Archives::open(other.path()).unwrap();
        assert_eq!(archives.verify(&|_| {}), []);
        let holdings = Holdings::new(None, Some(archives));
        assert_eq!(holdings.document("graph.json").unwrap().unwrap(), b"graph");
    }

    #[test]
    fn the_newer_of_workspace_and_archive_counts() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        let document = workspace.save_document("graph.json", b"archived").unwrap();
        let image = sample::image(workspace.blobs(), "q.io/a:1", b"layer");
        let mut request = sample::archive_request(1, vec![image]);
        request.files.insert("graph.json".to_owned(), document);
        request.created = Timestamp::now();
        let ArchivePlan::Write(planned) = workspace.plan_archive(request).unwrap() else {
            panic!("there is something to write")
        };
        workspace.write_archive(&lock, &planned, &mut |_| {}).unwrap();
        let read = || {
            let archives = Archives::open(dir.path()).unwrap();
            let holdings = Holdings::new(Some(workspace.clone()), Some(archives));
            String::from_utf8(holdings.document("graph.json").unwrap().unwrap()).unwrap()
        };
        assert_eq!(read(), "archived");
        workspace.save_document("graph.json", b"newer").unwrap();
        assert_eq!(read(), "newer");
    }
}
