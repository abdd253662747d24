//! The title, the file name and the area of a document.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest file name without `.md`. The limit of file systems is 255 bytes.
const MAX_NAME: usize = 200;

/// A title in words, with the file name that is derived from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    words: String,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TitleError {
    #[error("expected a title with at least one letter or digit, found {0:?}")]
    NoName(String),
    #[error("expected a title of at most {MAX_NAME} bytes as a file name, found {0}")]
    TooLong(usize),
}

impl Title {
    /// The title as a heading contains it.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The file name without `.md`, which is also the `title` of the metadata:
    /// lower case, with `-` in place of everything but letters and digits.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Title {
    type Err = TitleError;

    fn from_str(text: &str) -> Result<Self, TitleError> {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let name = words
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("-");
        match name.len() {
            0 => Err(TitleError::NoName(words)),
            1..=MAX_NAME => Ok(Self { words, name }),
            length => Err(TitleError::TooLong(length)),
        }
    }
}

/// The directory of a document below `enhancements/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a directory name of lower-case letters, digits and dashes, such as network, found {0:?}"
)]
pub struct AreaError(String);

impl Area {
    pub fn path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }
}

impl FromStr for Area {
    type Err = AreaError;

    fn from_str(text: &str) -> Result<Self, AreaError> {
        let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_directory = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_legal)
        };
        if text.split('/').all(is_directory) {
            Ok(Self(text.to_owned()))
        } else {
            Err(AreaError(text.to_owned()))
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_name_is_derived_from_the_title() {
        for (text, name) in [
            ("Mirror release signatures", "mirror-release-signatures"),
            ("  br-ex:  on first   boot! ", "br-ex-on-first-boot"),
            ("OCP 4.18 --- what's new", "ocp-4-18-what-s-new"),
            ("Über Straßen", "über-straßen"),
        ] {
            assert_eq!(text.parse::<Title>().unwrap().name(), name);
        }
        assert_eq!("  a   b ".parse::<Title>().unwrap().words(), "a b");
    }

    #[test]
    fn a_title_without_a_valid_file_name_is_rejected() {
        assert_eq!("?!".parse::<Title>(), Err(TitleError::NoName("?!".into())));
        assert_eq!("a".repeat(201).parse::<Title>(), Err(TitleError::TooLong(201)));
    }

    #[test]
    fn an_area_cannot_leave_its_directory() {
        for good in ["network", "single-node", "cloud/aws2"] {
            assert_eq!(good.parse::<Area>().unwrap().to_string(), good);
        }
        for bad in ["", "..", "a/../b", "/a", "a/", "A", "a b", "-x", ".git"] {
            assert!(bad.parse::<Area>().is_err(), "{bad}");
        }
    }
}
