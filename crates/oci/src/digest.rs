//! Content digests and the hashing that checks them.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A checked content digest: `sha256:` and 64 lowercase hex digits.
///
/// Kept as 32 bytes: a plan of a large mirror holds hundreds of thousands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("{0:?} is not a digest: only sha256 is supported, written sha256:<64 hex digits>")]
    Algorithm(String),
    #[error("{0:?} is not a digest: after sha256: come 64 lowercase hex digits")]
    Hex(String),
}

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_output(digest(&SHA256, bytes).as_ref())
    }

    /// The 64 hex digits, without the algorithm.
    pub fn hex(&self) -> String {
        self.0.iter().flat_map(|b| [HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]).collect()
    }

    /// A digest from its 64 hex digits alone, as file names carry it.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        let bad = || DigestError::Hex(hex.into());
        if hex.len() != 64 {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            *byte = nibble(pair[0]).ok_or_else(bad)? << 4 | nibble(pair[1]).ok_or_else(bad)?;
        }
        Ok(Self(bytes))
    }

    /// `sha256-<hex>`, the form that is allowed in a tag.
    pub fn as_tag_text(&self) -> String {
        format!("sha256-{}", self.hex())
    }

    /// The first 12 hex digits, for messages where the whole would hide the sentence.
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }

    fn from_output(output: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(output);
        Self(bytes)
    }
}

const HEX: [char; 16] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex =
            text.strip_prefix("sha256:").ok_or_else(|| DigestError::Algorithm(text.into()))?;
        Self::from_hex(hex).map_err(|_| DigestError::Hex(text.into()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes content as it passes by.
#[derive(Clone)]
pub struct Hasher {
    context: Context,
    length: u64,
}

impl Hasher {
    pub fn new() -> Self {
        Self { context: Context::new(&SHA256), length: 0 }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// How many bytes passed so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn finish(self) -> Digest {
        Digest::from_output(self.context.finish().as_ref())
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The digest of no bytes, from FIPS 180-4's examples.
    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn hashing_in_pieces_equals_hashing_at_once() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        let mut hasher = Hasher::new();
        hasher.update(b"ab");
        hasher.update(b"c");
        assert_eq!(hasher.length(), 3);
        assert_eq!(hasher.finish(), Digest::of(b"abc"));
    }

    #[test]
    fn a_digest_prints_as_it_was_parsed() {
        let digest: Digest = EMPTY.parse().unwrap();
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(Digest::from_hex(&digest.hex()), Ok(digest));
        assert_eq!(serde_json::to_string(&digest).unwrap(), format!("{EMPTY:?}"));
        assert_eq!(serde_json::from_str::<Digest>(&format!("{EMPTY:?}")).unwrap(), digest);
    }

    #[test]
    fn what_is_not_a_digest_is_refused() {
        for (text, expected) in [
            ("sha512:00", "only sha256 is supported"),
            ("e3b0", "only sha256 is supported"),
            (
                "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
                "lowercase",
            ),
            ("sha256:e3b0", "64 lowercase hex digits"),
            ("sha256:../../../../../../../../../../../../../../../../../../../etc/passwd__", "64"),
        ] {
            let error = text.parse::<Digest>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
