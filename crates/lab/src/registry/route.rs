//! What a request is about, read from its path.

use std::collections::BTreeMap;

use http::{Method, Uri};
use oci::{Digest, Pointer, Repository};

/// The places of the distribution API, and the token endpoint beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Ping,
    Token,
    Catalog,
    Tags(Repository),
    Manifest(Repository, Pointer),
    Blob(Repository, Digest),
    NewUpload(Repository),
    Upload(Repository, String),
    Referrers(Repository, Digest),
}

/// Why a path is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    Nowhere,
    BadName,
    BadDigest,
    BadReference,
}

impl Route {
    pub(super) fn parse(path: &str) -> Result<Self, Lost> {
        match path {
            "/v2" | "/v2/" => return Ok(Self::Ping),
            "/token" => return Ok(Self::Token),
            "/v2/_catalog" => return Ok(Self::Catalog),
            _ => {}
        }
        let path = path.strip_prefix("/v2/").ok_or(Lost::Nowhere)?;
        let name = |name: &str| name.parse::<Repository>().map_err(|_| Lost::BadName);
        let digest = |text: &str| text.parse::<Digest>().map_err(|_| Lost::BadDigest);
        if let Some(of) = path.strip_suffix("/tags/list") {
            return Ok(Self::Tags(name(of)?));
        }
        // The last such word counts: a repository may be called `a/blobs/b`.
        if let Some((of, upload)) = path.rsplit_once("/blobs/uploads/") {
            return Ok(match upload {
                "" => Self::NewUpload(name(of)?),
                upload => Self::Upload(name(of)?, upload.into()),
            });
        }
        if let Some(of) = path.strip_suffix("/blobs/uploads") {
            return Ok(Self::NewUpload(name(of)?));
        }
        let (rest, last) = path.rsplit_once('/').ok_or(Lost::Nowhere)?;
        let (of, kind) = rest.rsplit_once('/').ok_or(Lost::Nowhere)?;
        match kind {
            "manifests" => {
                let pointer = match last.contains(':') {
                    true => Pointer::Digest(digest(last)?),
                    false => Pointer::Tag(last.parse().map_err(|_| Lost::BadReference)?),
                };
                Ok(Self::Manifest(name(of)?, pointer))
            }
            "blobs" => Ok(Self::Blob(name(of)?, digest(last)?)),
            "referrers" => Ok(Self::Referrers(name(of)?, digest(last)?)),
            _ => Err(Lost::Nowhere),
        }
    }

    /// The repository it is about, if any.
    pub(super) fn repository(&self) -> Option<&Repository> {
        match self {
            Self::Ping | Self::Token | Self::Catalog => None,
            Self::Tags(of)
            | Self::Manifest(of, _)
            | Self::Blob(of, _)
            | Self::NewUpload(of)
            | Self::Upload(of, _)
            | Self::Referrers(of, _) => Some(of),
        }
    }
}

/// What a client must be allowed to do to a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) repository: Repository,
    pub(super) actions: &'static [&'static str],
}

/// What is needed for a request: its own repository, and for a mount the
/// one it mounts from.
pub(super) fn needs(method: &Method, route: &Route, query: &Query) -> Vec<Need> {
    let Some(repository) = route.repository().cloned() else { return Vec::new() };
    let actions: &[&str] = match *method {
        Method::GET | Method::HEAD => &["pull"],
        Method::DELETE => &["delete"],
        _ => &["pull", "push"],
    };
    let mut needs = vec![Need { repository, actions }];
    if let (Route::NewUpload(_), Some(Ok(repository))) =
        (route, query.get("from").map(|from| from.parse()))
    {
        needs.push(Need { repository, actions: &["pull"] });
    }
    needs
}

/// The parameters after the question mark; the last of a name counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Self {
        let text = uri.query().unwrap_or_default();
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The requested number of entries of a page, and the entry it follows.
    pub(super) fn page(&self) -> (Option<usize>, Option<&str>) {
        (self.get("n").and_then(|n| n.parse().ok()), self.get("last"))
    }
}

/// The scopes of a token request, as repository and actions.
pub(super) fn scopes(query: &Query) -> BTreeMap<Repository, Vec<String>> {
    let mut scopes: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for scope in query.all("scope").flat_map(|scopes| scopes.split(' ')) {
        let mut parts = scope.splitn(3, ':');
        if let (Some("repository"), Some(name), Some(actions)) =
            (parts.next(), parts.next(), parts.next())
            && let Ok(name) = name.parse()
        {
            scopes.entry(name).or_default().extend(actions.split(',').map(str::to_owned));
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn paths_are_read_from_the_right_so_that_names_may_hold_any_word() {
        let name = |text: &str| text.parse::<Repository>().unwrap();
        let digest = Digest::from_hex(HEX).unwrap();
        let tag = |text: &str| Pointer::Tag(text.parse().unwrap());
        for (path, expected) in [
            ("/v2/", Ok(Route::Ping)),
            ("/v2/_catalog", Ok(Route::Catalog)),
            ("/v2/a/b/tags/list", Ok(Route::Tags(name("a/b")))),
            ("/v2/a/manifests/v1", Ok(Route::Manifest(name("a"), tag("v1")))),
            ("/v2/a/blobs/b/manifests/v1", Ok(Route::Manifest(name("a/blobs/b"), tag("v1")))),
            (&format!("/v2/a/blobs/sha256:{HEX}"), Ok(Route::Blob(name("a"), digest))),
            ("/v2/a/blobs/uploads/", Ok(Route::NewUpload(name("a")))),
            ("/v2/a/blobs/uploads/7", Ok(Route::Upload(name("a"), "7".into()))),
            ("/v2/a/blobs/sha256:12", Err(Lost::BadDigest)),
            ("/v2/../x/manifests/v1", Err(Lost::BadName)),
            ("/v2/a/manifests/-", Err(Lost::BadReference)),
            ("/etc/passwd", Err(Lost::Nowhere)),
            ("/v2/a", Err(Lost::Nowhere)),
        ] {
            assert_eq!(Route::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn a_mount_needs_to_pull_from_the_other_repository() {
        let uri: Uri = format!("/v2/a/blobs/uploads/?mount=sha256:{HEX}&from=b").parse().unwrap();
        let route = Route::parse(uri.path()).unwrap();
        let needs = needs(&Method::POST, &route, &Query::of(&uri));
        let text: Vec<_> =
            needs.iter().map(|n| format!("{}:{}", n.repository, n.actions.join(","))).collect();
        assert_eq!(text, ["a:pull,push", "b:pull"]);
    }
}
