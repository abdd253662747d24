//! The distribution API over the store.

use std::io::{self, Write as _};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use oci::{Descriptor, Digest, Manifest, MediaType, Pointer, RawManifest, Repository};
use serde_json::json;

use super::Behaviour;
use super::prepared_response::{Content, DIGEST_HEADER, PreparedResponse};
use super::route::{Lost, Query, Route};
use super::store::{BlobContent, Store, Upload};

const UPLOAD_ID: HeaderName = HeaderName::from_static("docker-upload-uuid");
const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
const FILTERS: HeaderName = HeaderName::from_static("oci-filters-applied");

/// One request, read as far as its headers.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) route: Route,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    /// Whether the response to a range is the whole blob.
    pub(super) ignore_range: bool,
    /// Closes the connection after so many bytes of an upload, and keeps those.
    pub(super) cut_after: Option<u64>,
}

/// The API as one registry offers it.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) store: Store,
    pub(super) behaviour: Behaviour,
}

impl Api {
    /// Handles a request. An error means that its body could not be read or
    /// stored; the connection is unusable then.
    pub(super) async fn respond(
        &self,
        call: &Call,
        body: Incoming,
    ) -> io::Result<PreparedResponse> {
        let reading = matches!(call.method, Method::GET | Method::HEAD);
        Ok(match (&call.route, &call.method) {
            (Route::Ping, _) if reading => PreparedResponse::json(StatusCode::OK, &json!({})),
            (Route::Catalog, &Method::GET) => self.catalog(&call.query),
            (Route::Tags(name), &Method::GET) => self.tags(name, &call.query),
            (Route::Manifest(name, pointer), _) if reading => {
                self.manifest(name, pointer, &call.headers)
            }
            (Route::Manifest(name, pointer), &Method::PUT) => {
                let bytes = read(body).await?;
                self.put_manifest(name, pointer, &call.headers, bytes.into())
            }
            (Route::Manifest(name, pointer), &Method::DELETE) => {
                let found = self.store.delete_manifest(name, pointer);
                deleted(found, "MANIFEST_UNKNOWN")
            }
            (Route::Blob(name, digest), _) if reading => self.blob(name, digest, call),
            (Route::Blob(name, digest), &Method::DELETE) => {
                deleted(self.store.delete_blob(name, digest), "BLOB_UNKNOWN")
            }
            (Route::NewUpload(name), &Method::POST) => self.new_upload(name, call, body).await?,
            (Route::Upload(name, id), _) => self.upload(name, id, call, body).await?,
            (Route::Referrers(name, digest), &Method::GET) if self.behaviour.referrers_api => {
                self.referrers(name, digest, call.query.get("artifactType"))
            }
            (Route::Referrers(..), _) => PreparedResponse::empty(StatusCode::NOT_FOUND)
                .with(header::CONTENT_TYPE, "text/plain")
                .holding(Content::Bytes("404 page not found\n".into())),
            _ => PreparedResponse::refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "UNSUPPORTED",
                "The operation is unsupported.",
            ),
        })
    }

    fn catalog(&self, query: &Query) -> PreparedResponse {
        let (names, next) = page(self.store.repositories(), query);
        let response = PreparedResponse::json(StatusCode::OK, &json!({"repositories": names}));
        linked(response, "/v2/_catalog", next)
    }

    fn tags(&self, name: &Repository, query: &Query) -> PreparedResponse {
        let Some(tags) = self.store.tags(name) else { return unknown("NAME_UNKNOWN") };
        let (tags, next) = if self.behaviour.pages_tags { page(tags, query) } else { (tags, None) };
        let response = PreparedResponse::json(StatusCode::OK, &json!({"name": name, "tags": tags}));
        linked(response, &format!("/v2/{name}/tags/list"), next)
    }

    fn manifest(
        &self,
        name: &Repository,
        pointer: &Pointer,
        headers: &HeaderMap,
    ) -> PreparedResponse {
        match self.store.manifest(name, pointer) {
            Some(raw) if accepts(headers, &raw.media_type) => {
                PreparedResponse::empty(StatusCode::OK)
                    .with(header::CONTENT_TYPE, &raw.media_type)
                    .with(DIGEST_HEADER, raw.digest)
                    .holding(Content::Bytes(raw.bytes.into()))
            }
            Some(raw) => PreparedResponse::refusal(
                StatusCode::NOT_FOUND,
                "MANIFEST_UNKNOWN",
                &format!("the Accept header does not admit {}", raw.media_type),
            ),
            None => unknown("MANIFEST_UNKNOWN"),
        }
    }

    fn put_manifest(
        &self,
        name: &Repository,
        pointer: &Pointer,
        headers: &HeaderMap,
        bytes: Vec<u8>,
    ) -> PreparedResponse {
        let sent_as = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let bad = |code: &str, message: &str| {
            PreparedResponse::refusal(StatusCode::BAD_REQUEST, code, message)
        };
        let parsed = RawManifest::new(sent_as, bytes).and_then(|raw| Ok((raw.parse()?, raw)));
        let (manifest, raw) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return bad("MANIFEST_INVALID", &error.to_string()),
        };
        if matches!(pointer, Pointer::Digest(digest) if *digest != raw.digest) {
            return bad("DIGEST_INVALID", "the manifest does not have the digest of the path");
        }
        if let Some(missing) = self.missing(name, &manifest) {
            return bad("MANIFEST_BLOB_UNKNOWN", &format!("{missing} is not in {name}"));
        }
        let response = PreparedResponse::empty(StatusCode::CREATED)
            .with(header::LOCATION, format!("/v2/{name}/manifests/{}", raw.digest))
            .with(DIGEST_HEADER, raw.digest);
        let response = match &manifest.about().subject {
            Some(subject) if self.behaviour.referrers_api => response.with(SUBJECT, subject.digest),
            _ => response,
        };
        let tag = match pointer {
            Pointer::Tag(tag) => Some(tag),
            Pointer::Digest(_) => None,
        };
        self.store.put_manifest(name, tag, raw);
        response
    }

    /// The first thing a manifest needs that its repository lacks.
    fn missing(&self, name: &Repository, manifest: &Manifest) -> Option<Digest> {
        let lacks = |child: &&Descriptor| {
            self.store.manifest(name, &Pointer::Digest(child.digest)).is_none()
        };
        let child = match self.behaviour.sparse_lists {
            true => None,
            false => manifest.children().iter().find(lacks),
        };
        let blobs = manifest.blobs();
        let blob = blobs.iter().find(|blob| self.store.blob(name, &blob.digest).is_none());
        child.or(blob.copied()).map(|found| found.digest)
    }

    fn blob(&self, name: &Repository, digest: &Digest, call: &Call) -> PreparedResponse {
        let Some(held) = self.store.blob(name, digest) else { return unknown("BLOB_UNKNOWN") };
        let size = held.size();
        let response = PreparedResponse::empty(StatusCode::OK)
            .with(header::CONTENT_TYPE, "application/octet-stream")
            .with(header::ACCEPT_RANGES, "bytes")
            .with(DIGEST_HEADER, digest);
        let range = call.headers.get(header::RANGE).and_then(|value| value.to_str().ok());
        match range.and_then(range_of).filter(|_| !call.ignore_range) {
            None => response.holding(slice(held, 0, size)),
            Some((start, _)) if start >= size => {
                PreparedResponse::empty(StatusCode::RANGE_NOT_SATISFIABLE)
                    .with(header::CONTENT_RANGE, format!("bytes */{size}"))
            }
            Some((start, end)) => {
                let end = end.unwrap_or(u64::MAX).min(size - 1);
                response
                    .with_status(StatusCode::PARTIAL_CONTENT)
                    .with(header::CONTENT_RANGE, format!("bytes {start}-{end}/{size}"))
                    .holding(slice(held, start, end + 1 - start))
            }
        }
    }

    async fn new_upload(
        &self,
        name: &Repository,
        call: &Call,
        body: Incoming,
    ) -> io::Result<PreparedResponse> {
        let digest = |key| call.query.get(key).and_then(|text| text.parse::<Digest>().ok());
        let from = call.query.get("from").and_then(|text| text.parse().ok());
        if let (Some(digest), Some(from)) = (digest("mount"), from)
            && self.store.mount_from(&digest, &from, name)
        {
            return Ok(Self::created(name, &digest));
        }
        let id = self.store.begin()?;
        match digest("digest") {
            Some(digest) if self.behaviour.single_post => {
                self.finish(name, &id, &digest, body).await
            }
            _ => Ok(self.progress(StatusCode::ACCEPTED, name, &id, 0)),
        }
    }

    async fn upload(
        &self,
        name: &Repository,
        id: &str,
        call: &Call,
        body: Incoming,
    ) -> io::Result<PreparedResponse> {
        if matches!(call.method, Method::PUT | Method::PATCH)
            && let Some(count) = call.cut_after
        {
            let Some(mut upload) = self.store.take_upload(id) else { return Ok(no_upload()) };
            receive_some(&mut upload, body, count).await?;
            self.store.put_back(id, upload);
            return Err(io::Error::other("cut on demand"));
        }
        match call.method {
            Method::PUT => match call.query.get("digest").map(str::parse::<Digest>) {
                Some(Ok(digest)) => self.finish(name, id, &digest, body).await,
                _ => Ok(wrong_digest()),
            },
            Method::PATCH => {
                let Some(mut upload) = self.store.take_upload(id) else { return Ok(no_upload()) };
                receive(&mut upload, body).await?;
                let received = upload.received();
                self.store.put_back(id, upload);
                Ok(self.progress(StatusCode::ACCEPTED, name, id, received))
            }
            Method::GET => {
                let Some(upload) = self.store.take_upload(id) else { return Ok(no_upload()) };
                let received = upload.received();
                self.store.put_back(id, upload);
                Ok(self.progress(StatusCode::NO_CONTENT, name, id, received))
            }
            Method::DELETE => Ok(match self.store.take_upload(id) {
                Some(_) => PreparedResponse::empty(StatusCode::NO_CONTENT),
                None => no_upload(),
            }),
            _ => Ok(PreparedResponse::empty(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }

    async fn finish(
        &self,
        name: &Repository,
        id: &str,
        digest: &Digest,
        body: Incoming,
    ) -> io::Result<PreparedResponse> {
        let Some(mut upload) = self.store.take_upload(id) else { return Ok(no_upload()) };
        receive(&mut upload, body).await?;
        match self.store.finish(upload, name, digest)? {
            true => Ok(Self::created(name, digest)),
            false => Ok(wrong_digest()),
        }
    }

    fn created(name: &Repository, digest: &Digest) -> PreparedResponse {
        PreparedResponse::empty(StatusCode::CREATED)
            .with(header::LOCATION, format!("/v2/{name}/blobs/{digest}"))
            .with(DIGEST_HEADER, digest)
    }

    fn progress(
        &self,
        status: StatusCode,
        name: &Repository,
        id: &str,
        received: u64,
    ) -> PreparedResponse {
        // docker-registry keeps its state in the query; a client must add to it.
        let state = if self.behaviour.relative_locations { "" } else { "?_state=lab" };
        PreparedResponse::empty(status)
            .with(header::LOCATION, format!("/v2/{name}/blobs/uploads/{id}{state}"))
            .with(header::RANGE, format!("0-{}", received.saturating_sub(1)))
            .with(UPLOAD_ID, id)
    }

    fn referrers(
        &self,
        name: &Repository,
        of: &Digest,
        artifact_type: Option<&str>,
    ) -> PreparedResponse {
        let described = self.store.referrers(name, of).into_iter().filter_map(|raw| {
            let (kind, annotations) = match raw.parse().ok()? {
                Manifest::Image { config, about, .. } => {
                    let config = config.media_type.to_string();
                    (Some(about.artifact_type.unwrap_or(config)), about.annotations)
                }
                Manifest::Index { about, .. } => (about.artifact_type, about.annotations),
            };
            Some(Descriptor { artifact_type: kind, annotations, ..raw.descriptor() })
        });
        let wanted = |found: &Descriptor| {
            artifact_type.is_none() || found.artifact_type.as_deref() == artifact_type
        };
        let raw = oci::referrers_index(described.filter(wanted).collect());
        let response = PreparedResponse::empty(StatusCode::OK)
            .with(header::CONTENT_TYPE, MediaType::OCI_INDEX)
            .holding(Content::Bytes(raw.bytes.into()));
        match artifact_type {
            Some(_) => response.with(FILTERS, "artifactType"),
            None => response,
        }
    }
}

async fn read(body: Incoming) -> io::Result<Bytes> {
    Ok(body.collect().await.map_err(io::Error::other)?.to_bytes())
}

async fn receive(upload: &mut Upload, mut body: Incoming) -> io::Result<()> {
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.map_err(io::Error::other)?.into_data() {
            upload.write_all(&bytes)?;
        }
    }
    Ok(())
}

/// Receives `count` bytes and no more.
async fn receive_some(upload: &mut Upload, mut body: Incoming, count: u64) -> io::Result<()> {
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    while left > 0
        && let Some(frame) = body.frame().await
    {
        if let Ok(bytes) = frame.map_err(io::Error::other)?.into_data() {
            let taken = left.min(bytes.len());
            upload.write_all(&bytes[..taken])?;
            left -= taken;
        }
    }
    Ok(())
}

fn slice(held: BlobContent, start: u64, length: u64) -> Content {
    match held {
        BlobContent::Bytes(bytes) => {
            Content::Bytes(bytes.slice(start as usize..(start + length) as usize))
        }
        BlobContent::File { path, .. } => Content::File { path, start, length },
    }
}

/// The first and, if given, the last byte of `bytes=first-last`.
fn range_of(text: &str) -> Option<(u64, Option<u64>)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
    Some((first.parse().ok()?, last))
}

/// As strict as registries are: without an `Accept` header that names the
/// type, or a wildcard, the manifest is not there.
fn accepts(headers: &HeaderMap, media_type: &MediaType) -> bool {
    let mut listed = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(MediaType::new);
    listed.any(|listed| listed == *media_type || listed.as_str() == "*/*")
}

/// One page of a sorted list, and the query of the next if there is one.
fn page(mut entries: Vec<String>, query: &Query) -> (Vec<String>, Option<String>) {
    let (count, last) = query.page();
    if let Some(last) = last {
        entries.retain(|entry| entry.as_str() > last);
    }
    let Some(count) = count.filter(|count| entries.len() > *count) else { return (entries, None) };
    entries.truncate(count);
    let next = entries.last().map(|last| format!("n={count}&last={last}"));
    (entries, next)
}

fn linked(response: PreparedResponse, path: &str, next: Option<String>) -> PreparedResponse {
    match next {
        Some(query) => response.with(header::LINK, format!(r#"<{path}?{query}>; rel="next""#)),
        None => response,
    }
}

fn unknown(code: &str) -> PreparedResponse {
    PreparedResponse::refusal(StatusCode::NOT_FOUND, code, "not known to the registry")
}

fn no_upload() -> PreparedResponse {
    unknown("BLOB_UPLOAD_UNKNOWN")
}

fn wrong_digest() -> PreparedResponse {
    PreparedResponse::refusal(
        StatusCode::BAD_REQUEST,
        "DIGEST_INVALID",
        "provided digest did not match uploaded content",
    )
}

fn deleted(found: bool, code: &str) -> PreparedResponse {
    if found { PreparedResponse::empty(StatusCode::ACCEPTED) } else { unknown(code) }
}

/// The response to an unknown path.
pub(super) fn lost(why: Lost) -> PreparedResponse {
    let (status, code) = match why {
        Lost::Nowhere => (StatusCode::NOT_FOUND, "UNSUPPORTED"),
        Lost::BadName => (StatusCode::BAD_REQUEST, "NAME_INVALID"),
        Lost::BadDigest => (StatusCode::BAD_REQUEST, "DIGEST_INVALID"),
        Lost::BadReference => (StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN"),
    };
    PreparedResponse::refusal(status, code, "the path leads nowhere")
}
