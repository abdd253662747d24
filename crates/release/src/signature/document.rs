//! The document that is signed for an image.

use oci::simple_signing::Critical;
use oci::{Digest, ImageRef};
use serde::Deserialize;
use serde::de::IgnoredAny;

const KIND: &str = "atomic container signature";

pub(super) struct Document {
    pub(super) digest: Digest,
    pub(super) reference: ImageRef,
}

#[derive(Deserialize)]
struct Written {
    critical: Critical,
    // Who made the signature and when; it decides nothing.
    #[serde(default, rename = "optional")]
    _optional: IgnoredAny,
}

pub(super) fn read(text: &[u8]) -> Result<Document, String> {
    let written: Written = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let Critical { kind, image, identity } = written.critical;
    if kind != KIND {
        return Err(format!("it is a signature of the kind {kind:?}"));
    }
    Ok(Document { digest: image.digest, reference: identity.reference })
}
