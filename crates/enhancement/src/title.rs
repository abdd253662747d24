//! The title of a document, the name of its file, the area it belongs to.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest file name without `.md`. File systems stop at 255 bytes.
const MAX_NAME: usize = 200;

/// A title in words, from which a file name follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    words: String,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TitleError {
    #[error("the title {0:?} has no letter and no digit to name a file by; write it in words")]
    NoName(String),
    #[error("the title is longer than {MAX_NAME} letters as a file name; shorten it")]
    TooLong,
}

impl Title {
    /// As a heading shows it.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// The file's name without `.md`, which is also the `title` of the
    /// metadata: small letters, and a `-` for all that is no letter or digit.
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
            _ => Err(TitleError::TooLong),
        }
    }
}

/// The folder below `enhancements/` that a document belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no area; write the name of a folder: small letters, digits and dashes, such as network"
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
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_folder = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(legal)
        };
        if text.split('/').all(is_folder) {
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
    fn a_file_is_named_by_the_words_of_its_title() {
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
    fn a_title_that_names_no_file_is_refused() {
        assert_eq!("?!".parse::<Title>(), Err(TitleError::NoName("?!".into())));
        assert_eq!("a".repeat(201).parse::<Title>(), Err(TitleError::TooLong));
    }

    #[test]
    fn an_area_cannot_lead_out_of_its_folder() {
        for good in ["network", "single-node", "cloud/aws2"] {
            assert_eq!(good.parse::<Area>().unwrap().to_string(), good);
        }
        for bad in ["", "..", "a/../b", "/a", "a/", "A", "a b", "-x", ".git"] {
            assert!(bad.parse::<Area>().is_err(), "{bad}");
        }
    }
}
