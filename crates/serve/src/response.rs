//! From a request to its response.

use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, IF_NONE_MATCH, IF_RANGE, LINK, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use oci::{Digest, MediaType, Pointer, RawManifest, Repository, referrers_index};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::error_response::ErrorResponse;
use crate::listing::Page;
use crate::range::Part;
use crate::route::Route;
use crate::snapshot::{Blob, Snapshot};

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How much of a blob is in memory at once, for each client.
const CHUNK: usize = 128 << 10;

const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const FILTERS_APPLIED: HeaderName = HeaderName::from_static("oci-filters-applied");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Handles one request. Errors become responses too.
pub(crate) async fn respond(
    snapshot: Arc<Snapshot>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Response<Body> {
    let mut response = match try_respond(snapshot, method, uri, headers).await {
        Ok(response) => response,
        Err(error) => error_response(&error),
    };
    let headers = response.headers_mut();
    headers.insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if method == Method::HEAD {
        // The length stays: it is what a GET would return.
        *response.body_mut() = nothing();
    }
    response
}

async fn try_respond(
    snapshot: Arc<Snapshot>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response<Body>, ErrorResponse> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(ErrorResponse::read_only(method));
    }
    match Route::parse(uri.path(), uri.query().unwrap_or_default())? {
        Route::Version => Ok(whole(JSON, b"{}".to_vec())),
        Route::Catalog(page) => {
            let names = snapshot.repositories().map(Repository::as_str);
            Ok(list(&page, uri.path(), names, |page| json!({ "repositories": page })))
        }
        Route::Tags(repository, page) => {
            let tags = snapshot
                .tags(&repository)
                .ok_or_else(|| ErrorResponse::repository_unknown(&repository))?;
            let tags = tags.map(oci::Tag::as_str);
            Ok(list(&page, uri.path(), tags, |page| json!({ "name": repository, "tags": page })))
        }
        Route::Manifest(repository, pointer) => {
            let manifest = on_disk(move || read_manifest(&snapshot, &repository, &pointer)).await?;
            if is_known(headers, manifest.digest) {
                return Ok(not_modified(manifest.digest));
            }
            let media_type = HeaderValue::from_str(manifest.media_type.as_str())
                .map_err(|_| ErrorResponse::damaged())?;
            let mut response = whole(media_type, manifest.bytes);
            name_content(response.headers_mut(), manifest.digest);
            Ok(response)
        }
        Route::Blob(repository, digest) => {
            // A range is defined for GET only.
            let range = if method == Method::GET { range(headers, digest) } else { None };
            if is_known(headers, digest) {
                on_disk(move || open_blob(&snapshot, &repository, &digest, None)).await?;
                return Ok(not_modified(digest));
            }
            let opened =
                on_disk(move || open_blob(&snapshot, &repository, &digest, range.as_deref()))
                    .await?;
            Ok(blob_response(opened, digest))
        }
        Route::Referrers { repository, subject, artifact_type } => {
            let mut referrers = snapshot.referrers(&repository, &subject).to_vec();
            if let Some(wanted) = &artifact_type {
                referrers.retain(|one| one.artifact_type.as_ref() == Some(wanted));
            }
            let index = referrers_index(referrers).bytes;
            let mut response = whole(HeaderValue::from_static(MediaType::OCI_INDEX), index);
            if artifact_type.is_some() {
                let applied = HeaderValue::from_static("artifactType");
                response.headers_mut().insert(FILTERS_APPLIED, applied);
            }
            Ok(response)
        }
    }
}

/// Runs work that may wait for the disk on a thread where waiting does not block others.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorResponse> + Send + 'static,
) -> Result<T, ErrorResponse> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|failed| {
        tracing::error!("responding to a request: {failed}");
        Err(ErrorResponse::damaged())
    })
}

fn read_manifest(
    snapshot: &Snapshot,
    repository: &Repository,
    pointer: &Pointer,
) -> Result<RawManifest, ErrorResponse> {
    match snapshot.manifest(repository, pointer)? {
        Some(manifest) => Ok(manifest),
        None if snapshot.has_repository(repository) => {
            Err(ErrorResponse::manifest_unknown(repository, pointer))
        }
        None => Err(ErrorResponse::repository_unknown(repository)),
    }
}

/// A blob with the part of it that is wanted; its file is positioned at the start of that part.
struct Opened {
    blob: Blob,
    part: Part,
}

fn open_blob(
    snapshot: &Snapshot,
    repository: &Repository,
    digest: &Digest,
    range: Option<&str>,
) -> Result<Opened, ErrorResponse> {
    let Some(mut blob) = snapshot.blob(repository, digest)? else {
        return Err(if snapshot.has_repository(repository) {
            ErrorResponse::blob_unknown(repository, digest)
        } else {
            ErrorResponse::repository_unknown(repository)
        });
    };
    let part = range.map_or(Part::Whole, |range| Part::parse(range, blob.size));
    if let Part::Bytes { first, .. } = part {
        blob.file.seek(SeekFrom::Start(first)).map_err(|error| {
            tracing::error!("reading {digest}: {error}");
            ErrorResponse::damaged()
        })?;
    }
    Ok(Opened { blob, part })
}

/// The `Range` header, unless `If-Range` ties it to other content.
fn range(headers: &HeaderMap, digest: Digest) -> Option<String> {
    let same = headers.get(IF_RANGE).is_none_or(|tag| tag.as_bytes() == etag(digest).as_bytes());
    let range = headers.get(RANGE).filter(|_| same)?;
    range.to_str().ok().map(str::to_owned)
}

/// Whether the client has this content already.
fn is_known(headers: &HeaderMap, digest: Digest) -> bool {
    let ours = etag(digest);
    headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').map(str::trim).any(|tag| {
            // A client with the weak form of a digest's tag has the same bytes.
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == ours
        })
    })
}

fn etag(digest: Digest) -> String {
    format!("\"{digest}\"")
}

fn name_content(headers: &mut HeaderMap, digest: Digest) {
    headers.insert(CONTENT_DIGEST, text_value(&digest.to_string()));
    headers.insert(ETAG, text_value(&etag(digest)));
}

/// A header value of text that consists of validated parts.
fn text_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn nothing() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn whole(content_type: HeaderValue, content: Vec<u8>) -> Response<Body> {
    let length = content.len();
    let body = Full::new(Bytes::from(content)).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CONTENT_LENGTH, length.into());
    response
}

fn list<'a>(
    page: &Page,
    path: &str,
    all: impl Iterator<Item = &'a str>,
    document: impl FnOnce(&[&str]) -> serde_json::Value,
) -> Response<Body> {
    let (entries, more) = page.cut(all);
    let mut response = whole(JSON, document(&entries).to_string().into_bytes());
    if let (true, Some(last)) = (more, entries.last()) {
        response.headers_mut().insert(LINK, text_value(&page.next_link(path, last)));
    }
    response
}

fn blob_response(
    Opened { blob: Blob { file, size }, part }: Opened,
    digest: Digest,
) -> Response<Body> {
    let (status, length) = match part {
        Part::Whole => (StatusCode::OK, size),
        Part::Bytes { first, last } => (StatusCode::PARTIAL_CONTENT, last - first + 1),
        Part::Unsatisfiable => {
            let mut response = error_response(&ErrorResponse::range());
            let range = text_value(&format!("bytes */{size}"));
            response.headers_mut().insert(CONTENT_RANGE, range);
            return response;
        }
    };
    let reader = tokio::fs::File::from_std(file).take(length);
    let chunks = ReaderStream::with_capacity(reader, CHUNK).map_ok(Frame::data);
    let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_LENGTH, length.into());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Part::Bytes { first, last } = part {
        headers.insert(CONTENT_RANGE, text_value(&format!("bytes {first}-{last}/{size}")));
    }
    name_content(headers, digest);
    response
}

fn not_modified(digest: Digest) -> Response<Body> {
    let mut response = Response::new(nothing());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    name_content(response.headers_mut(), digest);
    response
}

fn error_response(error: &ErrorResponse) -> Response<Body> {
    let mut response = whole(JSON, error.document().to_string().into_bytes());
    *response.status_mut() = error.status;
    if error.status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
