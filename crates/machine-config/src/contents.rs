//! What a file holds: a data URL, possibly of compressed bytes.

use std::fmt;
use std::io::{Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

use crate::data_url::{DataUrl, DataUrlError};

/// A file larger than this does not belong into a MachineConfig, whose limit is a tenth of it. A
/// few compressed bytes can expand to gigabytes, so it is not expanded further.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// How contents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Base64. Every other tool reads it.
    #[default]
    Plain,
    /// Compressed, then base64: about half the size.
    Gzip,
}

/// The contents of a file: how they are written, and what they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Contents {
    source: Option<DataUrl>,
    /// As written. An empty text and no text both mean none, but they merge differently.
    compression: Option<String>,
    /// Expanded, when they are compressed.
    expanded: Option<Vec<u8>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ContentsError {
    #[error(transparent)]
    DataUrl(#[from] DataUrlError),
    #[error("compression {0:?} is unknown; nodes support `gzip` and none")]
    Compression(String),
    #[error("its contents are marked as gzip, but cannot be decompressed")]
    Gzip(#[source] std::io::Error),
    #[error("its contents expand to more than {} MiB; nothing that large belongs into a MachineConfig", MAX_BYTES >> 20)]
    TooLarge,
}

impl Contents {
    /// Contents as we write them. The same bytes always give the same text.
    pub fn new(bytes: &[u8], encoding: Encoding) -> Self {
        match encoding {
            // The field is set although it is empty: a file of an earlier MachineConfig that this
            // one replaces may be compressed, and without the field that would stay.
            Encoding::Plain => Self {
                source: Some(DataUrl::of_text(bytes)),
                compression: Some(String::new()),
                expanded: None,
            },
            Encoding::Gzip => Self {
                source: Some(DataUrl::of_bytes(&compress(bytes))),
                compression: Some("gzip".to_owned()),
                expanded: Some(bytes.to_owned()),
            },
        }
    }

    /// Contents as they are found. Without a source the file is empty.
    pub fn parse(source: Option<&str>, compression: Option<&str>) -> Result<Self, ContentsError> {
        let source = match source {
            // What older versions of Ignition write for "no source".
            None | Some("") => None,
            Some(text) => Some(text.parse::<DataUrl>()?),
        };
        let expanded = match compression {
            None | Some("") => None,
            Some("gzip") => Some(expand(source.as_ref().map_or(&[], DataUrl::bytes))?),
            Some(other) => return Err(ContentsError::Compression(other.to_owned())),
        };
        Ok(Self { source, compression: compression.map(str::to_owned), expanded })
    }

    /// What the file on the node will hold.
    pub fn bytes(&self) -> &[u8] {
        match (&self.expanded, &self.source) {
            (Some(bytes), _) => bytes,
            (None, Some(source)) => source.bytes(),
            (None, None) => &[],
        }
    }

    /// How it is written, so that what is added beside it can be written alike.
    pub fn encoding(&self) -> Encoding {
        if self.expanded.is_some() { Encoding::Gzip } else { Encoding::Plain }
    }

    pub fn source(&self) -> Option<&str> {
        self.source.as_ref().map(DataUrl::as_str)
    }

    pub fn compression(&self) -> Option<&str> {
        self.compression.as_deref()
    }
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    // No name, no time: the same bytes give the same text at any time, on any machine.
    let mut writer = GzBuilder::new().operating_system(255).write(Vec::new(), Compression::best());
    // Writing to a vector does not fail.
    let _ = writer.write_all(bytes);
    writer.finish().unwrap_or_default()
}

fn expand(bytes: &[u8]) -> Result<Vec<u8>, ContentsError> {
    let mut expanded = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes).take(MAX_BYTES as u64 + 1);
    reader.read_to_end(&mut expanded).map_err(ContentsError::Gzip)?;
    if expanded.len() > MAX_BYTES { Err(ContentsError::TooLarge) } else { Ok(expanded) }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contents({} bytes, {:?})", self.bytes().len(), self.compression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_give_back_the_bytes_and_the_same_text_each_time() {
        for encoding in [Encoding::Plain, Encoding::Gzip] {
            for bytes in [&b""[..], b"interfaces: []\n", &[0, 255, 10]] {
                let contents = Contents::new(bytes, encoding);
                assert_eq!(contents.bytes(), bytes);
                assert_eq!(contents.encoding(), encoding);
                assert_eq!(contents, Contents::new(bytes, encoding));
                let again = Contents::parse(contents.source(), contents.compression()).unwrap();
                assert_eq!(again, contents);
            }
        }
    }

    #[test]
    fn compression_makes_documents_smaller() {
        let text = "- name: eno1\n  type: ethernet\n  state: up\n".repeat(20);
        let length = |encoding| Contents::new(text.as_bytes(), encoding).source().unwrap().len();
        assert!(length(Encoding::Gzip) * 2 < length(Encoding::Plain));
    }

    #[test]
    fn gzip_that_other_programs_made_is_read() {
        // printf hello | gzip -n | base64 -w0
        let source = "data:;base64,H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==";
        assert_eq!(Contents::parse(Some(source), Some("gzip")).unwrap().bytes(), b"hello");
    }

    #[test]
    fn no_source_is_an_empty_file() {
        for (source, compression) in [(None, None), (Some(""), Some("")), (Some("data:,"), None)] {
            assert_eq!(Contents::parse(source, compression).unwrap().bytes(), b"");
        }
    }

    #[test]
    fn a_few_bytes_cannot_fill_the_memory() {
        let bomb = DataUrl::of_bytes(&compress(&vec![0; MAX_BYTES + 1]));
        assert!(bomb.as_str().len() < 100_000);
        let error = Contents::parse(Some(bomb.as_str()), Some("gzip")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its contents expand to more than 16 MiB; nothing that large belongs into a \
             MachineConfig",
        );
        let largest = DataUrl::of_bytes(&compress(&vec![0; MAX_BYTES]));
        assert!(Contents::parse(Some(largest.as_str()), Some("gzip")).is_ok());
    }

    #[test]
    fn unknown_or_broken_compression_is_refused() {
        let error = Contents::parse(Some("data:,x"), Some("xz")).unwrap_err().to_string();
        assert_eq!(error, "compression \"xz\" is unknown; nodes support `gzip` and none");
        let error = Contents::parse(Some("data:,x"), Some("gzip")).unwrap_err().to_string();
        assert_eq!(error, "its contents are marked as gzip, but cannot be decompressed");
    }
}
