//! The connected side of the demo: one registry that serves images, two signed releases and an
//! operator catalog, with the update service and the signature store that a release needs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab::operators::{self, Operators};
use lab::registry::{LabRegistry, Settings};
use lab::releases::{Recipe, Release, ReleaseKey};
use lab::signature_store::SignatureStore;
use lab::update_service::{Graph, UpdateService};

use crate::source_images::SourceImage;

/// The channel that offers both releases.
pub(super) const CHANNEL: &str = "stable-4.16";
/// Updates in the order of the channel; a run selects the last one.
const VERSIONS: [&str; 2] = ["4.16.1", "4.16.2"];
/// The registry name in references; `registries.conf` redirects it to the demo's registry.
pub(super) const HOST: &str = operators::HOST;

pub(super) struct Upstream {
    pub(super) registry: LabRegistry,
    pub(super) releases: Vec<Release>,
    service: UpdateService,
    signatures: SignatureStore,
    key: ReleaseKey,
}

impl Upstream {
    /// Starts the servers and fills them.
    pub(super) fn start(source_images: &[SourceImage]) -> Result<Self> {
        let upstream = Self {
            registry: LabRegistry::start(Settings::default())?,
            releases: VERSIONS
                .iter()
                .map(|version| Release::generate(&Recipe { version, ..Recipe::default() }))
                .collect::<Result<_>>()?,
            service: UpdateService::start()?,
            signatures: SignatureStore::start()?,
            key: ReleaseKey::generate().context(
                "creating a release key with gpg; `apt-get install gnupg` or \
                 `dnf install gnupg2` installs it",
            )?,
        };
        for source_image in source_images {
            upstream.registry.put_image(
                &source_image.image,
                source_image.repository,
                source_image.tag,
            )?;
        }
        let mut graph = Graph::default();
        for release in &upstream.releases {
            release.put(&upstream.registry)?;
            let signature = upstream.key.sign(&release.claim())?;
            upstream.signatures.put(&release.payload.digest(), 1, signature);
            graph = graph.node_in(&release.version, &release.pullspec(), &[CHANNEL]);
        }
        graph = graph.edge(VERSIONS[0], VERSIONS[1]);
        upstream.service.publish(CHANNEL, "amd64", &graph);
        Operators::generate()?.put(&upstream.registry)?;
        Ok(upstream)
    }

    /// The release that a configuration with just the channel selects.
    pub(super) fn newest(&self) -> Result<&Release> {
        self.releases.last().context("the demo has no release")
    }

    /// Writes the user's configuration on the connected side: where registries are, and the key
    /// that releases are signed with.
    pub(super) fn configure(&self, home: &Path) -> Result<()> {
        let containers = home.join(".config/containers");
        fs::create_dir_all(&containers)
            .with_context(|| format!("creating {}", containers.display()))?;
        let registries = format!(
            "[[registry]]\nprefix = {HOST:?}\nlocation = {:?}\ninsecure = true\n",
            self.registry.address().to_string()
        );
        fs::write(containers.join("registries.conf"), registries)
            .context("writing registries.conf")?;
        fs::write(key_file(home), self.key.public()).context("writing the release key")
    }

    /// Variables that name the update service and the signatures of this side for oc-mirror.
    pub(super) fn environment(&self, home: &Path) -> Vec<(&'static str, String)> {
        vec![
            ("UPDATE_URL_OVERRIDE", self.service.graph_url()),
            ("OCP_SIGNATURE_URL", self.signatures.url()),
            key_variable(home),
        ]
    }

    /// How many requests all servers of this side have received.
    pub(super) fn requests(&self) -> usize {
        self.registry.requests().count()
            + self.service.server.requests().count()
            + self.signatures.server.requests().count()
    }
}

/// Names the key that releases must be signed with, on either side.
pub(super) fn key_variable(home: &Path) -> (&'static str, String) {
    ("OCP_SIGNATURE_VERIFICATION_PK", key_file(home).display().to_string())
}

fn key_file(home: &Path) -> PathBuf {
    home.join("release-key.asc")
}
