//! Blobs going out. One POST opens an upload (or mounts the blob from another
//! repository), one PUT carries all of it. Uploads in several PATCH requests
//! are not made: registries cannot go on after a cut one anyway, and each costs
//! a round trip.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use oci::{Digest, Repository};
use url::Url;
use url::form_urlencoded::Serializer;

use crate::client::{Blob, Client};
use crate::error::{Asked, BodyError, Error, Wait};
use crate::location::Location;
use crate::session::{Call, Session, Spot};
use crate::settings::Timeouts;
use crate::throttle::{Lane, Permit};
use crate::token::Scope;
use crate::transport::{Answer, Outgoing, Protocol, Refusal};

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
    /// Brings a blob into a repository: mounted from `mount_from` where the
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
        session
            .retry
            .run(counters, || async {
                let place = spot.host.throttle.enter(Lane::Transfer).await;
                let url = match open(session, &spot, &place, &blob.digest, mount_from).await? {
                    Opened::Mounted => return Ok(Uploaded::Mounted),
                    Opened::At(url) => url,
                };
                let scope = Scope::push(&spot.at.repository, None);
                let own = spot.host.owns(&url);
                let answer = session
                    .authorised(&spot, &place, &scope, |authorization: Option<HeaderValue>| async {
                        let asked = Asked::new(&Method::PUT, &url);
                        let stream = body().await.map_err(|source| Error::Body {
                            asked: asked.clone(),
                            source: source.into(),
                        })?;
                        let outgoing = Outgoing {
                            method: Method::PUT,
                            url: url.clone(),
                            headers: headers(blob.size),
                            // Not to wherever the upload was sent on to.
                            authorization: authorization.filter(|_| own),
                            body: None,
                            verify: spot.host.verify,
                            protocol: Protocol::Http1,
                        };
                        send(session, outgoing, stream, blob.size, asked).await
                    })
                    .await?;
                finish(answer, &blob.digest).await.map(|()| Uploaded::Sent)
            })
            .await
    }
}

/// Opens an upload. A registry that does not let us mount is asked again
/// without.
async fn open(
    session: &Session,
    spot: &Spot,
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
    let answer = match (session.ask(spot, place, &call).await, mount_from) {
        (Err(Error::Denied { .. }), Some(_)) => {
            return Box::pin(open(session, spot, place, digest, None)).await;
        }
        (answer, _) => answer?,
    };
    match answer.status() {
        StatusCode::CREATED if mount_from.is_some() => Ok(Opened::Mounted),
        StatusCode::ACCEPTED | StatusCode::CREATED => {
            let location = answer.header(LOCATION.as_str());
            let url = location.and_then(|to| spot.host.upload_url(answer.url(), to));
            let Some(mut url) = url else {
                return Err(answer.broken("an upload was opened without a usable Location"));
            };
            url.query_pairs_mut().append_pair("digest", &digest.to_string());
            Ok(Opened::At(url))
        }
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
            if mount_from.is_some() =>
        {
            Box::pin(open(session, spot, place, digest, None)).await
        }
        _ => Err(answer.refusal().await.into()),
    }
}

fn headers(size: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers
}

async fn send<S, E>(
    session: &Session,
    mut outgoing: Outgoing,
    stream: S,
    size: u64,
    asked: Asked,
) -> Result<Answer, Error>
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: Into<BodyError> + 'static,
{
    let flow = Arc::new(Flow::default());
    let limits = session.transport.limits.clone();
    let stream = stream.map_err(Into::<BodyError>::into).then(move |piece| {
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
        answer = session.transport.exchange(outgoing, None) => answer,
        (wait, after) = watch(&flow, size, timeouts) => Err(session.transport.timed_out(&asked, &url, wait, after)),
    };
    session.transport.counters.sent(usize::try_from(flow.moved()).unwrap_or(usize::MAX));
    sent.map_err(|error| match flow.take_failure() {
        Some(source) => Error::Body { asked, source },
        None => error,
    })
}

async fn finish(answer: Answer, digest: &Digest) -> Result<(), Error> {
    match answer.status() {
        StatusCode::CREATED | StatusCode::ACCEPTED | StatusCode::NO_CONTENT | StatusCode::OK => {}
        StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE => {
            let Refusal { asked, status, said, .. } = answer.refusal().await;
            return Err(Error::UploadLost { asked, status, said });
        }
        _ => return Err(answer.refusal().await.into()),
    }
    let told: Option<Digest> =
        answer.header("docker-content-digest").and_then(|told| told.parse().ok());
    match told {
        Some(got) if got != *digest => {
            Err(Error::Digest { asked: answer.asked, wanted: *digest, got })
        }
        _ => Ok(()),
    }
}

/// What a body did so far, seen from outside.
#[derive(Debug, Default)]
struct Flow {
    moved: AtomicU64,
    /// The content's own source is slow; the registry is not to blame.
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

/// Ends when the registry takes no more bytes, or gives no answer after the last.
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
    #[error("the content is longer than its manifest says")]
    Long,
    #[error("the content is {0} bytes shorter than its manifest says")]
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
