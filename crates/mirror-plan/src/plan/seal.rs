//! A digest at the end of a document, so that an edited one is noticed.
//!
//! The digest is of the text before it, byte by byte. It protects from mistakes and from changes
//! after a review, not from an attacker who computes it again.

use std::io::{self, Write};

use oci::{Digest, Hasher};

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

/// Adds the digest to an indented JSON object while it is written: plans of large mirrors need not
/// be in memory.
#[derive(Debug)]
pub struct Sealing<W> {
    inner: W,
    hasher: Hasher,
    /// The end of what was written so far: the object's last bytes come after the digest.
    held: Vec<u8>,
}

impl<W: Write> Sealing<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, hasher: Hasher::new(), held: Vec::new() }
    }

    /// Writes the digest and the end of the object.
    ///
    /// # Errors
    /// What was written is not an indented JSON object with a line break behind it, or cannot be
    /// written.
    pub fn finish(mut self) -> io::Result<W> {
        if self.held != END.as_bytes() {
            return Err(io::Error::other("expected the end of a JSON object"));
        }
        let digest = self.hasher.finish();
        write!(self.inner, "{KEY}{digest}{CLOSE}")?;
        self.inner.flush()?;
        Ok(self.inner)
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let certain = self.held.len().saturating_sub(END.len());
        self.inner.write_all(&self.held[..certain])?;
        self.hasher.update(&self.held[..certain]);
        self.held.drain(..certain);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The JSON object that a [`Sealing`] was given.
///
/// # Errors
/// The text is not what it wrote.
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

    fn seal(json: &str) -> String {
        let mut sealing = Sealing::new(Vec::new());
        // In pieces, as encoders write.
        json.as_bytes().chunks(2).for_each(|piece| sealing.write_all(piece).unwrap());
        String::from_utf8(sealing.finish().unwrap()).unwrap()
    }

    #[test]
    fn what_is_not_a_whole_object_is_not_sealed() {
        for text in ["", "}", "{\n  \"a\": 1\n}"] {
            let mut sealing = Sealing::new(Vec::new());
            sealing.write_all(text.as_bytes()).unwrap();
            assert!(sealing.finish().is_err(), "{text:?}");
        }
    }

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
