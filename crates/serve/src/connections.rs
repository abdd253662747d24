//! A listener, its connections and their limits. The caller provides the responses.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::tls::Tls;
use crate::write_timeout::WriteTimeout;

/// The longest head of a request, request line included. Bounds the memory of
/// a connection, too: at most this much is buffered in each direction.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 64;
/// How long to wait when the system cannot accept another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How a server behaves toward its clients.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections served at once; further ones wait in the system's queue.
    pub max_connections: usize,
    /// How long a client may take for a TLS handshake or the head of a
    /// request, and how long an idle connection is kept.
    pub head_timeout: Duration,
    /// How long a client may read no byte of a response.
    pub stall_timeout: Duration,
    /// How long responses in progress may continue after a shutdown was requested.
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
    pub address: SocketAddr,
    pub source: io::Error,
}

/// A listener that accepts connections once it runs.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
}

impl Listener {
    /// Takes the address. Port 0 takes a free one; see [`local_addr`](Self::local_addr).
    pub async fn bind(address: SocketAddr, options: Options) -> Result<Self, BindError> {
        let failed = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, options })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Serves until `shutdown` completes, then ends responses in progress within
    /// [`Options::grace`] and returns. `service` is called for each connection, with the address
    /// of its client.
    pub async fn run<S, B>(
        self,
        service: impl Fn(SocketAddr) -> S,
        shutdown: impl Future<Output = ()>,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
        S::Future: Send,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { listener, options, .. } = self;
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
            let connection = Connection { peer, options: options.clone(), stop: stop.clone() };
            let service = service(peer);
            connections.spawn(async move {
                connection.serve(stream, service).await;
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

/// The next connection; `None` if accepting one failed.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
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
    options: Options,
    stop: CancellationToken,
}

impl Connection {
    async fn serve<S, B>(self, stream: TcpStream, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        B: hyper::body::Body<Data = Bytes> + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        // Small responses must not wait for the acknowledgement of the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("{}: {error}", self.peer);
        }
        let stream = WriteTimeout::new(stream, self.options.stall_timeout);
        let Some(tls) = self.options.tls.clone() else {
            return self.serve_http(stream, service).await;
        };
        let handshake = tls.acceptor().accept(stream);
        match tokio::time::timeout(self.options.head_timeout, handshake).await {
            Ok(Ok(stream)) => self.serve_http(stream, service).await,
            Ok(Err(error)) => tracing::debug!("{}: TLS handshake: {error}", self.peer),
            Err(_) => tracing::debug!("{}: TLS handshake timed out", self.peer),
        }
    }

    async fn serve_http<S, B>(self, stream: impl AsyncRead + AsyncWrite + Unpin, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        B: hyper::body::Body<Data = Bytes> + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { peer, options, stop } = self;
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
            // A response that could not be finished: the disk's fault, not the client's.
            Err(error) if error.is_user() => tracing::error!("{peer}: {error:?}"),
            Err(error) => tracing::debug!("{peer}: {error:?}"),
        }
    }
}
