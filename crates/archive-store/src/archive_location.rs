//! `s3://BUCKET[/PREFIX]`, or `file://DIRECTORY`

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where archives are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveLocation {
    /// A bucket, and a prefix in it without slashes at its ends.
    Bucket { bucket: String, prefix: Option<String> },
    /// A directory: a volume that several nodes mount.
    Directory(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected s3://BUCKET[/PREFIX], found {0:?}")]
pub struct ArchiveLocationError(String);

impl FromStr for ArchiveLocation {
    type Err = ArchiveLocationError;

    fn from_str(text: &str) -> Result<Self, ArchiveLocationError> {
        let error = || ArchiveLocationError(text.to_owned());
        if let Some(path) = text.strip_prefix("file://") {
            let path = PathBuf::from(path);
            return if path.is_absolute() { Ok(Self::Directory(path)) } else { Err(error()) };
        }
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
        Ok(Self::Bucket { bucket: bucket.to_owned(), prefix })
    }
}

impl ArchiveLocation {
    /// A place below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        match self {
            Self::Bucket { bucket, prefix } => {
                let prefix = match prefix {
                    Some(prefix) => format!("{prefix}/{name}"),
                    None => name.to_owned(),
                };
                Self::Bucket { bucket: bucket.clone(), prefix: Some(prefix) }
            }
            Self::Directory(path) => Self::Directory(path.join(name)),
        }
    }

    /// The place above this one.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        match self {
            Self::Bucket { bucket, prefix } => {
                let prefix = prefix.as_deref()?.rsplit_once('/').map(|(above, _)| above.to_owned());
                Some(Self::Bucket { bucket: bucket.clone(), prefix })
            }
            Self::Directory(path) => path.parent().map(|path| Self::Directory(path.to_owned())),
        }
    }

    /// What keys start with.
    pub(crate) fn prefix(&self) -> Option<&str> {
        match self {
            Self::Bucket { prefix, .. } => prefix.as_deref(),
            Self::Directory(_) => None,
        }
    }
}

impl fmt::Display for ArchiveLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket { bucket, prefix: Some(prefix) } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Bucket { bucket, prefix: None } => write!(f, "s3://{bucket}"),
            Self::Directory(path) => write!(f, "file://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_a_prefix_or_a_directory() {
        let place = |text: &str| text.parse::<ArchiveLocation>();
        assert_eq!(place("s3://b").unwrap().prefix(), None);
        assert_eq!(place("s3://b/").unwrap().prefix(), None);
        assert_eq!(place("s3://b/x/y/").unwrap().to_string(), "s3://b/x/y");
        assert_eq!(place("s3://b/x").unwrap().join("y").to_string(), "s3://b/x/y");
        assert_eq!(place("s3://b").unwrap().join("y").to_string(), "s3://b/y");
        assert_eq!(place("file:///a/b").unwrap().join("y").to_string(), "file:///a/b/y");
        for (text, above) in
            [("s3://b/x/y", "s3://b/x"), ("s3://b/x", "s3://b"), ("file:///a/b", "file:///a")]
        {
            assert_eq!(place(text).unwrap().parent(), Some(place(above).unwrap()), "{text}");
        }
        assert_eq!(place("s3://b").unwrap().parent(), None);
        for text in ["s3://", "s3:///x", "b/x", "s3://B", "s3://b/../x", "s3://b/x//y", "file://b"]
        {
            assert!(place(text).is_err(), "{text}");
        }
    }
}
