//! Lists a registry keeps: the tags of a repository, the referrers of a digest.

use std::num::NonZeroUsize;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LINK};
use http::{Method, StatusCode};
use oci::{Descriptor, Digest, MediaType, Repository, Tag};
use serde::Deserialize;

use crate::client::Client;
use crate::error::Error;
use crate::location::Location;
use crate::session::{Call, HostRepository};
use crate::token::Scope;
use crate::transport::Response;

/// Registries that do not divide lists send all tags at once.
const MAX_LIST_BYTES: u64 = 32 << 20;
const PAGE: usize = 1000;
const MAX_REFERRER_PAGES: usize = 100;

/// Tags of a repository, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags {
    /// `false`: there were more pages than were to be read.
    pub complete: bool,
    pub tags: Vec<Tag>,
}

/// More pages than any registry has.
const MAX_CATALOG_PAGES: usize = 1000;

#[derive(Deserialize)]
struct RepositoryList {
    #[serde(default)]
    repositories: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct TagList {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

impl Client {
    /// The tags of a repository, from at most `pages` pages. A repository that
    /// does not exist has none.
    pub async fn tags(&self, of: &Location, pages: NonZeroUsize) -> Result<Tags, Error> {
        let found = self.session().attached(of, |spot| self.tags_at(spot, pages)).await?;
        Ok(found.unwrap_or(Tags { complete: true, tags: Vec::new() }))
    }

    /// All repositories of the registry of `at`, sorted. `None`: the registry does not list them.
    /// Names that are not valid are left out.
    pub async fn repositories(&self, at: &Location) -> Result<Option<Vec<Repository>>, Error> {
        let session = self.session();
        let spot = session.target(at)?;
        let list = || self.repositories_at(&spot);
        session.retry.run(&session.transport.counters, list).await
    }

    async fn repositories_at(
        &self,
        spot: &HostRepository,
    ) -> Result<Option<Vec<Repository>>, Error> {
        let mut found = Vec::new();
        let mut next = Some(format!("_catalog?n={PAGE}"));
        for _ in 0..MAX_CATALOG_PAGES {
            let Some(path) = next.take() else { break };
            let call = Call::new(Method::GET, path, Scope::list(&spot.at.repository));
            let response = self.session().send_small(spot, &call).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return Ok(None),
                _ => return Err(response.refusal().await.into()),
            }
            next = next_page(spot, &response);
            let list: RepositoryList = self.read_list(response).await?;
            for name in list.repositories.unwrap_or_default() {
                match name.parse() {
                    Ok(repository) => found.push(repository),
                    Err(error) => tracing::warn!(
                        "{} lists a repository whose name is not valid: {error}",
                        spot.at.registry
                    ),
                }
            }
        }
        if next.is_some() {
            return Err(Error::Endless { what: format!("the list of {}", spot.at.registry) });
        }
        found.sort();
        found.dedup();
        Ok(Some(found))
    }

    async fn tags_at(
        &self,
        spot: HostRepository,
        pages: NonZeroUsize,
    ) -> Result<Option<Tags>, Error> {
        let mut found = Tags::default();
        let mut next = Some(format!("{}/tags/list?n={PAGE}", spot.at.repository));
        for _ in 0..pages.get() {
            let Some(path) = next.take() else { break };
            let call = Call::new(Method::GET, path, Scope::pull(&spot.at.repository));
            let response = self.session().send_small(&spot, &call).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(None),
                _ => return Err(response.refusal().await.into()),
            }
            next = next_page(&spot, &response);
            let list: TagList = self.read_list(response).await?;
            for text in list.tags.unwrap_or_default() {
                match text.parse() {
                    Ok(tag) => found.tags.push(tag),
                    Err(error) => tracing::warn!("{} lists an invalid tag: {error}", spot.at),
                }
            }
        }
        found.complete = next.is_none();
        found.tags.sort();
        found.tags.dedup();
        Ok(Some(found))
    }

    /// What is attached to a digest, according to the registry. `None`: it
    /// has no such API, and the fallback tag `sha256-<hex>` is to be
    /// read; that is remembered, and such a registry gets only one request.
    pub async fn referrers(
        &self,
        of: &Location,
        digest: &Digest,
    ) -> Result<Option<Vec<Descriptor>>, Error> {
        self.session().attached(of, |spot| self.referrers_at(spot, digest)).await
    }

    async fn referrers_at(
        &self,
        spot: HostRepository,
        digest: &Digest,
    ) -> Result<Option<Vec<Descriptor>>, Error> {
        if spot.host.lacks_referrers() {
            return Ok(None);
        }
        let mut found = Vec::new();
        let mut next = Some(format!("{}/referrers/{digest}", spot.at.repository));
        for _ in 0..MAX_REFERRER_PAGES {
            let Some(path) = next.take() else { return Ok(Some(found)) };
            let mut call = Call::new(Method::GET, path, Scope::pull(&spot.at.repository));
            call.headers.insert(ACCEPT, HeaderValue::from_static(MediaType::OCI_INDEX));
            let response = self.session().send_small(&spot, &call).await?;
            let kind = response.header(CONTENT_TYPE.as_str()).map(MediaType::new);
            let is_index = kind.is_some_and(|kind| kind.is_index());
            match response.status() {
                StatusCode::OK if is_index => {}
                // Nothing is known about a repository that does not exist, and
                // nothing of the host.
                StatusCode::NOT_FOUND => {
                    if !response.refusal().await.error_body.has_code("NAME_UNKNOWN") {
                        spot.host.has_no_referrers();
                    }
                    return Ok(None);
                }
                // Something that responds to every path with a page of its own has
                // no such API either.
                StatusCode::OK | StatusCode::METHOD_NOT_ALLOWED => {
                    spot.host.has_no_referrers();
                    return Ok(None);
                }
                _ => return Err(response.refusal().await.into()),
            }
            next = next_page(&spot, &response);
            let index: Index = self.read_list(response).await?;
            found.extend(index.manifests);
        }
        let path = format!("{}@{digest}", spot.at);
        Err(Error::Endless { what: format!("the list of referrers of {path}") })
    }

    async fn read_list<T: for<'a> Deserialize<'a>>(&self, response: Response) -> Result<T, Error> {
        let counters = &self.session().transport.counters;
        let (request_line, body) = response.body(MAX_LIST_BYTES, counters).await?;
        serde_json::from_slice(&body).map_err(|error| Error::Protocol {
            request_line,
            what: format!("the list cannot be read: {error}"),
        })
    }
}

/// The path, below `/v2/`, of the next page. A link to another host is not followed.
fn next_page(spot: &HostRepository, response: &Response) -> Option<String> {
    let link = response.headers(LINK.as_str()).find_map(next_link)?;
    let url = response.url().join(link).ok().filter(|url| spot.host.owns(url))?;
    let path = url.path().strip_prefix("/v2/")?;
    Some(url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}

/// The address in `<…>; rel="next"`.
fn next_link(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (address, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters.split(';').any(|parameter| {
            matches!(parameter.trim(), "rel=\"next\"" | "rel=next" | "rel='next'")
        });
        is_next.then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_in_the_links() {
        for (header, expected) in [
            (r#"</v2/a/tags/list?n=5&last=x>; rel="next""#, Some("/v2/a/tags/list?n=5&last=x")),
            ("</v2/a?last=b>; rel=next", Some("/v2/a?last=b")),
            (r#"</first>; rel="first", </second>; rel="next""#, Some("/second")),
            (r#"</x>; rel="prev""#, None),
            ("nonsense", None),
            ("<>;", None),
        ] {
            assert_eq!(next_link(header), expected, "{header}");
        }
    }
}
