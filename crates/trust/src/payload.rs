//! What cosign signs: a small document that names an image and its digest.

use oci::simple_signing::Critical;
use oci::{Digest, ImageRef};
use serde::Deserialize;
use serde::de::IgnoredAny;

const KIND: &str = "cosign container image signature";

/// The content of a signature, once its signer is known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) digest: Digest,
    pub(crate) name: ImageRef,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    critical: Critical,
    // Annotations of the signer; they decide nothing.
    #[serde(rename = "optional")]
    _optional: IgnoredAny,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error("a signature is of something that is not an image: {0}")]
    Json(serde_json::Error),
    #[error("a signature is of the kind {0:?}")]
    Kind(String),
}

impl Payload {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, PayloadError> {
        let document: Document = serde_json::from_slice(bytes).map_err(PayloadError::Json)?;
        let Critical { kind, image, identity } = document.critical;
        if kind != KIND {
            return Err(PayloadError::Kind(kind));
        }
        Ok(Self { digest: image.digest, name: identity.reference })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(critical: &str) -> String {
        format!(r#"{{"critical":{critical},"optional":null}}"#)
    }

    #[test]
    fn a_payload_names_which_image_it_is_about() {
        let digest = Digest::of(b"x");
        let critical = format!(
            r#"{{"identity":{{"docker-reference":"q.io/a/b"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{KIND}"}}"#
        );
        let expected = Payload { digest, name: "q.io/a/b".parse().unwrap() };
        assert_eq!(Payload::parse(document(&critical).as_bytes()).unwrap(), expected);
        let annotated = format!(r#"{{"critical":{critical},"optional":{{"creator":"x","n":1}}}}"#);
        assert_eq!(Payload::parse(annotated.as_bytes()).unwrap(), expected);

        for (from, to) in [
            (KIND, "atomic container signature"),
            ("\"type\"", "\"type\":\"x\",\"type\""),
            ("\"type\"", "\"more\":1,\"type\""),
            ("sha256:", "sha512:"),
            ("q.io/a/b", "q.io//b"),
            ("docker-reference", "reference"),
        ] {
            let wrong = document(&critical.replace(from, to));
            assert!(Payload::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(Payload::parse(critical.as_bytes()).is_err());
    }
}
