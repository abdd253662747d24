//! Data URLs: the form in which Ignition stores the bytes of a file.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The media type of what we write. Other tools expect exactly this prefix.
const TEXT: &str = "data:text/plain;charset=utf-8;base64,";
/// For bytes that are not text.
const BYTES: &str = "data:;base64,";

/// Both paddings occur in the wild, and both mean the same bytes.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A data URL: its text, and the bytes that it encodes.
#[derive(Clone, PartialEq, Eq)]
pub struct DataUrl {
    text: String,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataUrlError {
    #[error(
        "{0} is not a data URL; a node cannot get the contents otherwise, so write \
         `data:,…` or `data:;base64,…`"
    )]
    Scheme(String),
    #[error("a data URL needs a comma between its media type and its contents")]
    NoComma,
    #[error("the base64 of a data URL is broken{}", hint(.wrapped))]
    Base64 {
        /// It holds white space.
        wrapped: bool,
        source: base64::DecodeError,
    },
    #[error(
        "the data URL has a `%` at byte {0} of its contents that two hexadecimal digits do not follow"
    )]
    Percent(usize),
    #[error("the data URL holds the character {0:?}, which must be written as `%{code:02X}`", code = *.0 as u32)]
    Character(char),
}

fn hint(wrapped: &bool) -> &'static str {
    if *wrapped { ": it holds line breaks or spaces; make it with `base64 -w0`" } else { "" }
}

impl DataUrl {
    /// The URL we write for text.
    pub fn of_text(bytes: &[u8]) -> Self {
        Self { text: format!("{TEXT}{}", BASE64.encode(bytes)), bytes: bytes.to_owned() }
    }

    /// The URL we write for bytes that are not text, such as compressed ones.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { text: format!("{BYTES}{}", BASE64.encode(bytes)), bytes: bytes.to_owned() }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl FromStr for DataUrl {
    type Err = DataUrlError;

    fn from_str(text: &str) -> Result<Self, DataUrlError> {
        let scheme = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:"));
        if scheme.is_none() {
            return Err(DataUrlError::Scheme(excerpt(text)));
        }
        let (head, body) = text[5..].split_once(',').ok_or(DataUrlError::NoComma)?;
        // The last parameter determines it; any charset or media type before it is the reader's matter.
        let is_base64 = head
            .rsplit(';')
            .next()
            .is_some_and(|last| head.contains(';') && last.trim().eq_ignore_ascii_case("base64"));
        let plain = unescape(body)?;
        let bytes = if is_base64 {
            BASE64.decode(&plain).map_err(|source| DataUrlError::Base64 {
                wrapped: plain.iter().any(u8::is_ascii_whitespace),
                source,
            })?
        } else {
            plain
        };
        Ok(Self { text: text.to_owned(), bytes })
    }
}

/// Resolves `%xx`. Characters beyond ASCII and blanks must not occur in a URL, but do in
/// files written by hand, and are then taken literally.
fn unescape(text: &str) -> Result<Vec<u8>, DataUrlError> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
                match (digit(at + 1), digit(at + 2)) {
                    (Some(high), Some(low)) => plain.push((high * 16 + low) as u8),
                    _ => return Err(DataUrlError::Percent(at)),
                }
                at += 3;
            }
            b'\0' => return Err(DataUrlError::Character('\0')),
            byte => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    Ok(plain)
}

/// The beginning of a source, for messages: it may be long, and hold credentials behind the host.
fn excerpt(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, _)) if scheme.len() < 12 => format!("a {scheme}:// address"),
        _ => format!("{:?}…", text.chars().take(12).collect::<String>()),
    }
}

/// Contents may be large, and are not useful in debug output.
impl fmt::Debug for DataUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataUrl({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(url: &str) -> Result<String, String> {
        url.parse::<DataUrl>()
            .map(|url| String::from_utf8(url.bytes().to_owned()).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_of_a_data_url_is_read() {
        for (url, expected) in [
            ("data:,", ""),
            ("data:,hello", "hello"),
            ("data:,a%20b%0Ac", "a b\nc"),
            ("data:,%C3%A9", "é"),
            ("data:,a,b", "a,b"),
            ("data:text/plain,hello", "hello"),
            ("data:text/plain;charset=utf-8,hello%21", "hello!"),
            ("data:;base64,aGVsbG8=", "hello"),
            ("data:;base64,aGVsbG8", "hello"),
            ("data:;base64,aGVsbG8%3D", "hello"),
            ("data:text/plain;charset=utf-8;base64,aGVsbG8=", "hello"),
            ("data:text/plain;base64,aGVsbG8=", "hello"),
            ("data:application/octet-stream;base64,aGVsbG8=", "hello"),
            ("DATA:;BASE64,aGVsbG8=", "hello"),
            ("data:base64,aGVsbG8=", "aGVsbG8="),
            ("data:,1+1", "1+1"),
        ] {
            assert_eq!(decoded(url).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_not_a_data_url_is_rejected_with_the_reason() {
        for (url, expected) in [
            (
                "https://user:secret@example.com/f",
                "a https:// address is not a data URL; a node cannot get the contents otherwise, so \
                 write `data:,…` or `data:;base64,…`",
            ),
            (
                "interfaces: []",
                "\"interfaces: \"… is not a data URL; a node cannot get the contents otherwise, so \
                 write `data:,…` or `data:;base64,…`",
            ),
            ("data:text/plain", "a data URL needs a comma between its media type and its contents"),
            (
                "data:;base64,aGVs\n bG8=",
                "the base64 of a data URL is broken: it holds line breaks or spaces; make it with \
                 `base64 -w0`",
            ),
            ("data:;base64,a!", "the base64 of a data URL is broken"),
            (
                "data:,ab%2",
                "the data URL has a `%` at byte 2 of its contents that two hexadecimal digits do \
                 not follow",
            ),
            (
                "data:,a\0b",
                "the data URL holds the character '\\0', which must be written as `%00`",
            ),
        ] {
            assert_eq!(decoded(url), Err(expected.to_owned()), "{url}");
        }
    }

    #[test]
    fn what_is_written_is_one_line_with_the_prefix_that_other_tools_expect() {
        let text = "x".repeat(500);
        let url = DataUrl::of_text(text.as_bytes());
        assert!(url.as_str().starts_with("data:text/plain;charset=utf-8;base64,eHh4"));
        assert!(!url.as_str().contains('\n'));
        assert_eq!(url.as_str().parse::<DataUrl>().unwrap(), url);
    }

    #[test]
    fn contents_do_not_appear_in_a_debug_text() {
        assert_eq!(format!("{:?}", DataUrl::of_text(b"secret")), "DataUrl(6 bytes)");
    }
}
