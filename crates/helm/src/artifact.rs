//! A chart as an artifact in a registry, as `helm push` makes it and `helm pull oci://` reads it.

use std::collections::BTreeMap;

use oci::{Descriptor, Digest, Manifest, ManifestError, MediaType, RawManifest, Tag};
use serde::Serialize;

use crate::chart::{Chart, Metadata};

pub const CONFIG_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
pub const CHART_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
pub const PROVENANCE_TYPE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
/// What early versions of Helm wrote; `helm pull` still reads it.
const OLD_CHART_TYPE: &str = "application/tar+gzip";

/// A chart with everything that a registry stores of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    pub manifest: RawManifest,
    /// The blobs that the manifest names: configuration, archive, provenance file.
    pub blobs: Vec<Blob>,
    /// The tag of the chart's version.
    pub tag: Tag,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub descriptor: Descriptor,
    pub bytes: Vec<u8>,
}

/// What a manifest states about the chart that it stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub config: Descriptor,
    pub archive: Descriptor,
    pub provenance: Option<Descriptor>,
}

#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("the manifest cannot be read")]
    Manifest(#[from] ManifestError),
    #[error("the manifest is a list of images, not a Helm chart")]
    Index,
    #[error("expected a Helm chart, found an artifact of the type {0:?}")]
    Type(String),
    #[error("the artifact has no layer with a chart")]
    NoChart,
    #[error("the configuration of the chart cannot be read")]
    Config(#[source] serde_json::Error),
    #[error("the version {0:?} cannot be a tag")]
    Tag(String),
}

/// Makes the artifact of a chart. `created` is its date, which Helm stores, too: the date of the archive
/// or of the repository's entry, so that the same chart always has the same digest.
pub fn make(
    chart: &Chart,
    archive: Vec<u8>,
    provenance: Option<Vec<u8>>,
    created: Option<&str>,
) -> Result<Artifact, ArtifactError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a> {
        schema_version: u32,
        config: &'a Descriptor,
        layers: &'a [Descriptor],
        annotations: BTreeMap<String, String>,
    }
    let config = serde_json::to_string(&chart.metadata).map_err(ArtifactError::Config)?;
    let mut blobs =
        vec![blob(CONFIG_TYPE, escaped(&config).into_bytes()), blob(CHART_TYPE, archive)];
    blobs.extend(provenance.map(|bytes| blob(PROVENANCE_TYPE, bytes)));
    let descriptors: Vec<Descriptor> = blobs.iter().map(|b| b.descriptor.clone()).collect();
    let document = Document {
        schema_version: 2,
        config: &descriptors[0],
        layers: &descriptors[1..],
        annotations: annotations(&chart.metadata, created),
    };
    let bytes = serde_json::to_vec(&document).map_err(ArtifactError::Config)?;
    let manifest = RawManifest::new(Some(MediaType::OCI_MANIFEST), bytes)?;
    Ok(Artifact { manifest, blobs, tag: tag_of(&chart.metadata.version)? })
}

/// Reads which blobs of a manifest are the chart.
pub fn read(manifest: &RawManifest) -> Result<Stored, ArtifactError> {
    let Manifest::Image { config, layers, .. } = manifest.parse()? else {
        return Err(ArtifactError::Index);
    };
    if config.media_type.as_str() != CONFIG_TYPE {
        return Err(ArtifactError::Type(config.media_type.to_string()));
    }
    let of_type = |wanted: &str| layers.iter().find(|l| l.media_type.as_str() == wanted).cloned();
    let archive = of_type(CHART_TYPE).or_else(|| of_type(OLD_CHART_TYPE));
    let archive = archive.ok_or(ArtifactError::NoChart)?;
    Ok(Stored { config, archive, provenance: of_type(PROVENANCE_TYPE) })
}

/// Reads the configuration blob: `Chart.yaml` as JSON.
pub fn read_config(bytes: &[u8]) -> Result<Metadata, ArtifactError> {
    serde_json::from_slice(bytes).map_err(ArtifactError::Config)
}

/// The tag of a version. Tags cannot have `+`, so Helm writes `_` in its place.
pub fn tag_of(version: &str) -> Result<Tag, ArtifactError> {
    version.replace('+', "_").parse().map_err(|_| ArtifactError::Tag(version.to_owned()))
}

/// The version of a tag.
pub fn version_of(tag: &Tag) -> String {
    tag.as_str().replace('_', "+")
}

fn blob(media_type: &str, bytes: Vec<u8>) -> Blob {
    let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
    Blob { descriptor: Descriptor::new(MediaType::new(media_type), digest, size), bytes }
}

/// Go writes these characters as escapes. They occur in strings only.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// What Helm writes about a chart into its manifest: its own annotations, and some of OCI's.
fn annotations(metadata: &Metadata, created: Option<&str>) -> BTreeMap<String, String> {
    let maintainers: Vec<String> = metadata
        .maintainers
        .iter()
        .map(|maintainer| {
            if maintainer.email.is_empty() {
                maintainer.name.clone()
            } else {
                format!("{} ({})", maintainer.name, maintainer.email)
            }
        })
        .collect();
    let standard = [
        ("description", metadata.description.clone()),
        ("title", metadata.name.clone()),
        ("version", metadata.version.clone()),
        ("url", metadata.home.clone()),
        ("created", created.unwrap_or_default().to_owned()),
        ("source", metadata.sources.first().cloned().unwrap_or_default()),
        ("authors", maintainers.join(", ")),
    ];
    let key = |name: &str| format!("org.opencontainers.image.{name}");
    let standard = standard.into_iter().filter(|(_, value)| !value.trim().is_empty());
    let mut all: BTreeMap<String, String> =
        standard.map(|(name, value)| (key(name), value)).collect();
    for (name, value) in &metadata.annotations {
        if ![key("version"), key("title")].contains(name) {
            all.insert(name.clone(), value.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(text: &str) -> Chart {
        Chart::from_folder(&[("Chart.yaml".to_owned(), text.as_bytes().to_vec())].into()).unwrap()
    }

    #[test]
    fn what_is_made_can_be_read() {
        let text = "apiVersion: v2\nname: web\nversion: 1.0.0+b1\ndescription: a < b\n\
                    maintainers: [{name: A, email: a@b.c}, {name: B}]\nannotations: {x: z}\n";
        let chart = chart(text);
        let made =
            make(&chart, b"tgz".to_vec(), Some(b"prov".to_vec()), Some("2026-01-01T00:00:00Z"))
                .unwrap();
        assert_eq!(made.tag.as_str(), "1.0.0_b1");
        assert_eq!(version_of(&made.tag), "1.0.0+b1");
        let stored = read(&made.manifest).unwrap();
        assert_eq!(stored.archive.digest, Digest::of(b"tgz"));
        assert_eq!(stored.provenance.unwrap().digest, Digest::of(b"prov"));
        let config = made.blobs.iter().find(|b| b.descriptor == stored.config).unwrap();
        assert_eq!(read_config(&config.bytes).unwrap(), chart.metadata);
        assert!(String::from_utf8_lossy(&config.bytes).contains("a \\u003c b"));
        let Manifest::Image { about, .. } = made.manifest.parse().unwrap() else { panic!() };
        assert_eq!(about.annotations["org.opencontainers.image.authors"], "A (a@b.c), B");
        assert_eq!(about.annotations["x"], "z");
        let again =
            make(&chart, b"tgz".to_vec(), Some(b"prov".to_vec()), Some("2026-01-01T00:00:00Z"));
        assert_eq!(again.unwrap(), made);
    }

    #[test]
    fn what_is_not_a_chart_is_an_error() {
        let manifest = |config: &str, layers: &str| {
            let digest = Digest::of(b"x");
            let of =
                |kind: &str| format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":1}}"#);
            let text = format!(
                r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
                of(config),
                of(layers)
            );
            RawManifest::new(Some(MediaType::OCI_MANIFEST), text.into_bytes()).unwrap()
        };
        let error = read(&manifest("application/vnd.oci.image.config.v1+json", "x")).unwrap_err();
        assert!(error.to_string().contains("found an artifact of the type"), "{error}");
        assert!(matches!(read(&manifest(CONFIG_TYPE, "x")), Err(ArtifactError::NoChart)));
        assert!(read(&manifest(CONFIG_TYPE, OLD_CHART_TYPE)).is_ok());
        assert!(tag_of("1.0.0 x").is_err());
    }
}
