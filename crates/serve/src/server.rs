//! The listener, its connections, and the limits they are held to.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::answer::{Body, answer};
use crate::current::CurrentShelf;
use crate::patience::Patience;
use crate::shelf::Shelf;
use crate::tls::Tls;

/// The longest head of a request, request line included. Bounds the memory of
/// a connection, too: so much is buffered at most in each direction.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 64;
/// How long to wait when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How a server behaves toward its clients.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections served at once; further ones wait in the system's queue.
    pub max_connections: usize,
    /// How long a client may take for a TLS handshake or the head of a
    /// request, and how long an idle connection is kept.
    pub head_timeout: Duration,
    /// How long a client may take no byte of an answer.
    pub stall_timeout: Duration,
    /// How long answers under way may go on after the shutdown was asked for.
    pub grace: Duration,
    /// Plain HTTP without it.
    pub tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_connections: 256,
            head_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(1),
            tls: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("listening on {address}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// A read-only registry that listens and does not answer yet; [`run`](Self::run) does.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    shelf: CurrentShelf,
    options: Options,
}

impl Server {
    /// Takes the address. Port 0 takes a free one; see [`local_addr`](Self::local_addr).
    pub async fn bind(
        address: SocketAddr,
        shelf: Shelf,
        options: Options,
    ) -> Result<Self, BindError> {
        let failed = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if options.tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(
                "{address} can be reached from other machines, without encryption and without \
                 login: whoever reaches it can read every image and can tamper with what others \
                 pull; give a certificate and a key, or listen on 127.0.0.1"
            );
        }
        Ok(Self { listener, address, shelf: CurrentShelf::new(shelf), options })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The shelf that is served, to exchange it while the server runs.
    pub fn shelf(&self) -> CurrentShelf {
        self.shelf.clone()
    }

    /// Serves until `shutdown` completes, then ends answers under way within
    /// [`Options::grace`] and returns.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, shelf, options, .. } = self;
        let mut shutdown = pin!(shutdown);
        let slots = Arc::new(Semaphore::new(options.max_connections));
        let stop = CancellationToken::new();
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = accept(&listener, &slots) => accepted,
            };
            while let Some(ended) = connections.try_join_next() {
                report_panic(ended);
            }
            let Some((stream, peer, slot)) = accepted else { continue };
            let connection = Connection {
                peer,
                shelf: shelf.clone(),
                options: options.clone(),
                stop: stop.clone(),
            };
            connections.spawn(async move {
                connection.serve(stream).await;
                drop(slot);
            });
        }
        drop(listener);
        stop.cancel();
        let finish = async {
            while let Some(ended) = connections.join_next().await {
                report_panic(ended);
            }
        };
        if tokio::time::timeout(options.grace, finish).await.is_err() {
            tracing::warn!("ending {} connections that are still busy", connections.len());
            connections.shutdown().await;
        }
    }
}

type Slot = tokio::sync::OwnedSemaphorePermit;

/// The next connection; `None` when there was none to be had.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, Slot)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) => {
            tracing::warn!("accepting a connection: {error}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a connection ended: {error}");
    }
}

/// One client.
struct Connection {
    peer: SocketAddr,
    shelf: CurrentShelf,
    options: Options,
    stop: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        // Small answers must not wait for the acknowledgement of the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("{}: {error}", self.peer);
        }
        let stream = Patience::new(stream, self.options.stall_timeout);
        let Some(tls) = self.options.tls.clone() else { return self.speak(stream).await };
        let handshake = tls.acceptor().accept(stream);
        match tokio::time::timeout(self.options.head_timeout, handshake).await {
            Ok(Ok(stream)) => self.speak(stream).await,
            Ok(Err(error)) => tracing::debug!("{}: TLS handshake: {error}", self.peer),
            Err(_) => tracing::debug!("{}: TLS handshake timed out", self.peer),
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let Self { peer, shelf, options, stop } = self;
        let service = service_fn(|request| {
            let shelf = shelf.get();
            async move { Ok::<_, Infallible>(answer_and_log(peer, shelf, &request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.head_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        match ended {
            Ok(()) => {}
            // An answer that could not be finished: the disk's fault, not the client's.
            Err(error) if error.is_user() => tracing::error!("{peer}: {error:?}"),
            Err(error) => tracing::debug!("{peer}: {error:?}"),
        }
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
