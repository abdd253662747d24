//! Images that this program builds on others: one layer more, another command.

use image_layer::stack::{self, AddedLayer, StackError, StackedImage};
use oci::{Descriptor, Digest, ManifestError, MediaType, RawManifest};
use serde_json::{Value, json};

/// A layer that is put on top.
#[derive(Debug, Clone)]
pub(crate) struct NewLayer {
    /// Gzipped, as a registry holds it.
    pub(crate) packed: Vec<u8>,
    /// The digest of the tar inside.
    pub(crate) diff_id: Digest,
    /// What the image runs now.
    pub(crate) command: Vec<String>,
    /// States in the history of the image where the layer comes from.
    pub(crate) made_by: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LayerError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Stack(#[from] StackError),
    #[error("reading its config")]
    Config(#[source] serde_json::Error),
    #[error("writing a manifest")]
    Write(#[source] serde_json::Error),
}

/// `base` with `layer` on top.
pub(crate) fn add_layer(
    base: &RawManifest,
    config: &[u8],
    layer: &NewLayer,
) -> Result<StackedImage, LayerError> {
    let mut config: Value = serde_json::from_slice(config).map_err(LayerError::Config)?;
    if !config["rootfs"]["diff_ids"].is_array() {
        return Err(StackError::Shape("config", "rootfs.diff_ids").into());
    }
    let settings = stack::settings(&mut config)?;
    settings.insert("Cmd".to_owned(), json!(layer.command));
    settings.remove("Entrypoint");
    let added = AddedLayer {
        digest: Digest::of(&layer.packed),
        size: layer.packed.len(),
        diff_id: layer.diff_id,
        created_by: &layer.made_by,
    };
    Ok(stack::add_layers(base, config, &[added])?)
}

/// A list of images in place of those that `base` lists. What is about an
/// image, such as its attestation, is not about the new one, and left out.
pub(crate) fn list(
    base: &RawManifest,
    stacked: impl IntoIterator<Item = (Descriptor, RawManifest)>,
) -> Result<RawManifest, LayerError> {
    let listed = stacked
        .into_iter()
        .map(|(was, now)| Descriptor { platform: was.platform, ..now.descriptor() });
    let document = json!({
        "schemaVersion": 2,
        "mediaType": base.media_type.as_str(),
        "manifests": listed.collect::<Vec<_>>(),
    });
    written(&base.media_type, &document)
}

fn written(media_type: &MediaType, document: &Value) -> Result<RawManifest, LayerError> {
    let bytes = serde_json::to_vec(document).map_err(LayerError::Write)?;
    Ok(RawManifest::new(Some(media_type.as_str()), bytes)?)
}

#[cfg(test)]
mod tests {
    use oci::Manifest;

    use super::*;

    fn layer() -> NewLayer {
        NewLayer {
            packed: b"packed".to_vec(),
            diff_id: Digest::of(b"tar"),
            command: vec!["/bin/true".into()],
            made_by: "oc-mirror".into(),
        }
    }

    fn base(kind: &str) -> (RawManifest, Vec<u8>) {
        let config = br#"{"created":"2024-01-01T00:00:00Z","architecture":"arm64","config":{"Entrypoint":["x"],"Env":["A=1"]},"rootfs":{"type":"layers","diff_ids":["sha256:1"]},"history":[{}]}"#;
        let described = Descriptor::new(
            MediaType::new("application/vnd.docker.container.image.v1+json"),
            Digest::of(config),
            config.len() as u64,
        );
        let low = Descriptor::new(MediaType::new("x"), Digest::of(b"low"), 3);
        let document =
            json!({"schemaVersion": 2, "mediaType": kind, "config": described, "layers": [low]});
        (written(&MediaType::new(kind), &document).unwrap(), config.to_vec())
    }

    #[test]
    fn the_layer_is_on_top_and_the_config_lists_it() {
        let (base, config) = base(MediaType::DOCKER_MANIFEST);
        let StackedImage { manifest, config } = add_layer(&base, &config, &layer()).unwrap();
        let Manifest::Image { config: described, layers, .. } = manifest.parse().unwrap() else {
            panic!("expected an image")
        };
        assert_eq!(described.digest, Digest::of(&config));
        let digests: Vec<Digest> = layers.iter().map(|layer| layer.digest).collect();
        assert_eq!(digests, [Digest::of(b"low"), Digest::of(b"packed")]);
        assert!(layers[1].media_type.as_str().contains("docker"));
        let config: Value = serde_json::from_slice(&config).unwrap();
        let ids = json!(["sha256:1", Digest::of(b"tar")]);
        assert_eq!(config["rootfs"]["diff_ids"], ids);
        assert_eq!(config["config"], json!({"Cmd": ["/bin/true"], "Env": ["A=1"]}));
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["history"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        let (base, config) = base(MediaType::OCI_MANIFEST);
        let make = || add_layer(&base, &config, &layer()).unwrap().manifest.bytes;
        assert_eq!(make(), make());
    }

    #[test]
    fn what_is_not_an_image_cannot_be_built_on() {
        let (base, config) = base(MediaType::OCI_MANIFEST);
        for wrong in
            [&b"{}"[..], b"[]", b"no JSON", br#"{"rootfs":{"diff_ids":3}}"#, br#"{"config":3}"#]
        {
            assert!(add_layer(&base, wrong, &layer()).is_err());
        }
        let index = RawManifest::new(
            Some(MediaType::OCI_INDEX),
            br#"{"schemaVersion":2,"manifests":[]}"#.to_vec(),
        );
        let error = add_layer(&index.unwrap(), &config, &layer()).unwrap_err();
        assert!(matches!(error, LayerError::Stack(StackError::List)), "{error}");
    }
}
