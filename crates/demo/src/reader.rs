//! Reads registries by plain requests, without any code of the program that is shown.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use oci::{Digest, MediaType, RawManifest};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use tokio::runtime::Runtime;

/// Local registries answer at once, or something is wrong.
const ANSWER_DEADLINE: Duration = Duration::from_secs(20);

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

/// What a pull brought.
pub(super) struct Pulled {
    /// The digest of the manifest that was asked for, computed from its bytes.
    pub(super) root: Digest,
    /// Manifests and blobs.
    pub(super) items: usize,
    pub(super) bytes: u64,
}

struct Answer {
    content_type: Option<String>,
    body: Vec<u8>,
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
            .timeout(ANSWER_DEADLINE)
            .build()
            .context("making an HTTP client")?;
        Ok(Self { runtime, client })
    }

    pub(super) fn repositories(&self, registry: SocketAddr) -> Result<Vec<String>> {
        let answer = self.get(registry, "_catalog")?;
        let catalog: Catalog = serde_json::from_slice(&answer.body).context("reading a catalog")?;
        Ok(catalog.repositories)
    }

    pub(super) fn tags(&self, registry: SocketAddr, repository: &str) -> Result<Vec<String>> {
        let answer = self.get(registry, &format!("{repository}/tags/list"))?;
        let list: Tags = serde_json::from_slice(&answer.body)
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
        let answer = self.get(registry, &format!("{repository}/manifests/{pointer}"))?;
        RawManifest::new(answer.content_type.as_deref(), answer.body)
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
                ensure!(found.digest == child.digest, "{} came for {}", found.digest, child.digest);
                manifests.push(found);
            }
        }
        for digest in blobs {
            let body = self.get(registry, &format!("{repository}/blobs/{digest}"))?.body;
            let found = Digest::of(&body);
            ensure!(found == digest, "{repository}: {found} came for the blob {digest}");
            pulled.items += 1;
            pulled.bytes += body.len() as u64;
        }
        Ok(pulled)
    }

    fn get(&self, registry: SocketAddr, path: &str) -> Result<Answer> {
        let url = format!("http://{registry}/v2/{path}");
        let asking = || format!("asking for {url}");
        let ask = async {
            let request = self.client.get(&url).header(ACCEPT, MANIFESTS.join(", "));
            let answer = request.send().await?.error_for_status()?;
            let content_type = answer.headers().get(CONTENT_TYPE);
            let content_type =
                content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
            Ok::<_, reqwest::Error>(Answer { content_type, body: answer.bytes().await?.to_vec() })
        };
        self.runtime.block_on(ask).with_context(asking)
    }
}
