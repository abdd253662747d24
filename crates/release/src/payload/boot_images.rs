//! The boot images of a release: among them the disk of KubeVirt machines,
//! which is itself a container image.

use std::collections::BTreeMap;

use image_set::Architecture;
use oci::{ImageRef, Platform, ReferenceError};
use serde::Deserialize;

/// What the mirrored disk image is called among the components of its release.
const COMPONENT: &str = "kube-virt-container";
/// A hundred times the real file.
const MAX_BYTES: usize = 8 << 20;

/// The boot images of a release, by architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootImages {
    kube_virt: BTreeMap<String, String>,
}

/// A KubeVirt disk of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVirtDisk {
    /// Its name among the components of the release.
    pub component: String,
    /// Always with a digest.
    pub image: ImageRef,
}

#[derive(Debug, thiserror::Error)]
pub enum BootImagesError {
    #[error("the release's boot images are more than {} MiB of text", MAX_BYTES >> 20)]
    Large,
    #[error("the release's boot images are not a ConfigMap with a stream")]
    Yaml(#[source] Box<serde_saphyr::Error>),
    #[error("the stream of the release's boot images cannot be read")]
    Stream(#[source] serde_json::Error),
    #[error(
        "the release has no KubeVirt disk for {0}: remove kubeVirtContainer, or take a release from 4.14 on"
    )]
    None(String),
    #[error("the release's KubeVirt disk for {architecture} has no usable image")]
    Image { architecture: String, source: ReferenceError },
    #[error("the release's KubeVirt disk for {architecture} is {image}, without a digest")]
    Unpinned { architecture: String, image: Box<ImageRef> },
}

#[derive(Deserialize)]
struct ConfigMap {
    data: StreamHolder,
}

#[derive(Deserialize)]
struct StreamHolder {
    stream: String,
}

#[derive(Deserialize)]
struct Stream {
    architectures: BTreeMap<String, PerArchitecture>,
}

#[derive(Deserialize)]
struct PerArchitecture {
    #[serde(default)]
    images: Option<Images>,
}

#[derive(Deserialize)]
struct Images {
    kubevirt: Option<KubeVirt>,
}

#[derive(Deserialize)]
struct KubeVirt {
    #[serde(default, rename = "digest-ref")]
    digest_ref: String,
}

impl BootImages {
    pub fn parse(yaml: &[u8]) -> Result<Self, BootImagesError> {
        if yaml.len() > MAX_BYTES {
            return Err(BootImagesError::Large);
        }
        let yaml_error = |error| BootImagesError::Yaml(Box::new(error));
        let map: ConfigMap = serde_saphyr::from_slice(yaml).map_err(yaml_error)?;
        let stream: Stream =
            serde_json::from_str(&map.data.stream).map_err(BootImagesError::Stream)?;
        let disks = stream.architectures.into_iter().filter_map(|(architecture, of)| {
            let image = of.images?.kubevirt?.digest_ref;
            (!image.is_empty()).then_some((architecture, image))
        });
        Ok(Self { kube_virt: disks.collect() })
    }

    /// The disks for a payload of `architecture`, of which only `platforms` are
    /// wanted if there are any. Disks exist for x86_64 and s390x.
    pub fn kube_virt(
        &self,
        architecture: Architecture,
        platforms: &[Platform],
    ) -> Result<Vec<KubeVirtDisk>, BootImagesError> {
        let both = ["x86_64", "s390x"];
        let wanted: Vec<&str> = match architecture {
            Architecture::Multi if platforms.is_empty() => both.into(),
            Architecture::Multi => {
                platforms.iter().map(|platform| stream_name(&platform.architecture)).collect()
            }
            one => vec![stream_name(one.as_str())],
        };
        let held = |names: &[&'static str]| -> Vec<(&'static str, &String)> {
            let found = names.iter().filter_map(|name| Some((*name, self.kube_virt.get(*name)?)));
            found.collect()
        };
        let found =
            held(&both.into_iter().filter(|name| wanted.contains(name)).collect::<Vec<_>>());
        // Platforms without a disk do not determine which disk is meant.
        let found = match architecture {
            Architecture::Multi if found.is_empty() => held(&both),
            _ => found,
        };
        if found.is_empty() {
            return Err(BootImagesError::None(wanted.join(" and ")));
        }
        let several = found.len() > 1;
        found.into_iter().map(|(name, image)| disk(name, image, several)).collect()
    }
}

fn disk(architecture: &str, image: &str, several: bool) -> Result<KubeVirtDisk, BootImagesError> {
    let image: ImageRef = image.parse().map_err(|source| BootImagesError::Image {
        architecture: architecture.to_owned(),
        source,
    })?;
    if image.digest.is_none() {
        let (architecture, image) = (architecture.to_owned(), Box::new(image));
        return Err(BootImagesError::Unpinned { architecture, image });
    }
    let component = match several {
        true => format!("{COMPONENT}-{architecture}"),
        false => COMPONENT.to_owned(),
    };
    Ok(KubeVirtDisk { component, image })
}

/// How the stream calls an architecture.
fn stream_name(architecture: &str) -> &str {
    match architecture {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use oci::Digest;

    use super::*;

    fn boot_images(architectures: &str) -> Result<BootImages, BootImagesError> {
        let yaml = format!(
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  releaseVersion: 0.0.1\n  stream: |\n    {{\"stream\":\"rhcos-4.15\",\"architectures\":{{{architectures}}}}}\n"
        );
        BootImages::parse(yaml.as_bytes())
    }

    fn entry(architecture: &str) -> String {
        let image = format!("quay.io/a/b@{}", Digest::of(architecture.as_bytes()));
        format!(r#""{architecture}":{{"images":{{"kubevirt":{{"digest-ref":"{image}"}}}}}}"#)
    }

    fn names(disks: &[KubeVirtDisk]) -> Vec<&str> {
        disks.iter().map(|disk| disk.component.as_str()).collect()
    }

    #[test]
    fn the_disk_of_the_payloads_architecture_is_found() {
        let both =
            boot_images(&[entry("x86_64"), entry("s390x"), r#""aarch64":{}"#.into()].join(","))
                .unwrap();
        let disks = both.kube_virt(Architecture::S390x, &[]).unwrap();
        assert_eq!(names(&disks), ["kube-virt-container"]);
        assert_eq!(disks[0].image.digest, Some(Digest::of(b"s390x")));
        let error = both.kube_virt(Architecture::Arm64, &[]).unwrap_err().to_string();
        assert!(error.contains("no KubeVirt disk for aarch64"), "{error}");
    }

    #[test]
    fn a_payload_of_several_architectures_has_several_disks() {
        let both = boot_images(&[entry("x86_64"), entry("s390x")].join(",")).unwrap();
        let all = both.kube_virt(Architecture::Multi, &[]).unwrap();
        assert_eq!(names(&all), ["kube-virt-container-x86_64", "kube-virt-container-s390x"]);
        let platforms = ["amd64", "arm64"].map(|one| Platform::new("linux", one));
        let some = both.kube_virt(Architecture::Multi, &platforms).unwrap();
        assert_eq!(names(&some), ["kube-virt-container"]);
        assert_eq!(some[0].image.digest, Some(Digest::of(b"x86_64")));
    }

    #[test]
    fn what_is_not_a_list_of_boot_images_is_refused() {
        assert!(matches!(BootImages::parse(b"kind: ConfigMap\n"), Err(BootImagesError::Yaml(_))));
        let stream = "data:\n  stream: '<html>'\n";
        assert!(matches!(BootImages::parse(stream.as_bytes()), Err(BootImagesError::Stream(_))));
        assert!(matches!(
            BootImages::parse(&vec![b' '; MAX_BYTES + 1]),
            Err(BootImagesError::Large)
        ));
        let open = boot_images(r#""x86_64":{"images":{"kubevirt":{"digest-ref":"quay.io/a:1"}}}"#)
            .unwrap();
        let error = open.kube_virt(Architecture::Amd64, &[]).unwrap_err().to_string();
        assert!(error.contains("without a digest"), "{error}");
    }
}
