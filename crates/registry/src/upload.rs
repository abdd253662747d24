//! Uploads of blobs. One POST opens an upload (or mounts the blob from another repository), one PUT
//! sends all of it. After an interruption a request returns how much the registry has, and one
//! PATCH sends the rest; a registry that does not report it gets a new upload. Another process
//! continues an upload in the same way. Blobs are not divided beforehand: docker-registry cannot
//! continue inside a part either, and each part takes a round trip.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RANGE,
};
use http::{Method, StatusCode};
use oci::{Digest, Repository};
use url::Url;
use url::form_urlencoded::Serializer;

use crate::client::{Blob, Client};
use crate::error::{BodyError, Error, RequestLine, Wait};
use crate::location::Location;
use crate::session::{Call, HostRepository, Session};
use crate::settings::Timeouts;
use crate::throttle::{Lane, Permit};
use crate::token::Scope;
use crate::transport::{Outgoing, Protocol, Refusal, Response};

/// How a blob came to be in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uploaded {
    /// The registry had it in the other repository.
    Mounted,
    /// It was sent.
    Sent,
}

enum Opened {
    Mounted,
    At(Url),
}

impl Client {
    /// Transfers a blob into a repository: mounted from `mount_from` where the
    /// registry can, else sent. `body` is called for the content, and again
    /// for each further attempt; it must give exactly the blob's bytes. The
    /// registry checks the digest.
    pub async fn upload<B, F, S, E>(
        &self,
        to: &Location,
        blob: Blob,
        mount_from: Option<&Repository>,
        body: B,
    ) -> Result<Uploaded, Error>
    where
        B: Fn() -> F + Send + Sync,
        F: Future<Output = Result<S, E>> + Send,
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BodyError> + 'static,
    {
        let session = self.session();
        let spot = session.target(to)?;
        let counters = &session.transport.counters;
        let log = session.uploads.as_deref().filter(|_| blob.size >= WORTH_CONTINUING);
        // One that another process began. Only at the registry itself: a workspace from elsewhere
        // could name any address.
        let begun = log.and_then(|log| log.find(to, &blob.digest));
        let cut = Mutex::new(begun.filter(|url| spot.host.owns(url)));
        let attempt = || async {
            let place = spot.host.throttle.enter(Lane::Transfer).await;
            let upload = Upload { session, spot: &spot, place: &place, blob };
            let left = cut.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(url) = left
                && let Some((url, offset)) = upload.received(&url).await
            {
                tracing::debug!("continuing the upload of {} at byte {offset}", blob.digest);
                return upload.rest(url, offset, &body).await.map(|()| Uploaded::Sent);
            }
            let url = match open(session, &spot, &place, &blob.digest, mount_from).await? {
                Opened::Mounted => return Ok(Uploaded::Mounted),
                Opened::At(url) => url,
            };
            if let Some(log) = log {
                log.begin(to, &blob.digest, &url);
            }
            let sent = upload.whole(&url, &body).await;
            if let Err(Error::Transport { .. } | Error::Timeout { .. }) = &sent
                && blob.size >= WORTH_CONTINUING
            {
                *cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(url);
            }
            sent.map(|()| Uploaded::Sent)
        };
        let uploaded = session.retry.run(counters, attempt).await;
        let may_continue = uploaded.as_ref().is_err_and(Error::is_retryable);
        if let Some(log) = log.filter(|_| !may_continue) {
            log.end(to, &blob.digest);
        }
        uploaded
    }
}

/// Smaller blobs are sent again.
const WORTH_CONTINUING: u64 = 1 << 20;

/// A blob that is being uploaded to a repository.
struct Upload<'a> {
    session: &'a Session,
    spot: &'a HostRepository,
    place: &'a Permit,
    blob: Blob,
}

impl Upload<'_> {
    /// Sends a request of this upload; `content` makes its body.
    async fn request<F>(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        send: impl Fn(Outgoing, RequestLine) -> F,
    ) -> Result<Response, Error>
    where
        F: Future<Output = Result<Response, Error>>,
    {
        let scope = Scope::push(&self.spot.at.repository, None);
        let own = self.spot.host.owns(url);
        let attempt = |authorization: Option<HeaderValue>| {
            let outgoing = Outgoing {
                method: method.clone(),
                url: url.clone(),
                headers: headers.clone(),
                // Not to wherever the upload was sent on to.
                authorization: authorization.filter(|_| own),
                body: None,
                verify: self.spot.host.verify,
                protocol: Protocol::Http1,
            };
            send(outgoing, RequestLine::new(&method, url))
        };
        self.session.authorised(self.spot, self.place, &scope, attempt).await
    }

    /// All of the blob in one request.
    async fn whole<B, F, S, E>(&self, url: &Url, body: &B) -> Result<(), Error>
    where
        B: Fn() -> F + Send + Sync,
        F: Future<Output = Result<S, E>> + Send,
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BodyError> + 'static,
    {
        let Blob { digest, size } = self.blob;
        let put = |outgoing, request_line| self.send_from(outgoing, request_line, 0, body);
        let response = self.request(Method::PUT, url, headers(size), put).await?;
        finish(response, &digest).await
    }

    /// Where a cut upload continues, and from which byte. `None`: the registry does not report it, or has
    /// nothing of it.
    async fn received(&self, url: &Url) -> Option<(Url, u64)> {
        let mut url = url.clone();
        url.set_query(without_digest(&url).as_deref());
        let stall = self.session.transport.timeouts.stall;
        let get = |outgoing, _| self.session.transport.exchange(outgoing, Some(stall));
        let response = match self.request(Method::GET, &url, HeaderMap::new(), get).await {
            Ok(response) if response.status().is_success() => response,
            Ok(_) => return None,
            Err(error) => {
                tracing::debug!("requesting the state of an upload: {}", error.chain());
                return None;
            }
        };
        let offset = response.header(RANGE.as_str()).and_then(received_bytes)?;
        let next = match response.header(LOCATION.as_str()) {
            Some(to) => self.spot.host.upload_url(response.url(), to)?,
            None => url,
        };
        // One byte may be none: an empty range cannot be written.
        (offset > 1 && offset <= self.blob.size).then_some((next, offset))
    }

    /// The rest of a cut upload. Whatever the registry refuses, a new upload may pass.
    async fn rest<B, F, S, E>(&self, url: Url, offset: u64, body: &B) -> Result<(), Error>
    where
        B: Fn() -> F + Send + Sync,
        F: Future<Output = Result<S, E>> + Send,
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BodyError> + 'static,
    {
        let Blob { digest, size } = self.blob;
        let mut url = url;
        if offset < size {
            let mut headers = headers(size - offset);
            if let Ok(range) = HeaderValue::from_str(&format!("{offset}-{}", size - 1)) {
                headers.insert(CONTENT_RANGE, range);
            }
            let patch =
                |outgoing, request_line| self.send_from(outgoing, request_line, offset, body);
            let response = self.request(Method::PATCH, &url, headers, patch).await?;
            if !response.status().is_success() {
                return Err(lost(response).await);
            }
            let next = response.header(LOCATION.as_str());
            url = match next.map(|to| self.spot.host.upload_url(response.url(), to)) {
                Some(Some(next)) => next,
                Some(None) => {
                    return Err(response.broken("an upload continues without a usable Location"));
                }
                None => url,
            };
        }
        url.query_pairs_mut().append_pair("digest", &digest.to_string());
        let commit = self.session.transport.timeouts.commit;
        let put = |outgoing, _| self.session.transport.exchange(outgoing, Some(commit));
        let response = self.request(Method::PUT, &url, headers(0), put).await?;
        if !response.status().is_success() {
            return Err(lost(response).await);
        }
        finish(response, &digest).await
    }

    /// Sends the content from `offset` on.
    async fn send_from<B, F, S, E>(
        &self,
        outgoing: Outgoing,
        request_line: RequestLine,
        offset: u64,
        body: &B,
    ) -> Result<Response, Error>
    where
        B: Fn() -> F + Send + Sync,
        F: Future<Output = Result<S, E>> + Send,
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BodyError> + 'static,
    {
        let stream = body().await.map_err(|source| Error::Body {
            request_line: request_line.clone(),
            source: source.into(),
        })?;
        let stream = without_first(stream, offset);
        send(self.session, outgoing, stream, self.blob.size - offset, request_line).await
    }
}

/// The content from `offset` on.
fn without_first<S, E>(
    stream: S,
    offset: u64,
) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: Into<BodyError> + 'static,
{
    let mut skip = offset;
    stream.map_err(Into::<BodyError>::into).try_filter_map(move |mut bytes| {
        let first = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
        skip -= first as u64;
        drop(bytes.split_to(first));
        std::future::ready(Ok((!bytes.is_empty()).then_some(bytes)))
    })
}

/// How many bytes a registry has, from `0-99` or `bytes=0-99`.
fn received_bytes(range: &str) -> Option<u64> {
    let (first, last) = range.trim().trim_start_matches("bytes=").split_once('-')?;
    (first == "0").then(|| last.parse::<u64>().ok()?.checked_add(1)).flatten()
}

/// A refusal of a continued upload.
async fn lost(response: Response) -> Error {
    let Refusal { request_line, status, error_body, .. } = response.refusal().await;
    Error::UploadLost { request_line, status, error_body }
}

impl Client {
    /// Opens an upload in a repository and cancels it: whether content may be pushed there.
    ///
    /// # Errors
    ///
    /// What an upload would fail with. That a registry does not cancel is not an error: it removes
    /// uploads that are not continued.
    pub async fn check_push(&self, to: &Location) -> Result<(), Error> {
        let session = self.session();
        let spot = session.target(to)?;
        let counters = &session.transport.counters;
        let check = || async {
            let place = spot.host.throttle.enter(Lane::Small).await;
            let digest = Digest::of(b"");
            let Opened::At(mut url) = open(session, &spot, &place, &digest, None).await? else {
                return Ok(());
            };
            url.set_query(without_digest(&url).as_deref());
            let scope = Scope::push(&spot.at.repository, None);
            let own = spot.host.owns(&url);
            let cancelled = session
                .authorised(&spot, &place, &scope, |authorization: Option<HeaderValue>| {
                    let outgoing = Outgoing {
                        method: Method::DELETE,
                        url: url.clone(),
                        headers: HeaderMap::new(),
                        authorization: authorization.filter(|_| own),
                        body: None,
                        verify: spot.host.verify,
                        protocol: Protocol::Http1,
                    };
                    session.transport.exchange(outgoing, Some(session.transport.timeouts.stall))
                })
                .await;
            if let Err(error) = cancelled {
                tracing::debug!("cancelling an upload: {}", error.chain());
            }
            Ok(())
        };
        session.retry.run(counters, check).await
    }
}

/// The query of an upload's address as the registry gave it.
fn without_digest(url: &Url) -> Option<String> {
    let mut query = Serializer::new(String::new());
    let own: Vec<_> = url.query_pairs().filter(|(key, _)| key != "digest").collect();
    query.extend_pairs(&own);
    (!own.is_empty()).then(|| query.finish())
}

/// Opens an upload. A registry that does not let us mount gets a second request
/// without.
async fn open(
    session: &Session,
    spot: &HostRepository,
    place: &Permit,
    digest: &Digest,
    mount_from: Option<&Repository>,
) -> Result<Opened, Error> {
    let repository = &spot.at.repository;
    let mut path = format!("{repository}/blobs/uploads/");
    if let Some(from) = mount_from {
        let mut query = Serializer::new(String::new());
        query.append_pair("mount", &digest.to_string()).append_pair("from", from.as_str());
        path = format!("{path}?{}", query.finish());
    }
    let mut call = Call::new(Method::POST, path, Scope::push(repository, mount_from));
    call.protocol = Protocol::Http1;
    call.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    let response = match (session.send(spot, place, &call).await, mount_from) {
        (Err(Error::Denied { .. }), Some(_)) => {
            return Box::pin(open(session, spot, place, digest, None)).await;
        }
        (response, _) => response?,
    };
    match response.status() {
        StatusCode::CREATED if mount_from.is_some() => Ok(Opened::Mounted),
        StatusCode::ACCEPTED | StatusCode::CREATED => {
            let location = response.header(LOCATION.as_str());
            let url = location.and_then(|to| spot.host.upload_url(response.url(), to));
            let Some(mut url) = url else {
                return Err(response.broken("an upload was opened without a usable Location"));
            };
            url.query_pairs_mut().append_pair("digest", &digest.to_string());
            Ok(Opened::At(url))
        }
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
            if mount_from.is_some() =>
        {
            Box::pin(open(session, spot, place, digest, None)).await
        }
        _ => Err(response.refusal().await.into()),
    }
}

fn headers(size: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers
}

async fn send<S>(
    session: &Session,
    mut outgoing: Outgoing,
    stream: S,
    size: u64,
    request_line: RequestLine,
) -> Result<Response, Error>
where
    S: Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
{
    let flow = Arc::new(Flow::default());
    let limits = session.transport.limits.clone();
    let stream = stream.then(move |piece| {
        let limits = limits.clone();
        async move {
            limits.pass(piece.as_ref().map_or(0, Bytes::len)).await;
            piece
        }
    });
    let outflow = Outflow { stream: Box::pin(stream), left: size, flow: Arc::clone(&flow) };
    outgoing.body = Some(reqwest::Body::wrap_stream(outflow));
    let timeouts = session.transport.timeouts;
    let url = outgoing.url.clone();
    let sent = tokio::select! {
        response = session.transport.exchange(outgoing, None) => response,
        (wait, after) = watch(&flow, size, timeouts) => Err(session.transport.timed_out(&request_line, &url, wait, after)),
    };
    session.transport.counters.sent(usize::try_from(flow.moved()).unwrap_or(usize::MAX));
    sent.map_err(|error| match flow.take_failure() {
        Some(source) => Error::Body { request_line, source },
        None => error,
    })
}

async fn finish(response: Response, digest: &Digest) -> Result<(), Error> {
    match response.status() {
        StatusCode::CREATED | StatusCode::ACCEPTED | StatusCode::NO_CONTENT | StatusCode::OK => {}
        StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE => {
            return Err(lost(response).await);
        }
        _ => return Err(response.refusal().await.into()),
    }
    let announced: Option<Digest> =
        response.header("docker-content-digest").and_then(|announced| announced.parse().ok());
    match announced {
        Some(got) if got != *digest => {
            Err(Error::Digest { request_line: response.request_line, wanted: *digest, got })
        }
        _ => Ok(()),
    }
}

/// What a body did so far, seen from outside.
#[derive(Debug, Default)]
struct Flow {
    moved: AtomicU64,
    /// The content's own source is slow; the registry is not the cause.
    waits_for_source: AtomicBool,
    failure: Mutex<Option<BodyError>>,
}

impl Flow {
    fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn take_failure(&self) -> Option<BodyError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Ends when the registry takes no more bytes, or does not respond after the last.
async fn watch(flow: &Flow, size: u64, timeouts: Timeouts) -> (Wait, std::time::Duration) {
    let mut seen = 0;
    loop {
        let all_sent = flow.moved() == size;
        if all_sent {
            tokio::time::sleep(timeouts.commit).await;
            return (Wait::Commit, timeouts.commit);
        }
        tokio::time::sleep(timeouts.stall).await;
        let moved = flow.moved();
        if moved == seen && !flow.waits_for_source.load(Ordering::Relaxed) {
            return (Wait::Send, timeouts.stall);
        }
        seen = moved;
    }
}

/// The caller's stream, held to the length it was announced with.
struct Outflow<S> {
    stream: Pin<Box<S>>,
    left: u64,
    flow: Arc<Flow>,
}

#[derive(Debug, thiserror::Error)]
enum LengthError {
    #[error("the content is longer than in its manifest")]
    Long,
    #[error("the content is {0} bytes shorter than in its manifest")]
    Short(u64),
}

impl<S> Outflow<S> {
    fn fail(
        &self,
        failure: BodyError,
    ) -> Poll<Option<Result<Bytes, Box<dyn StdError + Send + Sync>>>> {
        *self.flow.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        Poll::Ready(Some(Err("the content could not be read".into())))
    }
}

impl<S, E> Stream for Outflow<S>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: Into<BodyError>,
{
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.stream.as_mut().poll_next(context);
        self.flow.waits_for_source.store(polled.is_pending(), Ordering::Relaxed);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(chunk))) if chunk.len() as u64 > self.left => {
                self.fail(LengthError::Long.into())
            }
            Poll::Ready(Some(Ok(chunk))) => {
                self.left -= chunk.len() as u64;
                self.flow.moved.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                Poll::Ready(Some(Ok(chunk)))
            }
            Poll::Ready(Some(Err(error))) => self.fail(error.into()),
            Poll::Ready(None) if self.left > 0 => self.fail(LengthError::Short(self.left).into()),
            Poll::Ready(None) => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_has_is_read_from_its_range() {
        for (range, expected) in [
            ("0-99", Some(100)),
            ("bytes=0-99", Some(100)),
            ("0-0", Some(1)),
            ("5-9", None),
            ("0-", None),
            ("", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(received_bytes(range), expected, "{range}");
        }
    }
}
