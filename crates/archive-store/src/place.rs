//! `s3://BUCKET[/PREFIX]`

use std::fmt;
use std::str::FromStr;

/// A bucket, and a prefix in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub bucket: String,
    /// Without slashes at its ends.
    pub prefix: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected s3://BUCKET[/PREFIX], found {0:?}")]
pub struct PlaceError(String);

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let error = || PlaceError(text.to_owned());
        let rest = text.strip_prefix("s3://").ok_or_else(error)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        let prefix = prefix.trim_matches('/');
        let is_odd = prefix.split('/').any(|part| part == "." || part == ".." || part.is_empty());
        if bucket.is_empty() || !bucket.bytes().all(is_name) || (!prefix.is_empty() && is_odd) {
            return Err(error());
        }
        let prefix = (!prefix.is_empty()).then(|| prefix.to_owned());
        Ok(Self { bucket: bucket.to_owned(), prefix })
    }
}

impl Place {
    /// A place below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        let prefix = match &self.prefix {
            Some(prefix) => format!("{prefix}/{name}"),
            None => name.to_owned(),
        };
        Self { bucket: self.bucket.clone(), prefix: Some(prefix) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        match &self.prefix {
            Some(prefix) => write!(f, "/{prefix}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_a_prefix() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("s3://b").unwrap().prefix, None);
        assert_eq!(place("s3://b/").unwrap().prefix, None);
        assert_eq!(place("s3://b/x/y/").unwrap().to_string(), "s3://b/x/y");
        assert_eq!(place("s3://b/x").unwrap().join("y").to_string(), "s3://b/x/y");
        assert_eq!(place("s3://b").unwrap().join("y").to_string(), "s3://b/y");
        for text in ["s3://", "s3:///x", "b/x", "s3://B", "s3://b/../x", "s3://b/x//y"] {
            assert!(place(text).is_err(), "{text}");
        }
    }
}
