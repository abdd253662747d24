//! The registry on a listener.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;

use crate::answer::{Body, answer};
use crate::connections::{BindError, Listener, Options};
use crate::current::CurrentShelf;
use crate::shelf::Shelf;

/// A read-only registry that listens and does not respond yet; [`run`](Self::run) does.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    shelf: CurrentShelf,
}

impl Server {
    /// Takes the address. Port 0 takes a free one; see [`local_addr`](Self::local_addr).
    pub async fn bind(
        address: SocketAddr,
        shelf: Shelf,
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
        Ok(Self { listener, shelf: CurrentShelf::new(shelf) })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// The shelf that is served, to exchange it while the server runs.
    pub fn shelf(&self) -> CurrentShelf {
        self.shelf.clone()
    }

    /// Serves until `shutdown` completes, then ends responses in progress within
    /// [`Options::grace`] and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, shelf } = self;
        let service = |peer| {
            let shelf = shelf.clone();
            service_fn(move |request| {
                let shelf = shelf.get();
                async move { Ok::<_, Infallible>(answer_and_log(peer, shelf, &request).await) }
            })
        };
        listener.run(service, shutdown).await;
    }
}

async fn answer_and_log(
    peer: SocketAddr,
    shelf: Arc<Shelf>,
    request: &Request<Incoming>,
) -> Response<Body> {
    let started = Instant::now();
    let (method, uri) = (request.method(), request.uri());
    let response = answer(shelf, method, uri, request.headers()).await;
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
