//! A Helm chart repository: files below an address, `index.yaml` among them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Uri;

use crate::document_server::{Document, DocumentServer, DocumentSource, Settings};

/// A running repository. It ends when dropped.
#[derive(Debug)]
pub struct ChartRepository {
    files: Arc<Files>,
    /// What it runs on: faults and requests are there.
    pub server: DocumentServer,
}

#[derive(Debug, Default)]
struct Files(Mutex<BTreeMap<String, Bytes>>);

impl ChartRepository {
    /// Starts an empty repository.
    pub fn start() -> Result<Self> {
        Self::start_with(Settings::default())
    }

    /// The same, behind TLS or on another port.
    pub fn start_with(settings: Settings) -> Result<Self> {
        let files = Arc::<Files>::default();
        let server =
            DocumentServer::start(Arc::clone(&files) as Arc<dyn DocumentSource>, settings)?;
        Ok(Self { files, server })
    }

    /// What users write as the URL of the repository.
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Offers a file in place of an earlier one of its name.
    pub fn offer(&self, name: &str, bytes: impl Into<Bytes>) {
        let mut files = self.files.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(format!("/{name}"), bytes.into());
    }

    /// Offers every file of a folder, as `helm repo index` leaves it.
    pub fn offer_folder(&self, folder: &Path) -> Result<()> {
        for entry in fs::read_dir(folder).context("reading the folder of charts")? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            self.offer(&name, bytes);
        }
        Ok(())
    }
}

impl DocumentSource for Files {
    fn find(&self, uri: &Uri) -> Option<Document> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = files.get(uri.path())?.clone();
        let kind = if uri.path().ends_with(".yaml") { "text/yaml" } else { "application/gzip" };
        Some(Document { kind, bytes })
    }
}
