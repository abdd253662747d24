//! Image references, read by the grammar that docker, podman and Kubernetes
//! use: `[registry[:port]/]repository[:tag][@digest]`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Digest, DigestError};

/// The registry meant by a reference without one.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Where that registry keeps repositories of a single word.
const DEFAULT_NAMESPACE: &str = "library";
/// Longest repository with its registry, by the same grammar.
const MAX_NAME: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("the image reference is empty")]
    Empty,
    #[error("{0:?} is not a registry: expected a host name or address with an optional :port")]
    Host(String),
    #[error(
        "{0:?} is not a repository: expected lowercase letters and digits, separated by '.', '_', '-' or '/'"
    )]
    Repository(String),
    #[error("{0:?} is longer than {MAX_NAME} characters")]
    Long(String),
    #[error(
        "{0:?} is not a tag: expected letters, digits, '_', '.' and '-', at most 128, not first '.' or '-'"
    )]
    Tag(String),
    #[error(transparent)]
    Digest(#[from] DigestError),
}

/// A registry's host name or address, with its port if one was given.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegistryHost(Box<str>);

/// A repository's path inside its registry: `openshift/release`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repository(Box<str>);

/// A tag: at most 128 letters, digits, `_`, `.` and `-`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(Box<str>);

/// What a manifest is requested by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pointer {
    Tag(Tag),
    Digest(Digest),
}

/// An image in a registry. Short names are completed (`busybox` is
/// `docker.io/library/busybox`); a missing tag is not invented.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageRef {
    pub registry: RegistryHost,
    pub repository: Repository,
    pub tag: Option<Tag>,
    pub digest: Option<Digest>,
}

impl ImageRef {
    /// What to request from the registry: the digest where there is one, as a tag
    /// beside it is only a name. `None` when the reference has neither.
    pub fn pointer(&self) -> Option<Pointer> {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => Some(Pointer::Digest(*digest)),
            (None, Some(tag)) => Some(Pointer::Tag(tag.clone())),
            (None, None) => None,
        }
    }

    /// Whether the text of a reference has no registry, so that one was added.
    pub fn is_short(text: &str) -> bool {
        text.split_once('/').is_none_or(|(first, _)| !is_host(first))
    }

    /// `registry/repository`, without tag and digest.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The same repository, another manifest of it.
    pub fn with_pointer(&self, pointer: Pointer) -> Self {
        let (tag, digest) = match pointer {
            Pointer::Tag(tag) => (Some(tag), None),
            Pointer::Digest(digest) => (None, Some(digest)),
        };
        Self { registry: self.registry.clone(), repository: self.repository.clone(), tag, digest }
    }
}

impl FromStr for ImageRef {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (text, None),
        };
        // A colon after the last slash starts a tag; one before it, a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag.parse()?)),
            _ => (rest, None),
        };
        if name.is_empty() {
            return Err(ReferenceError::Empty);
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, path)) if is_host(first) => (first, path.to_owned()),
            Some(_) => (DEFAULT_REGISTRY, name.to_owned()),
            None => (DEFAULT_REGISTRY, format!("{DEFAULT_NAMESPACE}/{name}")),
        };
        let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
        let path = match (registry, path.contains('/')) {
            (DEFAULT_REGISTRY, false) => format!("{DEFAULT_NAMESPACE}/{path}"),
            _ => path,
        };
        if registry.len() + 1 + path.len() > MAX_NAME {
            return Err(ReferenceError::Long(name.into()));
        }
        Ok(Self { registry: registry.parse()?, repository: path.parse()?, tag, digest })
    }
}

/// The rule by which docker distinguishes `localhost/x` and `quay.io/x` from `user/x`.
fn is_host(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|b| b.is_ascii_uppercase())
}

impl FromStr for RegistryHost {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let bad = || ReferenceError::Host(text.into());
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']').ok_or_else(bad)?;
                address.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
                (None, port)
            }
            None => match text.find(':') {
                Some(colon) => (Some(&text[..colon]), &text[colon..]),
                None => (Some(text), ""),
            },
        };
        let label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let host_ok = host.is_none_or(|host| host.split('.').all(label));
        let port_ok = match port.strip_prefix(':') {
            Some(digits) => {
                digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u16>().is_ok()
            }
            None => port.is_empty(),
        };
        if host_ok && port_ok { Ok(Self(text.into())) } else { Err(bad()) }
    }
}

impl FromStr for Repository {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.split('/').all(is_path_component) {
            Ok(Self(text.into()))
        } else {
            Err(ReferenceError::Repository(text.into()))
        }
    }
}

/// Lowercase letters and digits, separated by one `.`, one or two `_`, or any
/// number of `-`.
fn is_path_component(component: &str) -> bool {
    let alnum = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !alnum(*first) || !alnum(*last) {
        return false;
    }
    component
        .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|gap| matches!(gap, "" | "." | "_" | "__") || gap.bytes().all(|b| b == b'-'))
}

impl FromStr for Tag {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let first_ok = text.bytes().next().is_some_and(word);
        let rest_ok = text.bytes().all(|b| word(b) || b == b'.' || b == b'-');
        if first_ok && rest_ok && text.len() <= 128 {
            Ok(Self(text.into()))
        } else {
            Err(ReferenceError::Tag(text.into()))
        }
    }
}

impl Tag {
    /// `sha256-<hex>`: the tag of an image that has only a digest.
    pub fn of_digest(digest: &Digest) -> Self {
        Self(digest.as_tag_text().into())
    }

    /// `sha256-<hex>.<suffix>`: where cosign keeps what belongs to a digest.
    /// `suffix` is one of `sig`, `att`, `sbom`.
    pub fn of_attachment(digest: &Digest, suffix: &str) -> Self {
        Self(format!("{}.{suffix}", digest.as_tag_text()).into())
    }
}

impl Repository {
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }
}

impl RegistryHost {
    /// The host without its port.
    pub fn host(&self) -> &str {
        match self.0.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.0,
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => tag.fmt(f),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl fmt::Debug for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! text_serde {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
text_serde!(ImageRef, RegistryHost, Repository, Tag);

macro_rules! text_access {
    ($($name:ident),*) => {$(
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
text_access!(RegistryHost, Repository, Tag);

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn parts(text: &str) -> (String, String, String, bool) {
        let image: ImageRef = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let tag = image.tag.map(|tag| tag.to_string()).unwrap_or_default();
        (image.registry.to_string(), image.repository.to_string(), tag, image.digest.is_some())
    }

    #[test]
    fn short_references_have_no_registry() {
        for (text, is_short) in [
            ("busybox", true),
            ("busybox:1.36", true),
            ("org/app@sha256:0", true),
            ("docker.io/busybox", false),
            ("localhost/x", false),
            ("host:5000/x", false),
        ] {
            assert_eq!(ImageRef::is_short(text), is_short, "{text}");
        }
    }

    #[test]
    fn references_are_read_as_docker_reads_them() {
        let digest = format!("@sha256:{HEX}");
        for (text, registry, repository, tag, by_digest) in [
            ("busybox:1", "docker.io", "library/busybox", "1", false),
            ("ubuntu/nginx:1", "docker.io", "ubuntu/nginx", "1", false),
            ("docker.io/busybox", "docker.io", "library/busybox", "", false),
            ("index.docker.io/busybox", "docker.io", "library/busybox", "", false),
            ("localhost/x:1", "localhost", "x", "1", false),
            ("host:5000/x", "host:5000", "x", "", false),
            (&format!("host:5000/x{digest}"), "host:5000", "x", "", true),
            (&format!("quay.io/a/b:v1{digest}"), "quay.io", "a/b", "v1", true),
            ("[::1]:5000/a/b:t", "[::1]:5000", "a/b", "t", false),
            ("Localhost/x", "Localhost", "x", "", false),
            ("quay.io/a/b-c__d.e/f--g:1.2_3", "quay.io", "a/b-c__d.e/f--g", "1.2_3", false),
        ] {
            let expected = (registry.into(), repository.into(), tag.into(), by_digest);
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn a_printed_reference_reads_back_the_same() {
        for text in ["busybox:1", "h:5/a/b", &format!("quay.io/a/b:t@sha256:{HEX}")] {
            let image: ImageRef = text.parse().unwrap();
            assert_eq!(image.to_string().parse::<ImageRef>().unwrap(), image);
        }
    }

    #[test]
    fn errors_of_references_name_the_invalid_part() {
        let long = format!("quay.io/{}", "a".repeat(250));
        for (text, expected) in [
            ("", "empty"),
            (":tag", "empty"),
            ("quay.io/", "not a repository"),
            ("quay.io/A/b", "not a repository"),
            ("quay.io/a//b", "not a repository"),
            ("quay.io/../b", "not a repository"),
            ("quay.io/a/b.", "not a repository"),
            ("quay.io/a___b", "not a repository"),
            ("quay.io/a/b:", "not a tag"),
            ("quay.io/a/b:-x", "not a tag"),
            ("quay.io/a/b@sha256:12", "64 lowercase hex"),
            ("quay.io/a/b@md5:12", "only sha256"),
            ("quay.io:x/a/b", "not a registry"),
            ("quay.io:99999/a/b", "not a registry"),
            ("-x.io/a", "not a registry"),
            (&long, "longer than 255"),
        ] {
            let error = text.parse::<ImageRef>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_digest_wins_over_the_tag_beside_it() {
        let image: ImageRef = format!("quay.io/a/b:t@sha256:{HEX}").parse().unwrap();
        assert_eq!(image.pointer(), Some(Pointer::Digest(Digest::from_hex(HEX).unwrap())));
        assert_eq!("quay.io/a/b".parse::<ImageRef>().unwrap().pointer(), None);
    }
}
