//! Where cosign keeps signatures: each is a layer of a manifest, the layer's
//! content is what was signed, an annotation has the signature.

use oci::{Digest, Manifest};

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const BUNDLE: &str = "dev.sigstore.cosign/bundle";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";

/// A signature whose payload is yet to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The blob that holds the payload.
    pub payload: Digest,
    pub size: u64,
    /// The signature in base64, as in the manifest.
    pub signature: String,
    /// The bundle of a transparency log with its inclusion promise, as JSON.
    pub bundle: Option<String>,
    /// The certificate of the key that made it, and those that certify it, in PEM form.
    pub certificate: Option<String>,
    pub chain: Option<String>,
}

/// The signatures in a manifest. Attestations and the like have none.
pub fn listed(manifest: &Manifest) -> Vec<Listed> {
    let Manifest::Image { layers, .. } = manifest else { return Vec::new() };
    let signed = layers.iter().filter(|layer| layer.media_type.as_str() == SIMPLE_SIGNING);
    signed
        .map(|layer| Listed {
            payload: layer.digest,
            size: layer.size,
            // One without a signature is one that no key has made.
            signature: layer.annotations.get(SIGNATURE).cloned().unwrap_or_default(),
            bundle: layer.annotations.get(BUNDLE).cloned(),
            certificate: layer.annotations.get(CERTIFICATE).cloned(),
            chain: layer.annotations.get(CHAIN).cloned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use oci::{About, Descriptor, MediaType};

    use super::*;

    #[test]
    fn layers_of_other_types_are_not_signatures() {
        let layer = |media_type: &str, annotation: Option<&str>| Descriptor {
            annotations: annotation
                .map(|text| (SIGNATURE.into(), text.into()))
                .into_iter()
                .collect(),
            ..Descriptor::new(MediaType::new(media_type), Digest::of(media_type.as_bytes()), 3)
        };
        let manifest = Manifest::Image {
            config: layer("config", None),
            layers: vec![
                layer("application/vnd.dsse.envelope.v1+json", Some("")),
                layer(SIMPLE_SIGNING, Some("c2ln")),
                layer(SIMPLE_SIGNING, None),
            ],
            about: About { annotations: BTreeMap::new(), ..About::default() },
        };
        let found: Vec<String> = listed(&manifest).into_iter().map(|l| l.signature).collect();
        assert_eq!(found, ["c2ln", ""]);
    }
}
