//! The registry on a listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;

use crate::connections::{BindError, Listener, Options};
use crate::current_snapshot::CurrentSnapshot;
use crate::response::{Body, respond};
use crate::snapshot::Snapshot;

/// A read-only registry that listens; it responds once [`run`](Self::run) is called.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    snapshot: CurrentSnapshot,
}

impl Server {
    /// Takes the address. Port 0 takes a free one; see [`local_addr`](Self::local_addr).
    pub async fn bind(
        address: SocketAddr,
        snapshot: Snapshot,
        options: Options,
    ) -> Result<Self, BindError> {
        let listener = Listener::bind(address, options).await?;
        let address = listener.local_addr();
        if listener.options().tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(
                "{address} can be reached from other machines, without encryption and without \
                 login: every client that reaches it can read every image, and can tamper with \
                 what others pull; give a certificate and a key, or listen on 127.0.0.1"
            );
        }
        Ok(Self { listener, snapshot: CurrentSnapshot::new(snapshot) })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// The snapshot that is served, to replace it while the server runs.
    pub fn snapshot(&self) -> CurrentSnapshot {
        self.snapshot.clone()
    }

    /// Serves until `shutdown` completes, then ends responses in progress within
    /// [`Options::grace`] and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, snapshot } = self;
        let service = |peer| {
            let snapshot = snapshot.clone();
            service_fn(move |request| {
                let snapshot = snapshot.get();
                async move { Ok::<_, Infallible>(respond_and_log(peer, snapshot, &request).await) }
            })
        };
        listener.run(service, shutdown).await;
    }
}

async fn respond_and_log(
    peer: SocketAddr,
    snapshot: Arc<Snapshot>,
    request: &Request<Incoming>,
) -> Response<Body> {
    let started = Instant::now();
    let (method, uri) = (request.method(), request.uri());
    let response = respond(snapshot, method, uri, request.headers()).await;
    let length = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    tracing::info!(
        %peer,
        %method,
        path = uri.path_and_query().map_or("", |path| path.as_str()),
        status = response.status().as_u16(),
        length = length.unwrap_or("0"),
        ms = started.elapsed().as_millis(),
        "request"
    );
    response
}
