//! A store of release signatures: `sha256=<hex>/signature-<n>` below an address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http::Uri;
use oci::Digest;

use crate::document_server::{Document, DocumentServer, DocumentSource, Settings};

/// A running store. It ends when dropped.
#[derive(Debug)]
pub struct SignatureStore {
    signatures: Arc<Signatures>,
    /// What it runs on: faults and requests are there.
    pub server: DocumentServer,
}

#[derive(Debug, Default)]
struct Signatures(Mutex<BTreeMap<String, Bytes>>);

impl SignatureStore {
    /// Starts an empty store.
    pub fn start() -> Result<Self> {
        Self::start_with(Settings::default())
    }

    /// The same, behind TLS or on another port.
    pub fn start_with(settings: Settings) -> Result<Self> {
        let signatures = Arc::<Signatures>::default();
        let server =
            DocumentServer::start(Arc::clone(&signatures) as Arc<dyn DocumentSource>, settings)?;
        Ok(Self { signatures, server })
    }

    /// What `OCP_SIGNATURE_URL` is set to.
    pub fn url(&self) -> String {
        format!("{}/signatures/", self.server.url())
    }

    /// Stores signature number `number` of a payload.
    pub fn put(&self, payload: &Digest, number: usize, signature: impl Into<Bytes>) {
        let path = format!("/signatures/sha256={}/signature-{number}", payload.hex());
        let mut held = self.signatures.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path, signature.into());
    }

    /// The address of a lookaside server, as registries.d has it.
    pub fn lookaside_url(&self) -> String {
        format!("{}/lookaside", self.server.url())
    }

    /// Stores signature number `number` of an image, as lookaside servers have it.
    pub fn put_lookaside(
        &self,
        repository: &str,
        image: &Digest,
        number: usize,
        signature: impl Into<Bytes>,
    ) {
        let hex = image.hex();
        let path = format!("/lookaside/{repository}@sha256={hex}/signature-{number}");
        let mut held = self.signatures.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path, signature.into());
    }

    /// Removes all signatures.
    pub fn wipe(&self) {
        self.signatures.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl DocumentSource for Signatures {
    fn find(&self, uri: &Uri) -> Option<Document> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Some clients write the `=` and the `@` of a path as %3D and %40.
        let path = uri.path().replace("%3D", "=").replace("%40", "@");
        let bytes = held.get(&path)?.clone();
        Some(Document { kind: "application/octet-stream", bytes })
    }
}
