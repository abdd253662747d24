//! Adds layers to an image. The same image and the same layers give the same bytes, on every machine
//! at any time; all other fields of the image are kept, including unknown ones.

use oci::{Digest, Manifest, ManifestError, MediaType, RawManifest};
use serde_json::{Value, json};

/// A layer that is added: a tar file, gzipped.
#[derive(Debug, Clone, Copy)]
pub struct AddedLayer<'a> {
    pub digest: Digest,
    /// The compressed size in bytes.
    pub size: usize,
    /// The digest of the tar file inside.
    pub diff_id: Digest,
    /// The origin of the layer, for the history of the image.
    pub created_by: &'a str,
}

/// An image with more layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackedImage {
    pub manifest: RawManifest,
    pub config: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum StackError {
    #[error("the manifest of the image cannot be used")]
    Manifest(#[from] ManifestError),
    #[error("expected an image, found a list of images")]
    List,
    #[error("the {0} of the image is not valid: unexpected type of {1}")]
    Shape(&'static str, &'static str),
    #[error("the manifest of the image cannot be read")]
    Read(#[source] serde_json::Error),
    #[error("the manifest of the image cannot be written")]
    Write(#[source] serde_json::Error),
}

/// The settings of an image (command, environment, labels) in its config.
///
/// # Errors
/// The config is not that of an image.
pub fn settings(config: &mut Value) -> Result<&mut serde_json::Map<String, Value>, StackError> {
    let object = config.as_object_mut().ok_or(StackError::Shape("config", "the document"))?;
    let settings = object.entry("config").or_insert_with(|| json!({}));
    if settings.is_null() {
        *settings = json!({});
    }
    settings.as_object_mut().ok_or(StackError::Shape("config", "config"))
}

/// `base`, whose config is `config`, with `layers` on top.
///
/// # Errors
/// The base is a list, or its manifest or config is not that of an image.
pub fn add_layers(
    base: &RawManifest,
    mut config: Value,
    layers: &[AddedLayer<'_>],
) -> Result<StackedImage, StackError> {
    let Manifest::Image { .. } = base.parse()? else { return Err(StackError::List) };
    change_config(&mut config, layers)?;
    let config = serde_json::to_vec(&config).map_err(StackError::Write)?;
    let manifest = change_manifest(base, &config, layers)?;
    Ok(StackedImage { manifest, config })
}

fn change_config(config: &mut Value, layers: &[AddedLayer<'_>]) -> Result<(), StackError> {
    let shape = |part| StackError::Shape("config", part);
    // The time of the base image, not the current one: the same input gives the same bytes.
    let created = config["created"].clone();
    let object = config.as_object_mut().ok_or(shape("the document"))?;
    let rootfs = object.entry("rootfs").or_insert_with(|| json!({"type": "layers"}));
    let rootfs = rootfs.as_object_mut().ok_or(shape("rootfs"))?;
    let diff_ids = rootfs.entry("diff_ids").or_insert_with(|| json!([]));
    let diff_ids = diff_ids.as_array_mut().ok_or(shape("rootfs.diff_ids"))?;
    diff_ids.extend(layers.iter().map(|layer| json!(layer.diff_id)));
    // Readers match the history with the layers, so where there is one it must have these, too.
    if let Some(history) = object.get_mut("history").and_then(Value::as_array_mut) {
        for layer in layers {
            let mut step = json!({"created_by": layer.created_by});
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
    layers: &[AddedLayer<'_>],
) -> Result<RawManifest, StackError> {
    let shape = |part| StackError::Shape("manifest", part);
    let layer_type = match base.media_type.as_str() == MediaType::DOCKER_MANIFEST {
        true => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        false => "application/vnd.oci.image.layer.v1.tar+gzip",
    };
    let mut manifest: Value = serde_json::from_slice(&base.bytes).map_err(StackError::Read)?;
    let object = manifest.as_object_mut().ok_or(shape("the document"))?;
    // The new image is not attached to another one.
    object.remove("subject");
    let descriptor = object.get_mut("config").ok_or(shape("config"))?;
    descriptor["digest"] = json!(Digest::of(config));
    descriptor["size"] = json!(config.len());
    let list = object.get_mut("layers").and_then(Value::as_array_mut).ok_or(shape("layers"))?;
    for layer in layers {
        list.push(json!({
            "mediaType": layer_type,
            "digest": layer.digest,
            "size": layer.size,
        }));
    }
    let bytes = serde_json::to_vec(&manifest).map_err(StackError::Write)?;
    Ok(RawManifest::new(Some(base.media_type.as_str()), bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_kept_and_a_subject_is_removed() {
        let digest = Digest::of(b"x");
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MediaType::OCI_MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": 1},
            "layers": [],
            "annotations": {"org.example": "kept"},
            "subject": {"mediaType": MediaType::OCI_MANIFEST, "digest": digest, "size": 1},
        });
        let base =
            RawManifest::new(Some(MediaType::OCI_MANIFEST), serde_json::to_vec(&manifest).unwrap());
        let layer = AddedLayer { digest, size: 7, diff_id: digest, created_by: "test" };
        let config = json!({"architecture": "arm64", "history": [{}], "x-unknown": 1});
        let made = add_layers(&base.unwrap(), config, &[layer]).unwrap();
        let manifest: Value = serde_json::from_slice(&made.manifest.bytes).unwrap();
        assert_eq!(manifest["annotations"]["org.example"], "kept");
        assert_eq!(manifest["subject"], Value::Null);
        assert_eq!(manifest["layers"][0]["size"], 7);
        assert_eq!(manifest["config"]["digest"], json!(Digest::of(&made.config)));
        let config: Value = serde_json::from_slice(&made.config).unwrap();
        assert_eq!(config["x-unknown"], 1);
        assert_eq!(config["rootfs"]["diff_ids"], json!([digest]));
        assert_eq!(config["history"], json!([{}, {"created_by": "test"}]));
    }
}
