//! `imageDigestSources` for an install-config: a cluster that is installed from the mirror needs
//! the mirrors of its release before any manifest can be applied to it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::document::Entry;
use super::{Category, MirroredImage, Resource, ResourceError, ResourceOptions, redirected, scope};

/// The name of the file.
pub const IMAGE_DIGEST_SOURCES: &str = "image-digest-sources.yaml";

const HEADER: &str = "\
# Add this to install-config.yaml, so that the installer and the new cluster pull the release from the
# mirror. If the mirror's certificate is signed by a private CA, add the CA as additionalTrustBundle.
";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Snippet {
    image_digest_sources: Vec<Entry>,
}

/// The part of an install-config for the releases of the mirror. `None` if it has none.
pub fn image_digest_sources(
    images: &[MirroredImage],
    options: &ResourceOptions,
) -> Result<Option<String>, ResourceError> {
    let mut sources: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for image in images {
        let Some(source) = redirected(image) else { continue };
        let is_release = Category::of(image.kind) == Some(Category::Release);
        if is_release && Resource::DigestMirrorSet.covers(image.kind, source) {
            let (source, mirror) = scope::redirect(source, &image.destination, options.scope);
            sources.entry(source).or_default().insert(mirror);
        }
    }
    if sources.is_empty() {
        return Ok(None);
    }
    let entries = sources.into_iter().map(|(source, mirrors)| Entry { mirrors, source });
    let snippet = Snippet { image_digest_sources: entries.collect() };
    let mut text = HEADER.to_owned();
    super::document::write(&mut text, &snippet)
        .map_err(|source| ResourceError { name: IMAGE_DIGEST_SOURCES.to_owned(), source })?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Scope;
    use crate::{Kind, Origin};

    fn placed(kind: Kind, origin: &str, destination: &str) -> MirroredImage {
        let origin = Origin::Registry(origin.parse().unwrap());
        MirroredImage { kind, origin, destination: destination.parse().unwrap() }
    }

    #[test]
    fn releases_are_listed_and_other_images_are_not() {
        let options = ResourceOptions {
            created_at: jiff::Timestamp::UNIX_EPOCH,
            tool_version: "1".to_owned(),
            scope: Scope::Repository,
            content_source_policy: false,
        };
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let images = [
            placed(
                Kind::ReleasePayload,
                "quay.io/openshift-release-dev/ocp-release:4.18.1-x86_64",
                "r:5000/ocp/openshift/release-images:4.18.1-x86_64",
            ),
            placed(
                Kind::ReleaseComponent,
                &format!("quay.io/openshift-release-dev/ocp-v4.0-art-dev@{digest}"),
                "r:5000/ocp/openshift/release:4.18.1-x86_64-etcd",
            ),
            placed(Kind::Additional, &format!("quay.io/a/b@{digest}"), "r:5000/ocp/a/b:1"),
        ];
        let text = image_digest_sources(&images, &options).unwrap().unwrap();
        let yaml = "\
imageDigestSources:
- mirrors:
  - r:5000/ocp/openshift/release-images
  source: quay.io/openshift-release-dev/ocp-release
- mirrors:
  - r:5000/ocp/openshift/release
  source: quay.io/openshift-release-dev/ocp-v4.0-art-dev
";
        assert_eq!(text, format!("{HEADER}{yaml}"));
        assert_eq!(image_digest_sources(&images[2..], &options).unwrap(), None);
    }
}
