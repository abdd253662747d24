//! CRDs of other projects, selected by their content instead of by the name of their file.
//!
//! OpenShift publishes variants of a CRD: one per feature set and one per kind of cluster. The one
//! for clusters without special features that run their own control plane is used.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use test_tools::module_files::{self, ModuleFiles};

use super::client::{ApiError, Client};

/// The types of a cluster that our manifests and programs use.
pub const CLUSTER_CRDS: [&str; 16] = [
    "catalogsources.operators.coreos.com",
    "clusteroperators.config.openshift.io",
    "clusterserviceversions.operators.coreos.com",
    "clusterversions.config.openshift.io",
    "imagecontentsourcepolicies.operator.openshift.io",
    "imagedigestmirrorsets.config.openshift.io",
    "imagetagmirrorsets.config.openshift.io",
    "infrastructures.config.openshift.io",
    "machineconfigpools.machineconfiguration.openshift.io",
    "machineconfigs.machineconfiguration.openshift.io",
    "machineconfigurations.operator.openshift.io",
    "networks.config.openshift.io",
    "networks.operator.openshift.io",
    "prometheusrules.monitoring.coreos.com",
    "servicemonitors.monitoring.coreos.com",
    "subscriptions.operators.coreos.com",
];

const FEATURE_SET: &str = "release.openshift.io/feature-set";
const CLUSTER_PROFILE: &str = "include.release.openshift.io/";
const SELF_MANAGED: &str = "include.release.openshift.io/self-managed-high-availability";

/// A CRD that no module has, or that cannot be distinguished from another.
#[derive(Debug, thiserror::Error)]
pub enum PublishedCrdError {
    #[error(transparent)]
    Files(#[from] module_files::Error),
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("expected a CRD in {}", path.display())]
    NotACrd { path: PathBuf, source: Box<serde_saphyr::Error> },
    #[error("no Go module of the tests has the CRD {name} for a self-managed cluster")]
    Unknown { name: String },
    #[error("expected one variant of the CRD {name}, found {found}")]
    Ambiguous { name: String, found: usize },
}

#[derive(Deserialize)]
struct Head {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// Whether a self-managed cluster with the default features has it.
    fn is_default(&self) -> bool {
        let default_features = match self.annotations.get(FEATURE_SET) {
            Some(sets) => sets.split(',').any(|set| set.trim() == "Default"),
            None => true,
        };
        let names_profiles = self.annotations.keys().any(|key| key.starts_with(CLUSTER_PROFILE));
        let self_managed = self.annotations.get(SELF_MANAGED).is_some_and(|value| value == "true");
        default_features && (self_managed || !names_profiles)
    }
}

/// The CRD with this name, as a self-managed cluster with the default features has it.
pub fn published_crd(name: &str) -> Result<String, PublishedCrdError> {
    let folders = module_files::ALL.map(crd_folders).into_iter().collect::<Result<Vec<_>, _>>()?;
    choose(name, &folders.concat())
}

fn crd_folders(files: &'static ModuleFiles) -> Result<Vec<PathBuf>, module_files::Error> {
    let root = module_files::path(files)?;
    Ok(files.folders.iter().map(|folder| root.join(folder)).collect())
}

fn choose(name: &str, folders: &[PathBuf]) -> Result<String, PublishedCrdError> {
    // The same CRD may be in two folders of a module.
    let mut found = BTreeSet::new();
    for folder in folders {
        for path in yaml_files(folder)? {
            let text = fs::read_to_string(&path)
                .map_err(|source| PublishedCrdError::Read { path: path.clone(), source })?;
            // Parsing all of them would take seconds.
            if !text.contains(name) {
                continue;
            }
            let head: Head = serde_saphyr::from_str(&text).map_err(|source| {
                PublishedCrdError::NotACrd { path: path.clone(), source: Box::new(source) }
            })?;
            if head.metadata.name == name && head.metadata.is_default() {
                found.insert(text);
            }
        }
    }
    let count = found.len();
    match (found.pop_first(), count) {
        (Some(text), 1) => Ok(text),
        (None, _) => Err(PublishedCrdError::Unknown { name: name.to_owned() }),
        (Some(_), found) => Err(PublishedCrdError::Ambiguous { name: name.to_owned(), found }),
    }
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>, PublishedCrdError> {
    let read = |source| PublishedCrdError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension() == Some(OsStr::new("yaml")) {
            paths.push(path);
        }
    }
    Ok(paths)
}

impl Client {
    /// Loads [`CLUSTER_CRDS`] and waits until objects of their kinds can be created.
    pub async fn load_cluster_crds(&self) -> Result<Vec<String>, ApiError> {
        self.load_published_crds(&CLUSTER_CRDS).await
    }

    /// Loads these CRDs, see [`published_crd`].
    pub async fn load_published_crds(&self, names: &[&str]) -> Result<Vec<String>, ApiError> {
        let texts: Vec<String> =
            names.iter().map(|name| published_crd(name)).collect::<Result<_, _>>()?;
        self.load_crd_text(&texts.join("\n---\n")).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with variants of one CRD: file name, annotations.
    fn folder(variants: &[(&str, &[(&str, &str)])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, annotations) in variants {
            let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
            let crd = serde_json::json!({
                "metadata": { "name": "berths.example.com", "annotations": annotations },
            });
            fs::write(folder.path().join(file), crd.to_string()).unwrap();
        }
        folder
    }

    fn chosen(
        variants: &[(&str, &[(&str, &str)])],
        name: &str,
    ) -> Result<String, PublishedCrdError> {
        choose(name, &[folder(variants).path().to_owned()])
    }

    const HOSTED: &str = "include.release.openshift.io/ibm-cloud-managed";

    #[test]
    fn the_variant_of_self_managed_clusters_with_default_features_is_chosen() {
        let variants: &[(&str, &[(&str, &str)])] = &[
            ("a.yaml", &[(SELF_MANAGED, "true"), (FEATURE_SET, "CustomNoUpgrade")]),
            ("b.yaml", &[(SELF_MANAGED, "true"), (FEATURE_SET, "Default")]),
            ("c.yaml", &[(HOSTED, "true"), (FEATURE_SET, "Default")]),
            ("d.txt", &[(SELF_MANAGED, "true")]),
        ];
        let text = chosen(variants, "berths.example.com").unwrap();
        assert!(text.contains(SELF_MANAGED) && text.contains("Default"), "{text}");
    }

    #[test]
    fn a_crd_without_annotations_is_for_every_cluster_and_a_copy_does_not_matter() {
        let variants: &[(&str, &[(&str, &str)])] = &[("a.yaml", &[]), ("b.yaml", &[])];
        chosen(variants, "berths.example.com").unwrap();
    }

    #[test]
    fn an_unknown_name_and_two_different_variants_are_errors() {
        let variants: &[(&str, &[(&str, &str)])] =
            &[("a.yaml", &[]), ("b.yaml", &[(FEATURE_SET, "Default")])];
        // The name of another CRD ends with this one.
        let unknown = chosen(variants, "example.com");
        assert!(matches!(unknown, Err(PublishedCrdError::Unknown { .. })), "{unknown:?}");
        let two = chosen(variants, "berths.example.com");
        assert!(matches!(two, Err(PublishedCrdError::Ambiguous { found: 2, .. })), "{two:?}");
    }
}
