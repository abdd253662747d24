//! A digest at the end of a document, so that an edited one is noticed.
//!
//! The digest is of the text before it, byte by byte. It protects from mistakes and from changes
//! after a review, not from an attacker who computes it again.

use oci::Digest;

const END: &str = "\n}\n";
const KEY: &str = ",\n  \"digest\": \"";
const CLOSE: &str = "\"\n}\n";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("expected a digest in the last line: the file was edited, or it is not a stored plan")]
    Absent,
    #[error("it was edited: its content has the digest {found}, expected {expected}")]
    Edited { expected: Digest, found: Digest },
}

/// Adds the digest to an indented JSON object.
pub fn seal(json: &str) -> String {
    let text = json.strip_suffix(END).unwrap_or(json);
    let digest = Digest::of(text.as_bytes());
    format!("{text}{KEY}{digest}{CLOSE}")
}

/// The JSON object that [`seal`] was given.
///
/// # Errors
/// The text is not what [`seal`] wrote.
pub fn unseal(sealed: &str) -> Result<String, SealError> {
    let open = sealed.strip_suffix(CLOSE).ok_or(SealError::Absent)?;
    let (text, digest) = open.rsplit_once(KEY).ok_or(SealError::Absent)?;
    let expected: Digest = digest.parse().map_err(|_| SealError::Absent)?;
    let found = Digest::of(text.as_bytes());
    if found != expected {
        return Err(SealError::Edited { expected, found });
    }
    Ok(format!("{text}{END}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}\n";

    #[test]
    fn a_sealed_document_is_json_and_opens_to_what_it_was() {
        let sealed = seal(JSON);
        let value: serde_json::Value = serde_json::from_str(&sealed).unwrap();
        assert_eq!((&value["a"], &value["b"][0]), (&1.into(), &2.into()));
        assert!(value["digest"].as_str().unwrap().starts_with("sha256:"));
        assert_eq!(unseal(&sealed).unwrap(), JSON);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let sealed = seal(JSON);
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert!(unseal(&changed).is_err(), "{at}: {changed}");
        }
        assert_eq!(unseal(JSON), Err(SealError::Absent));
        assert_eq!(unseal(&format!("{sealed} ")), Err(SealError::Absent));
        assert_eq!(unseal(""), Err(SealError::Absent));
    }
}
