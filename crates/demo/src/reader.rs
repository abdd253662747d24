//! Reads registries with plain requests, without any code of the demonstrated program.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use oci::{Digest, MediaType, RawManifest};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use tokio::runtime::Runtime;

/// Local registries respond within milliseconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

const MANIFESTS: [&str; 4] = [
    MediaType::OCI_MANIFEST,
    MediaType::OCI_INDEX,
    MediaType::DOCKER_MANIFEST,
    MediaType::DOCKER_LIST,
];

pub(super) struct Reader {
    runtime: Runtime,
    client: reqwest::Client,
}

/// The result of a pull.
pub(super) struct Pulled {
    /// The digest of the requested manifest, computed from its bytes.
    pub(super) root: Digest,
    /// Manifests and blobs.
    pub(super) items: usize,
    pub(super) bytes: u64,
}

struct Body {
    content_type: Option<String>,
    bytes: Vec<u8>,
}

#[derive(Deserialize)]
struct Catalog {
    repositories: Vec<String>,
}

#[derive(Deserialize)]
struct Tags {
    tags: Vec<String>,
}

impl Reader {
    pub(super) fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting a runtime")?;
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(RESPONSE_TIMEOUT)
            .build()
            .context("creating an HTTP client")?;
        Ok(Self { runtime, client })
    }

    pub(super) fn repositories(&self, registry: SocketAddr) -> Result<Vec<String>> {
        let body = self.get(registry, "_catalog")?;
        let catalog: Catalog = serde_json::from_slice(&body.bytes).context("reading a catalog")?;
        Ok(catalog.repositories)
    }

    pub(super) fn tags(&self, registry: SocketAddr, repository: &str) -> Result<Vec<String>> {
        let body = self.get(registry, &format!("{repository}/tags/list"))?;
        let list: Tags = serde_json::from_slice(&body.bytes)
            .with_context(|| format!("reading the tags of {repository}"))?;
        Ok(list.tags)
    }

    /// A manifest by tag or digest.
    pub(super) fn manifest(
        &self,
        registry: SocketAddr,
        repository: &str,
        pointer: &str,
    ) -> Result<RawManifest> {
        let body = self.get(registry, &format!("{repository}/manifests/{pointer}"))?;
        RawManifest::new(body.content_type.as_deref(), body.bytes)
            .with_context(|| format!("reading the manifest {repository}:{pointer}"))
    }

    /// Everything below a tag or digest. Every byte is checked against its digest.
    pub(super) fn pull(
        &self,
        registry: SocketAddr,
        repository: &str,
        pointer: &str,
    ) -> Result<Pulled> {
        let root = self.manifest(registry, repository, pointer)?;
        let mut pulled = Pulled { root: root.digest, items: 0, bytes: 0 };
        let mut blobs = BTreeSet::new();
        let mut manifests = vec![root];
        while let Some(manifest) = manifests.pop() {
            pulled.items += 1;
            pulled.bytes += manifest.bytes.len() as u64;
            let content = manifest.parse()?;
            blobs.extend(content.blobs().iter().map(|blob| blob.digest));
            for child in content.children() {
                let found = self.manifest(registry, repository, &child.digest.to_string())?;
                ensure!(
                    found.digest == child.digest,
                    "{repository}: expected the manifest {}, found {}",
                    child.digest,
                    found.digest
                );
                manifests.push(found);
            }
        }
        for digest in blobs {
            let bytes = self.get(registry, &format!("{repository}/blobs/{digest}"))?.bytes;
            let found = Digest::of(&bytes);
            ensure!(found == digest, "{repository}: expected the blob {digest}, found {found}");
            pulled.items += 1;
            pulled.bytes += bytes.len() as u64;
        }
        Ok(pulled)
    }

    fn get(&self, registry: SocketAddr, path: &str) -> Result<Body> {
        let url = format!("http://{registry}/v2/{path}");
        let requesting = || format!("requesting {url}");
        let body = async {
            let request = self.client.get(&url).header(ACCEPT, MANIFESTS.join(", "));
            let response = request.send().await?.error_for_status()?;
            let content_type = response.headers().get(CONTENT_TYPE);
            let content_type =
                content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
            Ok::<_, reqwest::Error>(Body { content_type, bytes: response.bytes().await?.to_vec() })
        };
        self.runtime.block_on(body).with_context(requesting)
    }
}
