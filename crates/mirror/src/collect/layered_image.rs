//! Puts a layer on top of an image. Pure: the same image and the same layer
//! give the same bytes, on every machine and every day.

use oci::{Descriptor, Digest, Manifest, ManifestError, MediaType, RawManifest};
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
    /// For those who ask where the layer comes from.
    pub(crate) made_by: String,
}

/// An image with a layer more.
#[derive(Debug, Clone)]
pub(crate) struct Stacked {
    pub(crate) manifest: RawManifest,
    pub(crate) config: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StackError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("it is a list, not an image")]
    List,
    #[error("its config is no image's config: {0}")]
    Config(String),
    #[error("writing a manifest")]
    Write(#[source] serde_json::Error),
}

/// `base` with `layer` on top.
pub(crate) fn stack(
    base: &RawManifest,
    config: &[u8],
    layer: &NewLayer,
) -> Result<Stacked, StackError> {
    let Manifest::Image { config: described, layers, .. } = base.parse()? else {
        return Err(StackError::List);
    };
    let config = config_with(config, layer)?;
    let docker = base.media_type.as_str() == MediaType::DOCKER_MANIFEST;
    let kind = match docker {
        true => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        false => "application/vnd.oci.image.layer.v1.tar+gzip",
    };
    let top =
        Descriptor::new(MediaType::new(kind), Digest::of(&layer.packed), layer.packed.len() as u64);
    let own = Descriptor::new(described.media_type, Digest::of(&config), config.len() as u64);
    let document = json!({
        "schemaVersion": 2,
        "mediaType": base.media_type.as_str(),
        "config": own,
        "layers": layers.into_iter().chain([top]).collect::<Vec<_>>(),
    });
    Ok(Stacked { manifest: written(&base.media_type, &document)?, config })
}

/// A list of images in place of those that `base` lists. What is about an
/// image, such as its attestation, is not about the new one, and left out.
pub(crate) fn list(
    base: &RawManifest,
    stacked: impl IntoIterator<Item = (Descriptor, RawManifest)>,
) -> Result<RawManifest, StackError> {
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

fn config_with(config: &[u8], layer: &NewLayer) -> Result<Vec<u8>, StackError> {
    let bad = |why: &str| StackError::Config(why.to_owned());
    let mut config: Value =
        serde_json::from_slice(config).map_err(|error| StackError::Config(error.to_string()))?;
    let ids = config["rootfs"]["diff_ids"].as_array_mut();
    ids.ok_or_else(|| bad("it lists no layers"))?.push(json!(layer.diff_id));
    // The time of the image below, not that of today: the same input, the same bytes.
    let created = config["created"].clone();
    if let Some(history) = config["history"].as_array_mut() {
        history.push(json!({"created": created, "created_by": layer.made_by}));
    }
    if config["config"].is_null() {
        config["config"] = json!({});
    }
    let settings = config["config"].as_object_mut().ok_or_else(|| bad("its settings are odd"))?;
    settings.insert("Cmd".to_owned(), json!(layer.command));
    settings.remove("Entrypoint");
    serde_json::to_vec(&config).map_err(StackError::Write)
}

fn written(media_type: &MediaType, document: &Value) -> Result<RawManifest, StackError> {
    let bytes = serde_json::to_vec(document).map_err(StackError::Write)?;
    Ok(RawManifest::new(Some(media_type.as_str()), bytes)?)
}

#[cfg(test)]
mod tests {
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
    fn the_layer_is_on_top_and_the_config_knows_it() {
        let (base, config) = base(MediaType::DOCKER_MANIFEST);
        let Stacked { manifest, config } = stack(&base, &config, &layer()).unwrap();
        let Manifest::Image { config: described, layers, .. } = manifest.parse().unwrap() else {
            panic!("an image is due")
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
        let make = || stack(&base, &config, &layer()).unwrap().manifest.bytes;
        assert_eq!(make(), make());
    }

    #[test]
    fn what_is_no_image_cannot_be_built_on() {
        let (base, config) = base(MediaType::OCI_MANIFEST);
        for wrong in [&b"{}"[..], b"no JSON", br#"{"rootfs":{"diff_ids":3}}"#] {
            assert!(matches!(stack(&base, wrong, &layer()), Err(StackError::Config(_))));
        }
        let index = RawManifest::new(
            Some(MediaType::OCI_INDEX),
            br#"{"schemaVersion":2,"manifests":[]}"#.to_vec(),
        );
        assert!(matches!(stack(&index.unwrap(), &config, &layer()), Err(StackError::List)));
    }
}
