//! Compares the images that we find with those that the user's Helm renders.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use helm::capabilities::Capabilities;
use helm::discover::{DiscoverError, Discovery, rendered_images};
use helm::images::Origin;
use helm::version::VersionError;
use oci::ImageRef;
use tokio::process::Command;

use super::Search;

/// The most text of Helm's error that is repeated.
const MAX_TOLD: usize = 2000;

/// Why the images cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompareError {
    #[error("creating a temporary folder")]
    Folder(#[source] io::Error),
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("writing the values")]
    Values(#[from] serde_json::Error),
    #[error("starting it")]
    Start(#[source] io::Error),
    /// What Helm printed.
    #[error("{0}")]
    Helm(String),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(transparent)]
    Discover(#[from] DiscoverError),
}

/// Images that only one of both finds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) only_helm: BTreeSet<ImageRef>,
    pub(crate) only_ours: BTreeSet<ImageRef>,
}

/// Renders a packed chart with Helm, once for each set of APIs.
pub(crate) async fn compare(
    program: &Path,
    archive: Vec<u8>,
    search: &Search,
    discovery: &Discovery,
) -> Result<Difference, CompareError> {
    let folder = tempfile::tempdir().map_err(CompareError::Folder)?;
    let (chart, values) = (folder.path().join("chart.tgz"), folder.path().join("values.json"));
    let text = serde_json::to_vec(&search.values)?;
    for (path, bytes) in [(&chart, archive), (&values, text)] {
        std::fs::write(path, bytes)
            .map_err(|source| CompareError::Write { path: path.clone(), source })?;
    }
    let options = &search.options;
    let mut theirs = BTreeSet::new();
    for set in &options.api_sets {
        let capabilities = Capabilities::new(*set, &options.kube_version)?;
        let release = &options.rendering.release;
        let mut command = Command::new(program);
        command
            .args(["template", &release.name, "--namespace", &release.namespace])
            .arg(&chart)
            .arg("--values")
            .arg(&values)
            .args(["--include-crds", "--skip-schema-validation"])
            .args(["--kube-version", &options.kube_version])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        for version in &capabilities.api_versions {
            command.args(["--api-versions", version]);
        }
        let output = command.output().await.map_err(CompareError::Start)?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(CompareError::Helm(told.trim().chars().take(MAX_TOLD).collect()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        theirs.extend(rendered_images(&text, options)?);
    }
    Ok(difference(discovery, &theirs))
}

/// Helm does not read annotations, so that images which are only listed there do not count.
fn difference(discovery: &Discovery, theirs: &BTreeSet<ImageRef>) -> Difference {
    let is_rendered = |origins: &Vec<Origin>| {
        origins.iter().any(|origin| matches!(origin, Origin::Document { .. }))
    };
    let ours = discovery.images.iter().filter(|(_, origins)| is_rendered(origins));
    let ours: BTreeSet<ImageRef> = ours.map(|(image, _)| image.clone()).collect();
    let known = |image: &&ImageRef| !discovery.images.contains_key(*image);
    Difference {
        only_helm: theirs.iter().filter(known).cloned().collect(),
        only_ours: ours.difference(theirs).cloned().collect(),
    }
}
