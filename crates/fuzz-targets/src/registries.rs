//! `registries.conf`, and challenges of registries.

use std::path::Path;

use oci::ImageRef;
use registry::{Challenge, Location, RegistriesConf, RequestKind};

use crate::text;

/// A file of rules, applied to some images.
pub fn registries_conf(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(conf) = RegistriesConf::parse(Path::new("registries.conf"), text) else { return };
    for image in ["quay.io/a/b:v1", "registry.example.com:5000/x/y/z", "busybox"] {
        let image: ImageRef = image.parse().expect("the image is a reference");
        let at = Location::from(&image);
        let destination = conf.destination(&at).ok();
        for kind in [RequestKind::Tag, RequestKind::Digest, RequestKind::Content] {
            // A mirror may be invalid although the registry itself is valid.
            let Ok(sources) = conf.sources(&at, kind) else { continue };
            assert!(!sources.is_empty());
            // A blocked registry is left out; its mirrors are not.
            if let Some(destination) = &destination {
                assert_eq!(
                    sources.last(),
                    Some(destination),
                    "the registry itself is the last one"
                );
            }
        }
    }
}

/// Headers `WWW-Authenticate`, one per line.
pub fn challenge(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Some(Challenge::Bearer { realm, .. }) = Challenge::pick(text.lines()) {
        assert!(matches!(realm.scheme(), "http" | "https"), "{realm}");
    }
}
