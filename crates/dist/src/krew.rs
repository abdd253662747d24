//! Manifests for krew, the plugin manager of kubectl.

use anyhow::{Context, Result};
use serde_json::json;

use crate::architecture::Architecture;
use crate::programs::Program;

/// An archive that krew downloads.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) architecture: Architecture,
    pub(crate) url: String,
    pub(crate) sha256: String,
    /// The folder in the archive.
    pub(crate) folder: String,
}

/// The manifest of a plugin.
pub(crate) fn manifest(
    program: Program,
    plugin: &str,
    version: &str,
    downloads: &[Download],
) -> Result<String> {
    let platform = |download: &Download| {
        let Download { architecture, url, sha256, folder } = download;
        json!({
            "selector": { "matchLabels": { "os": "linux", "arch": architecture.go() } },
            "uri": url,
            "sha256": sha256,
            "bin": program.name,
            "files": [
                { "from": format!("{folder}/{}", program.name), "to": "." },
                { "from": format!("{folder}/LICENSE"), "to": "." },
                { "from": format!("{folder}/THIRD-PARTY-LICENSES"), "to": "." },
            ],
        })
    };
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": { "name": plugin },
        "spec": {
            "version": format!("v{version}"),
            "shortDescription": program.summary,
            "description": program.description,
            "platforms": downloads.iter().map(platform).collect::<Vec<_>>(),
        },
    });
    serde_saphyr::to_string(&manifest).context("writing a manifest for krew")
}
