//! Image references, digests and manifests, as registries and users write them.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use oci::{
    Descriptor, Digest, ImageRef, Manifest, MediaType, Platform, RawManifest, RegistryHost,
    Repository, Tag, referrers_index,
};

use crate::text;

/// An image reference, and each of its parts.
pub fn reference(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(image) = text.parse::<ImageRef>() {
        let printed = image.to_string();
        assert_eq!(printed.parse().as_ref(), Ok(&image), "{printed:?}");
        let json = serde_json::to_string(&image).expect("a reference is a string");
        assert_eq!(serde_json::from_str::<ImageRef>(&json).ok().as_ref(), Some(&image));
        check_path(&image.repository);
        // Hosts and tags become names of folders.
        assert!(!image.registry.as_str().contains('/'), "{image}");
        assert!(image.registry.as_str().starts_with(image.registry.host()), "{image}");
        if let Some(pointer) = image.pointer() {
            assert_eq!(image.with_pointer(pointer.clone()).pointer(), Some(pointer));
        }
    }
    if let Some(repository) = unchanged::<Repository>(text) {
        check_path(&repository);
    }
    unchanged::<Digest>(text);
    unchanged::<Platform>(text);
    unchanged::<RegistryHost>(text);
    unchanged::<Tag>(text);
}

/// Parses text of which there is one spelling only.
fn unchanged<T: FromStr + Display + Debug + PartialEq>(text: &str) -> Option<T> {
    let value: T = text.parse().ok()?;
    assert_eq!(value.to_string(), text);
    Some(value)
}

/// Repositories become paths of folders.
fn check_path(repository: &Repository) {
    for component in repository.components() {
        assert!(!matches!(component, "" | "." | ".."), "{repository}");
    }
}

/// A manifest, with and without a media type from the registry.
pub fn manifest(data: &[u8]) {
    for sent_as in [None, Some(MediaType::OCI_MANIFEST), Some(MediaType::DOCKER_LIST)] {
        let Ok(raw) = RawManifest::new(sent_as, data.to_vec()) else { continue };
        assert_eq!(raw.bytes, data);
        assert_eq!(raw.digest, Digest::of(data));
        let Ok(manifest) = raw.parse() else { continue };
        check_manifest(&manifest);
    }
}

fn check_manifest(manifest: &Manifest) {
    let about = manifest.about();
    let descriptors: Vec<&Descriptor> =
        manifest.blobs().into_iter().chain(manifest.children()).chain(&about.subject).collect();
    for descriptor in &descriptors {
        let json = serde_json::to_string(descriptor).expect("a descriptor is plain data");
        assert_eq!(serde_json::from_str::<Descriptor>(&json).ok().as_ref(), Some(*descriptor));
    }
    let index = referrers_index(descriptors.into_iter().cloned().collect());
    let read = RawManifest::new(Some(MediaType::OCI_INDEX), index.bytes.clone());
    assert_eq!(read.expect("our own index is a manifest"), index);
    assert!(matches!(index.parse(), Ok(Manifest::Index { .. })));
    #[cfg(feature = "policies")]
    trust::listed(manifest);
}
