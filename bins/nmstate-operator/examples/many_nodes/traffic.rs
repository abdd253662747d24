//! What a handler receives: bytes of responses, and events of watches. Bookmarks are left out: they
//! come with time, not with what happens.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes};
use hyper::{Request, Response};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::{Layer, Service};

const BOOKMARK: &[u8] = b"{\"type\":\"BOOKMARK\"";

/// What one handler received.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    requests: AtomicU64,
    bytes: AtomicU64,
    events: AtomicU64,
}

impl Traffic {
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    fn add(&self, line: &[u8], is_watch: bool) {
        if is_watch && line.starts_with(BOOKMARK) {
            return;
        }
        self.bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
        self.events.fetch_add(u64::from(is_watch), Ordering::Relaxed);
    }
}

/// A client whose traffic is counted.
pub(crate) fn client(config: Config, traffic: &Arc<Traffic>) -> Result<Client> {
    let builder = ClientBuilder::try_from(config).context("making a client")?;
    Ok(builder.with_layer(&Count(Arc::clone(traffic))).build())
}

struct Count(Arc<Traffic>);

impl<S> Layer<S> for Count {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Counted { inner, traffic: Arc::clone(&self.0) }
    }
}

struct Counted<S> {
    inner: S,
    traffic: Arc<Traffic>,
}

impl<S, Q, B> Service<Request<Q>> for Counted<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, B::Error>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let traffic = Arc::clone(&self.traffic);
        traffic.requests.fetch_add(1, Ordering::Relaxed);
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut line: Vec<u8> = Vec::new();
            let count = move |body: B| {
                let counted = body.map_frame(move |frame| {
                    let Some(data) = frame.data_ref().filter(|_| is_watch) else {
                        traffic.add(frame.data_ref().map_or(&[], |data| data), false);
                        return frame;
                    };
                    for part in data.split_inclusive(|byte| *byte == b'\n') {
                        line.extend_from_slice(part);
                        if part.ends_with(b"\n") {
                            traffic.add(&line, true);
                            line.clear();
                        }
                    }
                    frame
                });
                counted.boxed_unsync()
            };
            Ok(response.await?.map(count))
        })
    }
}
