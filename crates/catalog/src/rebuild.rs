//! A catalog's image with another catalog in it. Everything else of the image stays.

use oci::{Descriptor, Digest, Manifest, ManifestError, MediaType, Platform, RawManifest};
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
    #[error("the catalog's image is a list of images, where one of its images is due")]
    List,
    #[error("the config of the catalog's image cannot be read")]
    Config(#[source] serde_json::Error),
    #[error("the config of the catalog's image has {0} bytes, more than any real one")]
    LargeConfig(usize),
    #[error("the config of the catalog's image is no map of settings")]
    OddConfig,
    #[error(
        "the image says that its catalog is in {0:?}, which is no folder that a catalog can be in"
    )]
    Folder(String),
    #[error("the manifest of the rebuilt catalog cannot be written")]
    Write(#[source] serde_json::Error),
}

/// The folder in which the image has its catalog, `None` when it does not say: then it is none with
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

/// Puts the layers `hiding` and `catalog` on top of the image: it then serves that catalog from
/// [`CATALOG_FOLDER`].
pub fn rebuild(
    base: BaseImage<'_>,
    hiding: &Layer,
    catalog: &Layer,
) -> Result<RebuiltImage, RebuildError> {
    let Manifest::Image { .. } = base.manifest.parse()? else { return Err(RebuildError::List) };
    let mut config = read_config(base.config)?;
    let platform = Platform {
        os: config["os"].as_str().unwrap_or("linux").to_owned(),
        architecture: config["architecture"].as_str().unwrap_or_default().to_owned(),
        variant: config["variant"].as_str().map(str::to_owned),
    };
    change_config(&mut config, &[hiding, catalog])?;
    let config = serde_json::to_vec(&config).map_err(RebuildError::Write)?;
    let manifest = change_manifest(base.manifest, &config, &[hiding, catalog])?;
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

fn change_config(config: &mut Value, layers: &[&Layer]) -> Result<(), RebuildError> {
    let created = config["created"].clone();
    let object = config.as_object_mut().ok_or(RebuildError::OddConfig)?;
    let settings = object.entry("config").or_insert_with(|| json!({}));
    if settings.is_null() {
        *settings = json!({});
    }
    let settings = settings.as_object_mut().ok_or(RebuildError::OddConfig)?;
    settings.insert("Cmd".to_owned(), json!(["serve", CATALOG_FOLDER]));
    if let Some(label) = settings.get_mut("Labels").and_then(|labels| labels.get_mut(FOLDER_LABEL))
    {
        *label = json!(CATALOG_FOLDER);
    }
    let rootfs = object.entry("rootfs").or_insert_with(|| json!({"type": "layers"}));
    let rootfs = rootfs.as_object_mut().ok_or(RebuildError::OddConfig)?;
    let diff_ids = rootfs.entry("diff_ids").or_insert_with(|| json!([]));
    let diff_ids = diff_ids.as_array_mut().ok_or(RebuildError::OddConfig)?;
    diff_ids.extend(layers.iter().map(|layer| json!(layer.diff_id)));
    // Readers match the history with the layers, so where there is one it must have these, too.
    if let Some(history) = object.get_mut("history").and_then(Value::as_array_mut) {
        for what in ["hide the original catalog", "add the selected catalog"] {
            let mut step = json!({"created_by": format!("oc-mirror: {what}")});
            if created.is_string() {
                step["created"] = created.clone();
            }
            history.push(step);
        }
    }
    Ok(())
}

fn change_manifest(
    base: &RawManifest,
    config: &[u8],
    layers: &[&Layer],
) -> Result<RawManifest, RebuildError> {
    let docker = base.media_type.as_str() == MediaType::DOCKER_MANIFEST;
    let layer_type = match docker {
        true => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        false => "application/vnd.oci.image.layer.v1.tar+gzip",
    };
    let mut manifest: Value = serde_json::from_slice(&base.bytes).map_err(RebuildError::Config)?;
    let object = manifest.as_object_mut().ok_or(RebuildError::OddConfig)?;
    // The rebuilt image is attached to nothing.
    object.remove("subject");
    let held = object.get_mut("config").ok_or(RebuildError::OddConfig)?;
    held["digest"] = json!(Digest::of(config));
    held["size"] = json!(config.len());
    let list = object.get_mut("layers").and_then(Value::as_array_mut);
    let list = list.ok_or(RebuildError::OddConfig)?;
    for layer in layers {
        list.push(json!({
            "mediaType": layer_type,
            "digest": layer.digest,
            "size": layer.bytes.len(),
        }));
    }
    let bytes = serde_json::to_vec(&manifest).map_err(RebuildError::Write)?;
    Ok(RawManifest::new(Some(base.media_type.as_str()), bytes)?)
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
