//! Manifests: raw bytes that keep their digest, and what is read out of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, MAX_MANIFEST_BYTES, MediaType, Platform};

/// A manifest as its registry gave it. The bytes are never rewritten:
/// serialising again could change the digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawManifest {
    pub media_type: MediaType,
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

/// A pointer from a manifest to a blob or to another manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: MediaType,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

/// The content of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifest {
    /// One image or artifact: a config and layers.
    Image { config: Descriptor, layers: Vec<Descriptor>, about: About },
    /// A list of manifests, one per platform.
    Index { manifests: Vec<Descriptor>, about: About },
}

/// What both kinds of manifest may state about themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The manifest this one is attached to (a signature's image, for example).
    pub subject: Option<Descriptor>,
    pub artifact_type: Option<String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest is {0} bytes, more than the {MAX_MANIFEST_BYTES} that are read")]
    Large(u64),
    #[error(
        "the manifest is of docker's first format (schema 1), which is not supported; push the image again with a current tool"
    )]
    Schema1,
    #[error("the manifest has the media type {0:?}, which is not a media type of an image")]
    MediaType(String),
    #[error("the manifest has the media type {inside:?}, but was sent as {sent:?}")]
    TwoTypes { sent: String, inside: String },
    #[error("the manifest cannot be read")]
    Json(#[source] serde_json::Error),
}

/// The fields of all four formats; which must be there depends on the type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    schema_version: u32,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    subject: Option<Descriptor>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl RawManifest {
    /// Takes a manifest in, hashing it. The type is the one it was sent with,
    /// or, if there is none, the one that it contains.
    pub fn new(sent_as: Option<&str>, bytes: Vec<u8>) -> Result<Self, ManifestError> {
        if bytes.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(ManifestError::Large(bytes.len() as u64));
        }
        let document: Document = serde_json::from_slice(&bytes).map_err(ManifestError::Json)?;
        let inside = document.media_type.as_deref().map(MediaType::new);
        let sent =
            sent_as.map(MediaType::new).filter(|sent| sent.is_manifest() || sent.is_schema1());
        let media_type = match (sent, inside) {
            (Some(sent), Some(inside)) if sent != inside => {
                let (sent, inside) = (sent.to_string(), inside.to_string());
                return Err(ManifestError::TwoTypes { sent, inside });
            }
            (Some(sent), _) => sent,
            (None, Some(inside)) => inside,
            (None, None) if document.manifests.is_some() => MediaType::new(MediaType::OCI_INDEX),
            (None, None) if document.config.is_some() => MediaType::new(MediaType::OCI_MANIFEST),
            (None, None) if document.schema_version == 1 => return Err(ManifestError::Schema1),
            (None, None) => {
                return Err(ManifestError::MediaType(sent_as.unwrap_or_default().into()));
            }
        };
        if media_type.is_schema1() {
            return Err(ManifestError::Schema1);
        }
        if !media_type.is_manifest() {
            return Err(ManifestError::MediaType(media_type.to_string()));
        }
        Ok(Self { media_type, digest: Digest::of(&bytes), bytes })
    }

    pub fn parse(&self) -> Result<Manifest, ManifestError> {
        let document: Document =
            serde_json::from_slice(&self.bytes).map_err(ManifestError::Json)?;
        let about = About {
            subject: document.subject,
            artifact_type: document.artifact_type,
            annotations: document.annotations.unwrap_or_default(),
        };
        let missing = |field| ManifestError::Json(serde::de::Error::missing_field(field));
        if self.media_type.is_index() {
            let manifests = document.manifests.ok_or_else(|| missing("manifests"))?;
            Ok(Manifest::Index { manifests, about })
        } else {
            let config = document.config.ok_or_else(|| missing("config"))?;
            let layers = document.layers.ok_or_else(|| missing("layers"))?;
            Ok(Manifest::Image { config, layers, about })
        }
    }

    /// A descriptor that points at this manifest.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(self.media_type.clone(), self.digest, self.bytes.len() as u64)
    }
}

impl Descriptor {
    pub fn new(media_type: MediaType, digest: Digest, size: u64) -> Self {
        Self {
            media_type,
            digest,
            size,
            artifact_type: None,
            platform: None,
            annotations: BTreeMap::new(),
            urls: Vec::new(),
        }
    }
}

impl Manifest {
    pub fn about(&self) -> &About {
        match self {
            Self::Image { about, .. } | Self::Index { about, .. } => about,
        }
    }

    /// The blobs that travel with this manifest: config and layers, each once,
    /// without layers that may not be distributed.
    pub fn blobs(&self) -> Vec<&Descriptor> {
        let Self::Image { config, layers, .. } = self else { return Vec::new() };
        let mut blobs: Vec<&Descriptor> = Vec::with_capacity(layers.len() + 1);
        for blob in std::iter::once(config).chain(layers) {
            let kept = !blob.media_type.is_foreign_layer();
            if kept && !blobs.iter().any(|seen| seen.digest == blob.digest) {
                blobs.push(blob);
            }
        }
        blobs
    }

    /// The manifests an index points at.
    pub fn children(&self) -> &[Descriptor] {
        match self {
            Self::Image { .. } => &[],
            Self::Index { manifests, .. } => manifests,
        }
    }
}

/// The index that lists what is attached to a manifest, for registries without
/// the referrers API: kept under the tag `sha256-<hex>`. Sorted, so that the
/// same referrers give the same bytes.
pub fn referrers_index(mut referrers: Vec<Descriptor>) -> RawManifest {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Index<'a> {
        schema_version: u32,
        media_type: &'a str,
        manifests: &'a [Descriptor],
    }
    referrers.sort_by_key(|referrer| referrer.digest);
    referrers.dedup_by_key(|referrer| referrer.digest);
    let index =
        Index { schema_version: 2, media_type: MediaType::OCI_INDEX, manifests: &referrers };
    let bytes = serde_json::to_vec(&index).unwrap_or_default();
    RawManifest {
        media_type: MediaType::new(MediaType::OCI_INDEX),
        digest: Digest::of(&bytes),
        bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn image(extra: &str) -> Vec<u8> {
        let blob =
            |kind: &str| format!(r#"{{"mediaType":"{kind}","digest":"sha256:{HEX}","size":7}}"#);
        format!(
            r#"{{"schemaVersion":2{extra},"config":{},"layers":[{}]}}"#,
            blob("application/vnd.oci.image.config.v1+json"),
            blob("application/vnd.oci.image.layer.v1.tar+gzip"),
        )
        .into_bytes()
    }

    #[test]
    fn the_type_comes_from_the_header_or_from_inside() {
        let sent = |text| RawManifest::new(text, image("")).unwrap().media_type.to_string();
        assert_eq!(
            sent(Some("application/vnd.oci.image.manifest.v1+json; charset=utf-8")),
            MediaType::OCI_MANIFEST
        );
        assert_eq!(sent(Some("text/plain")), MediaType::OCI_MANIFEST);
        assert_eq!(sent(None), MediaType::OCI_MANIFEST);
    }

    #[test]
    fn a_manifest_that_is_two_things_is_refused() {
        let inside = format!(r#","mediaType":"{}""#, MediaType::OCI_MANIFEST);
        let error = RawManifest::new(Some(MediaType::DOCKER_LIST), image(&inside)).unwrap_err();
        assert!(error.to_string().contains("but was sent as"), "{error}");
    }

    #[test]
    fn schema_1_is_named_and_junk_is_refused() {
        let schema1 = br#"{"schemaVersion":1,"name":"x"}"#.to_vec();
        assert!(matches!(RawManifest::new(None, schema1), Err(ManifestError::Schema1)));
        assert!(matches!(RawManifest::new(None, b"<html>".to_vec()), Err(ManifestError::Json(_))));
        let large = vec![b' '; MAX_MANIFEST_BYTES as usize + 1];
        assert!(matches!(RawManifest::new(None, large), Err(ManifestError::Large(_))));
    }

    #[test]
    fn a_blob_named_twice_travels_once() {
        let raw = RawManifest::new(None, image("")).unwrap();
        assert_eq!(raw.parse().unwrap().blobs().len(), 1);
    }

    #[test]
    fn the_same_referrers_give_the_same_index() {
        let one = Descriptor::new(MediaType::new("a/b"), Digest::of(b"1"), 1);
        let two = Descriptor::new(MediaType::new("a/b"), Digest::of(b"2"), 1);
        let index = referrers_index(vec![one.clone(), two.clone()]);
        assert_eq!(index, referrers_index(vec![two, one.clone(), one]));
        assert_eq!(index.parse().unwrap().children().len(), 2);
    }
}
