//! A catalog's image with another catalog in it. Everything else of the image stays.

use image_layer::stack::{self, AddedLayer, StackError, StackedImage};
use oci::{Descriptor, ManifestError, MediaType, Platform, RawManifest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::layer::{CATALOG_FOLDER, Layer};

/// The label that names the folder of the catalog.
const FOLDER_LABEL: &str = "operators.operatorframework.io.index.configs.v1";

/// Configs of images are small; this one is read as a whole.
const MAX_CONFIG_BYTES: usize = 8 << 20;

/// One image of a catalog, as its registry has it.
#[derive(Debug, Clone, Copy)]
pub struct BaseImage<'a> {
    pub manifest: &'a RawManifest,
    pub config: &'a [u8],
}

/// The image with the new layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuiltImage {
    pub manifest: RawManifest,
    pub config: Vec<u8>,
    pub platform: Platform,
}

#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    #[error("the manifest of the catalog's image cannot be used")]
    Manifest(#[from] ManifestError),
    #[error("adding layers to the catalog's image")]
    Stack(#[from] StackError),
    #[error("the config of the catalog's image cannot be read")]
    Config(#[source] serde_json::Error),
    #[error("the config of the catalog's image has {0} bytes, more than any real one")]
    LargeConfig(usize),
    #[error("the config of the catalog's image is not a map of settings")]
    OddConfig,
    #[error("the label of the image names {0:?}, which is not a folder that a catalog can be in")]
    Folder(String),
    #[error("the manifest of the rebuilt catalog cannot be written")]
    Write(#[source] serde_json::Error),
}

/// The folder in which the image has its catalog, `None` if it has no label: then it is none with
/// a file-based catalog.
pub fn catalog_folder(config: &[u8]) -> Result<Option<String>, RebuildError> {
    let config = read_config(config)?;
    let Some(folder) = config["config"]["Labels"][FOLDER_LABEL].as_str() else { return Ok(None) };
    absolute(folder).map(Some).ok_or_else(|| RebuildError::Folder(folder.to_owned()))
}

/// The folders whose content a rebuilt image must not have: the index that was made from the old
/// catalog, as the image's command names it.
pub(crate) fn stale_folders(config: &Value) -> Vec<String> {
    let words: Vec<&str> = ["Entrypoint", "Cmd"]
        .iter()
        .filter_map(|key| config["config"][key].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let named = words.iter().enumerate().filter_map(|(index, word)| {
        let rest = word.strip_prefix("--cache-dir")?;
        rest.strip_prefix('=').or_else(|| words.get(index + 1).copied().filter(|_| rest.is_empty()))
    });
    named.filter_map(absolute).collect()
}

/// Adds the layers `hiding` and `catalog` to the image: it then serves that catalog from
/// [`CATALOG_FOLDER`].
pub fn rebuild(
    base: BaseImage<'_>,
    hiding: &Layer,
    catalog: &Layer,
) -> Result<RebuiltImage, RebuildError> {
    let mut config = read_config(base.config)?;
    let platform = Platform {
        os: config["os"].as_str().unwrap_or("linux").to_owned(),
        architecture: config["architecture"].as_str().unwrap_or_default().to_owned(),
        variant: config["variant"].as_str().map(str::to_owned),
    };
    let settings = stack::settings(&mut config)?;
    settings.insert("Cmd".to_owned(), json!(["serve", CATALOG_FOLDER]));
    if let Some(label) = settings.get_mut("Labels").and_then(|labels| labels.get_mut(FOLDER_LABEL))
    {
        *label = json!(CATALOG_FOLDER);
    }
    let added = |layer: &Layer, created_by| AddedLayer {
        digest: layer.digest,
        size: layer.bytes.len(),
        diff_id: layer.diff_id,
        created_by,
    };
    let layers = [
        added(hiding, "oc-mirror: hide the original catalog"),
        added(catalog, "oc-mirror: add the selected catalog"),
    ];
    let StackedImage { manifest, config } = stack::add_layers(base.manifest, config, &layers)?;
    Ok(RebuiltImage { manifest, config, platform })
}

impl BaseImage<'_> {
    /// What a rebuilt image must hide: the folders that go, and those that are emptied.
    pub fn hidden(&self) -> Result<(Vec<String>, Vec<String>), RebuildError> {
        let mut gone = vec![CATALOG_FOLDER.to_owned()];
        gone.extend(catalog_folder(self.config)?);
        gone.sort();
        gone.dedup();
        let mut emptied = stale_folders(&read_config(self.config)?);
        emptied.retain(|folder| !gone.contains(folder));
        Ok((gone, emptied))
    }
}

fn read_config(bytes: &[u8]) -> Result<Value, RebuildError> {
    if bytes.len() > MAX_CONFIG_BYTES {
        return Err(RebuildError::LargeConfig(bytes.len()));
    }
    let config: Value = serde_json::from_slice(bytes).map_err(RebuildError::Config)?;
    if config.is_object() { Ok(config) } else { Err(RebuildError::OddConfig) }
}

/// A folder below the root, written plainly.
fn absolute(folder: &str) -> Option<String> {
    let inner = folder.trim_matches('/');
    let plain = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.starts_with(".wh.")
            && part.bytes().all(|b| b.is_ascii_graphic())
    };
    inner.split('/').all(plain).then(|| format!("/{inner}")).filter(|folder| folder.len() < 200)
}

/// The list of the rebuilt images: a list even for one, of docker's kind when all of them are.
pub fn rebuilt_index(images: &[RebuiltImage]) -> Result<RawManifest, RebuildError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Index<'a> {
        schema_version: u32,
        media_type: &'a str,
        manifests: Vec<Descriptor>,
    }
    let docker =
        |image: &RebuiltImage| image.manifest.media_type.as_str() == MediaType::DOCKER_MANIFEST;
    let media_type = match images.iter().all(docker) {
        true => MediaType::DOCKER_LIST,
        false => MediaType::OCI_INDEX,
    };
    let described = images.iter().map(|image| Descriptor {
        platform: Some(image.platform.clone()),
        ..image.manifest.descriptor()
    });
    let index = Index { schema_version: 2, media_type, manifests: described.collect() };
    let bytes = serde_json::to_vec(&index).map_err(RebuildError::Write)?;
    Ok(RawManifest::new(Some(media_type), bytes)?)
}

#[cfg(test)]
mod tests;
