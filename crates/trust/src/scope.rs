//! Which parts of a policy an image may fall under, the most specific first.

use std::path::Path;

use oci::{Digest, ImageRef, Pointer, RegistryHost, Repository, Tag};

/// The name by which a policy identifies an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    Registry(&'a ImageRef),
    /// The directory of an OCI layout, as an absolute path without links.
    Layout(&'a Path),
}

/// A scope that can never match an image. Left alone, it would be a check that
/// is silently skipped.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error(
        "no image matches {0:?}: expected host[:port], host/namespace, host/repository, host/repository:tag, host/repository@digest or *.domain"
    )]
    Docker(String),
    #[error(
        "no OCI layout matches {0:?}: expected an absolute path without a trailing slash and without a tag"
    )]
    Oci(String),
}

/// The transports whose images are mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Docker,
    Oci,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Oci => "oci",
        }
    }

    /// Checks a scope of a policy.
    pub(crate) fn check(self, scope: &str) -> Result<(), ScopeError> {
        let sound = match self {
            _ if scope.is_empty() => true,
            Self::Docker => match scope.strip_prefix("*.") {
                Some(domain) => !domain.contains(':') && domain.parse::<RegistryHost>().is_ok(),
                None => is_prefix(without_pointer(scope)),
            },
            Self::Oci => {
                // A layout is mirrored whole; a part of it cannot be under a rule of its own.
                Path::new(scope).is_absolute() && !scope.ends_with('/') && !scope.contains(':')
            }
        };
        match self {
            _ if sound => Ok(()),
            Self::Docker => Err(ScopeError::Docker(scope.to_owned())),
            Self::Oci => Err(ScopeError::Oci(scope.to_owned())),
        }
    }
}

/// Whether `text` is a host, or a host and the start of a repository's path.
pub(crate) fn is_prefix(text: &str) -> bool {
    match text.split_once('/') {
        Some((host, path)) => {
            host.parse::<RegistryHost>().is_ok() && path.parse::<Repository>().is_ok()
        }
        None => text.parse::<RegistryHost>().is_ok(),
    }
}

/// `host/repository` of a scope that names one image, else the scope.
fn without_pointer(scope: &str) -> &str {
    if let Some((name, digest)) = scope.split_once('@') {
        let sound = name.contains('/') && digest.parse::<Digest>().is_ok();
        return if sound { name } else { scope };
    }
    match scope.rsplit_once(':') {
        Some((name, tag)) if name.contains('/') && tag.parse::<Tag>().is_ok() => name,
        _ => scope,
    }
}

impl Name<'_> {
    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Registry(_) => Transport::Docker,
            Self::Layout(_) => Transport::Oci,
        }
    }

    /// The image by its requested name: a tag beside a digest is not checked, and no tag means the
    /// default one.
    pub(crate) fn reference(self) -> Option<ImageRef> {
        let Self::Registry(image) = self else { return None };
        let pointer = image.pointer().or_else(|| "latest".parse().ok().map(Pointer::Tag))?;
        Some(image.with_pointer(pointer))
    }

    /// The scopes this image falls under, the most specific first.
    pub fn scopes(self) -> Vec<String> {
        match self {
            Self::Registry(image) => {
                let whole = self.reference().map(|reference| reference.to_string());
                let mut scopes: Vec<String> = whole.into_iter().collect();
                let mut rest = image.name();
                while let Some((parent, _)) = rest.clone().rsplit_once('/') {
                    scopes.push(std::mem::replace(&mut rest, parent.to_owned()));
                }
                scopes.push(rest);
                let mut domain = image.registry.host();
                while let Some((_, parent)) = domain.split_once('.') {
                    scopes.push(format!("*.{parent}"));
                    domain = parent;
                }
                scopes
            }
            Self::Layout(path) => {
                let below_root = path.ancestors().filter(|path| path.parent().is_some());
                below_root.map(|path| path.display().to_string()).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_falls_under_itself_its_namespaces_its_host_and_its_domains() {
        let hex = "0".repeat(64);
        for (image, scopes) in [
            (
                "q.example.com:5000/a/b/c:v1",
                vec![
                    "q.example.com:5000/a/b/c:v1".to_owned(),
                    "q.example.com:5000/a/b/c".into(),
                    "q.example.com:5000/a/b".into(),
                    "q.example.com:5000/a".into(),
                    "q.example.com:5000".into(),
                    "*.example.com".into(),
                    "*.com".into(),
                ],
            ),
            (
                "busybox",
                vec![
                    "docker.io/library/busybox:latest".into(),
                    "docker.io/library/busybox".into(),
                    "docker.io/library".into(),
                    "docker.io".into(),
                    "*.io".into(),
                ],
            ),
            (
                &format!("reg:5000/a:v1@sha256:{hex}"),
                vec![format!("reg:5000/a@sha256:{hex}"), "reg:5000/a".into(), "reg:5000".into()],
            ),
        ] {
            let image = image.parse().unwrap();
            assert_eq!(Name::Registry(&image).scopes(), scopes, "{image}");
        }
    }

    #[test]
    fn a_layout_falls_under_its_directory_and_those_above_but_the_root() {
        let scopes = Name::Layout(Path::new("/srv/layouts/x")).scopes();
        assert_eq!(scopes, ["/srv/layouts/x", "/srv/layouts", "/srv"]);
    }

    #[test]
    fn a_scope_that_never_matches_is_found() {
        let hex = "0".repeat(64);
        let digest = format!("quay.io/a/b@sha256:{hex}");
        for sound in
            ["", "quay.io", "reg:5000", "quay.io/a", "reg:5000/a/b:v1", "*.example.com", &digest]
        {
            assert_eq!(Transport::Docker.check(sound), Ok(()), "{sound}");
        }
        for never in [
            "quay.io/",
            "https://quay.io",
            "example*.*.com",
            "*.",
            "*.example.com/a",
            "*.example.com:5000",
            "quay.io/A",
            "quay.io/a@sha256:12",
            "quay.io/a:-",
            " quay.io",
        ] {
            assert_eq!(Transport::Docker.check(never), Err(ScopeError::Docker(never.into())));
        }
        for sound in ["", "/srv", "/srv/x"] {
            assert_eq!(Transport::Oci.check(sound), Ok(()), "{sound}");
        }
        for never in ["/", "srv", "/srv/", "/srv/x:tag"] {
            assert_eq!(Transport::Oci.check(never), Err(ScopeError::Oci(never.into())));
        }
    }
}
