//! The part of a signed document that names an image. Signatures of containers/image (GPG) and of
//! cosign have it; they differ in the rest of the document.

use serde::Deserialize;

use crate::{Digest, ImageRef};

/// `critical` of a signed document. An unknown key is an error: it may change what the signature
/// states.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Critical {
    /// Which kind of signature it is.
    #[serde(rename = "type")]
    pub kind: String,
    pub image: SignedImage,
    pub identity: SignedName,
}

/// The image, by digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedImage {
    #[serde(rename = "docker-manifest-digest")]
    pub digest: Digest,
}

/// The name that the signer gave to the image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedName {
    #[serde(rename = "docker-reference")]
    pub reference: ImageRef,
}
