//! Signatures of GPG keys on a lookaside server, as containers-registries.d(5) describes them:
//! `URL/REPOSITORY@sha256=HEX/signature-N`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use oci::{Digest, ImageRef};
use registry::{Access, DocumentRequest, Url};
use release::signature::MAX_SIGNATURE_BYTES;
use workspace::DocumentError;

use super::TrustCheck;
use crate::collect::documents::Documents;
use crate::fault::{EngineError, Fault};
use crate::settings::Workflow;

/// Why the signatures on a lookaside server cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookasideError {
    #[error("no lookaside server is configured in registries.d for {0}")]
    NoServer(String),
    #[error(
        "the archive has none: mirror to disk with --secure-policy and the same policy, so that they are included"
    )]
    NotHeld,
    #[error("from the lookaside server {host}")]
    Request { host: String, source: registry::Error },
    #[error("{}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Document(#[from] DocumentError),
}

impl EngineError for LookasideError {
    fn fault(&self) -> Fault {
        match self {
            Self::NoServer(_) => Fault::Configuration,
            Self::NotHeld => Fault::NotHeld,
            Self::Request { source, .. } => Fault::of_source(source),
            Self::File { .. } => Fault::Disk,
            Self::Document(error) => Fault::of_document(error),
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Request { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Signatures of one manifest that are read. A server has a few.
const MAX_SIGNATURES: usize = 16;
/// Below `working-dir`.
const FOLDER: &str = "lookaside";

impl TrustCheck<'_> {
    /// The signatures of one manifest of an image. What a server sent is added to `documents`. On the
    /// disconnected side no request is sent to a server: the signatures are in the archive, if the
    /// connected side had the same policy.
    pub(super) async fn lookaside(
        &self,
        image: &ImageRef,
        digest: Digest,
        documents: &mut Documents,
    ) -> Result<Vec<Vec<u8>>, LookasideError> {
        let is_disconnected =
            matches!(self.context.settings.workflow, Workflow::DiskToMirror { .. });
        if is_disconnected {
            let held = self.held_lookaside(digest)?;
            if !held.is_empty() {
                return Ok(held);
            }
        }
        let Some(base) = self.trust.lookaside.of(image) else {
            return Err(LookasideError::NoServer(image.name()));
        };
        let is_file = base.scheme() == "file";
        if is_disconnected && !is_file {
            return Err(LookasideError::NotHeld);
        }
        let mut found = Vec::new();
        for number in 1..=MAX_SIGNATURES {
            let url = address(base, image, &digest, number);
            let signature = match is_file {
                true => read_file(&url)?,
                false => self.request(&url).await?,
            };
            let Some(signature) = signature else { break };
            documents.keep(document(&digest, number), signature.clone());
            found.push(signature);
        }
        Ok(found)
    }

    fn held_lookaside(&self, digest: Digest) -> Result<Vec<Vec<u8>>, LookasideError> {
        let numbers = 1..=MAX_SIGNATURES;
        let read = numbers.map(|number| self.holdings.document(&document(&digest, number)));
        let read: Result<Vec<Option<Vec<u8>>>, _> = read.collect();
        Ok(read?.into_iter().flatten().collect())
    }

    async fn request(&self, url: &Url) -> Result<Option<Vec<u8>>, LookasideError> {
        let limit = MAX_SIGNATURE_BYTES as u64;
        let request = DocumentRequest { url, accept: "*/*", limit, access: Access::Public };
        let received = self.client.document(request).await;
        received.map_err(|source| {
            let host = url.host_str().unwrap_or_default().to_owned();
            LookasideError::Request { host, source }
        })
    }
}

fn document(digest: &Digest, number: usize) -> String {
    format!("{FOLDER}/{}/signature-{number}", digest.as_tag_text())
}

fn address(base: &Url, image: &ImageRef, digest: &Digest, number: usize) -> Url {
    let mut url = base.clone();
    let folder = base.path().trim_end_matches('/');
    let hex = digest.hex();
    url.set_path(&format!("{folder}/{}@sha256={hex}/signature-{number}", image.repository));
    url
}

fn read_file(url: &Url) -> Result<Option<Vec<u8>>, LookasideError> {
    let path = Path::new(url.path());
    let fail = |source: io::Error| LookasideError::File { path: path.to_owned(), source };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(fail)?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_SIGNATURE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_below_the_repository_without_its_registry() {
        let image = "q.io:5000/team/app:v1".parse().unwrap();
        let digest = Digest::of(b"x");
        let hex = digest.hex();
        for base in ["https://h/store", "https://h/store/"] {
            let url = address(&base.parse().unwrap(), &image, &digest, 2);
            assert_eq!(url.as_str(), format!("https://h/store/team/app@sha256={hex}/signature-2"));
        }
    }
}
