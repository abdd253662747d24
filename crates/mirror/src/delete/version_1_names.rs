//! The tags that oc-mirror v1 gave to images by digest.

use std::collections::BTreeMap;

use delete_plan::Requested;
use mirror_plan::{Destination, Kind, Origin};
use oci::ImageRef;

/// Adds the images in `requested` under the names that version 1 gave them, with the digest that
/// each has by its own reference.
pub(crate) fn add(requested: &mut BTreeMap<Destination, Requested>) {
    let mut more = Vec::new();
    for (place, image) in requested.iter() {
        let Some(Origin::Registry(origin)) = &image.origin else { continue };
        let (Some(digest), None) = (origin.digest, &origin.tag) else { continue };
        let tag = match image.kind {
            Kind::Bundle | Kind::RelatedImage => hashed(origin),
            Kind::Additional | Kind::Helm => "latest".to_owned(),
            _ => continue,
        };
        let Ok(tag) = tag.parse() else { continue };
        let place = Destination { repository: place.repository.clone(), tag };
        more.push((place, Requested { digest: Some(digest), ..image.clone() }));
    }
    for (place, image) in more {
        requested.entry(place).or_insert(image);
    }
}

/// FNV-1a, 32 bits, in hexadecimal.
fn hashed(origin: &ImageRef) -> String {
    let hash = origin
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_get_a_hash_and_others_latest() {
        // The value for "a" is the one of the algorithm's own test vectors.
        let vector = "a"
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        assert_eq!(vector, 0xe40c_292c);
        let digest = oci::Digest::of(b"x");
        let wanted = |kind, name: &str| {
            let origin = Origin::Registry(format!("quay.io/{name}@{digest}").parse().unwrap());
            let place: Destination = format!("ns/{name}:{}", digest.as_tag_text()).parse().unwrap();
            (place, Requested { kind, origin: Some(origin), digest: None, reason: String::new() })
        };
        let mut requested = BTreeMap::from([
            wanted(Kind::Bundle, "a/bundle"),
            wanted(Kind::Additional, "a/tool"),
            wanted(Kind::ReleaseComponent, "a/component"),
        ]);
        add(&mut requested);
        assert_eq!(requested.len(), 5);
        let latest = &requested[&"ns/a/tool:latest".parse().unwrap()];
        assert_eq!(latest.digest, Some(digest));
    }
}
