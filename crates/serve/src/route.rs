//! The resource that a request names. Every name in a path becomes a validated type here;
//! text from the network is not used after that.

use oci::{Digest, DigestError, Pointer, ReferenceError, Repository, Tag};

use crate::listing::{Page, PageError};

/// The longest repository name that is read; the distribution grammar
/// allows no longer one, its registry included.
const MAX_REPOSITORY: usize = 255;

/// A resource of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/v2/`: is this a registry?
    Version,
    Catalog(Page),
    Tags(Repository, Page),
    Manifest(Repository, Pointer),
    Blob(Repository, Digest),
    Referrers {
        repository: Repository,
        subject: Digest,
        artifact_type: Option<String>,
    },
}

/// Why a path is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RouteError {
    #[error("the path does not exist; the paths of this registry start with /v2/")]
    Unknown,
    #[error("a name in the path contains an escape other than %3A")]
    Escaped,
    #[error("the repository name is longer than {MAX_REPOSITORY} characters")]
    Long,
    #[error(transparent)]
    Repository(ReferenceError),
    #[error(transparent)]
    Tag(ReferenceError),
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error(transparent)]
    Page(#[from] PageError),
}

impl Route {
    /// Reads a path and its query (empty if there is none).
    pub(crate) fn parse(path: &str, query: &str) -> Result<Self, RouteError> {
        let below = match path.strip_prefix("/v2") {
            Some("" | "/") => return Ok(Self::Version),
            Some(below) => below.strip_prefix('/').ok_or(RouteError::Unknown)?,
            None => return Err(RouteError::Unknown),
        };
        if below == "_catalog" {
            return Ok(Self::Catalog(Page::parse(query)?));
        }
        // A repository may itself contain a component named `manifests` or
        // `tags`, so the path is read from its end.
        let (rest, last) = below.rsplit_once('/').ok_or(RouteError::Unknown)?;
        let (name, verb) = rest.rsplit_once('/').ok_or(RouteError::Unknown)?;
        let last = unescape(last)?;
        match verb {
            "tags" if last == "list" => Ok(Self::Tags(repository(name)?, Page::parse(query)?)),
            "manifests" if last.contains(':') => {
                Ok(Self::Manifest(repository(name)?, Pointer::Digest(last.parse()?)))
            }
            "manifests" => {
                let tag: Tag = last.parse().map_err(RouteError::Tag)?;
                Ok(Self::Manifest(repository(name)?, Pointer::Tag(tag)))
            }
            "blobs" => Ok(Self::Blob(repository(name)?, last.parse()?)),
            "referrers" => Ok(Self::Referrers {
                repository: repository(name)?,
                subject: last.parse()?,
                artifact_type: url::form_urlencoded::parse(query.as_bytes())
                    .find(|(key, _)| key == "artifactType")
                    .map(|(_, value)| value.into_owned()),
            }),
            _ => Err(RouteError::Unknown),
        }
    }
}

fn repository(name: &str) -> Result<Repository, RouteError> {
    if name.len() > MAX_REPOSITORY {
        return Err(RouteError::Long);
    }
    if name.contains('%') {
        return Err(RouteError::Escaped);
    }
    name.parse().map_err(RouteError::Repository)
}

/// Some clients write the colon of a digest as `%3A`. No other character of a
/// name can need an escape, so any other escape is an attempt at something else.
fn unescape(text: &str) -> Result<String, RouteError> {
    let text = text.replace("%3A", ":").replace("%3a", ":");
    if text.contains('%') { Err(RouteError::Escaped) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn parse(path: &str) -> Result<Route, RouteError> {
        Route::parse(path, "")
    }

    #[test]
    fn paths_are_parsed_into_routes() {
        let digest = Digest::from_hex(HEX).unwrap();
        let name = |text: &str| text.parse::<Repository>().unwrap();
        let tag = |text: &str| Pointer::Tag(text.parse().unwrap());
        for (path, expected) in [
            ("/v2".to_owned(), Route::Version),
            ("/v2/".into(), Route::Version),
            ("/v2/a/manifests/v1".into(), Route::Manifest(name("a"), tag("v1"))),
            ("/v2/a/b/manifests/list".into(), Route::Manifest(name("a/b"), tag("list"))),
            (
                "/v2/a/manifests/b/manifests/t".into(),
                Route::Manifest(name("a/manifests/b"), tag("t")),
            ),
            (
                format!("/v2/a/manifests/sha256-{HEX}.sig"),
                Route::Manifest(name("a"), tag(&format!("sha256-{HEX}.sig"))),
            ),
            (
                format!("/v2/a/manifests/sha256:{HEX}"),
                Route::Manifest(name("a"), Pointer::Digest(digest)),
            ),
            (format!("/v2/a/b/blobs/sha256:{HEX}"), Route::Blob(name("a/b"), digest)),
            (format!("/v2/a/b/blobs/sha256%3a{HEX}"), Route::Blob(name("a/b"), digest)),
        ] {
            assert_eq!(parse(&path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn queries_are_read_where_they_mean_something() {
        let page = |count, after: Option<&str>| Page { count, after: after.map(Into::into) };
        assert_eq!(
            Route::parse("/v2/_catalog", "n=5&last=a%2Fb"),
            Ok(Route::Catalog(page(5, Some("a/b"))))
        );
        assert_eq!(
            Route::parse("/v2/x/tags/list", "n=1"),
            Ok(Route::Tags("x".parse().unwrap(), page(1, None)))
        );
        assert_eq!(
            Route::parse(&format!("/v2/x/referrers/sha256:{HEX}"), "artifactType=a%2Fb%2Bjson"),
            Ok(Route::Referrers {
                repository: "x".parse().unwrap(),
                subject: Digest::from_hex(HEX).unwrap(),
                artifact_type: Some("a/b+json".into()),
            })
        );
        assert!(matches!(Route::parse("/v2/_catalog", "n=many"), Err(RouteError::Page(_))));
    }

    #[test]
    fn path_tricks_name_nothing() {
        for path in [
            "",
            "/",
            "//",
            "/v1/_ping",
            "/v2x/_catalog",
            "//v2/_catalog",
            "/v2//_catalog",
            "/v2/../../etc/passwd",
            "/v2/../manifests/latest",
            "/v2/a/../b/manifests/latest",
            "/v2/a/./manifests/latest",
            "/v2/a//b/manifests/latest",
            "/v2//a/manifests/latest",
            "/v2//etc/manifests/latest",
            "/v2/a/%2e%2e/manifests/latest",
            "/v2/a%2fb/manifests/latest",
            "/v2/a%2Fb/tags/list",
            "/v2/a/manifests/..",
            "/v2/a/manifests/%2e%2e",
            "/v2/a/manifests/..%2f..%2fetc",
            "/v2/a/manifests/x%00",
            "/v2/a/manifests/",
            "/v2/a/blobs/",
            "/v2/a/blobs/uploads/",
            "/v2/a/blobs/sha256:..",
            "/v2/a/blobs/../../../../etc/passwd",
            "/v2/A/manifests/latest",
            "/v2/manifests/latest",
            "/v2/a/tags/lists",
            "/v2/a\\b/manifests/latest",
        ] {
            assert!(parse(path).is_err(), "{path}");
        }
        let long = format!("/v2/{}/manifests/latest", "a/".repeat(130) + "a");
        assert_eq!(parse(&long), Err(RouteError::Long));
        let long_tag = format!("/v2/a/manifests/{}", "t".repeat(129));
        assert!(matches!(parse(&long_tag), Err(RouteError::Tag(_))));
    }
}
