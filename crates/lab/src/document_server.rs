//! A web server for small documents, which misbehaves on demand and records
//! its requests: the base of update services and signature stores.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::background::Background;
use crate::certificates::{Authority, ClientCertificates};
use crate::endpoint::Endpoint;
use crate::registry::fault::Faults;
use crate::registry::log::Log;
use crate::registry::prepared_response::{Body, Content, PreparedResponse, instead};
use crate::registry::{Effect, Fault, Request, Requests};

/// A document as it is sent.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its content type.
    pub kind: &'static str,
    /// Its content.
    pub bytes: Bytes,
}

/// What a server has to offer.
pub trait DocumentSource: Send + Sync + 'static {
    /// The document at this path and query, if there is one.
    fn find(&self, uri: &Uri) -> Option<Document>;
}

/// How a server is set up.
#[derive(Debug, Default)]
pub struct Settings {
    /// TLS with a certificate of this authority; without one, plain HTTP.
    pub tls: Option<Arc<Authority>>,
    /// Where to listen; without one, on a free port of 127.0.0.1.
    pub listener: Option<TcpListener>,
}

/// A running server. It ends when dropped.
pub struct DocumentServer {
    state: Arc<ServerState>,
    address: SocketAddr,
    url: String,
    _background: Background,
}

struct ServerState {
    shelf: Arc<dyn DocumentSource>,
    faults: Faults,
    log: Arc<Log>,
}

impl DocumentServer {
    /// Serves what `shelf` has, on its own threads.
    pub fn start(shelf: Arc<dyn DocumentSource>, settings: Settings) -> Result<Self> {
        let clients = ClientCertificates::default();
        let Endpoint { listener, address, acceptor, scheme } =
            Endpoint::open(settings.listener, settings.tls.as_deref(), clients)?;
        let state = Arc::new(ServerState { shelf, faults: Faults::default(), log: Arc::default() });
        let background = Background::start("lab-documents")?;
        let listener = background.listener(listener)?;
        background.spawn(accept(listener, acceptor, Arc::clone(&state)));
        let url = format!("{scheme}://{address}");
        Ok(Self { state, address, url, _background: background })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it is reached: `http://127.0.0.1:1234`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes the server misbehave from now on.
    pub fn fault(&self, fault: Fault) {
        self.state.faults.add(fault);
    }

    /// Makes the server behave again.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
    }

    /// The requests so far.
    pub fn requests(&self) -> Requests {
        self.state.log.requests()
    }

    /// Clears the record of requests.
    pub fn forget_requests(&self) {
        self.state.log.clear();
    }
}

impl fmt::Debug for DocumentServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentServer").field("url", &self.url).finish_non_exhaustive()
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    acceptor: Option<TlsAcceptor>,
    state: Arc<ServerState>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (state, acceptor) = (Arc::clone(&state), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                None => serve(stream, state).await,
                // A client that does not trust this server is not an error here.
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, state).await;
                    }
                }
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, state: Arc<ServerState>) {
    let service = service_fn(|request| handle(Arc::clone(&state), request));
    let connection = hyper::server::conn::http1::Builder::new();
    // Broken connections are intended here; each side detects them itself.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(
    state: Arc<ServerState>,
    request: http::Request<Incoming>,
) -> io::Result<Response<Body>> {
    let in_flight = state.log.arrived();
    let (parts, _) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let effects = state.faults.meet(&parts.method, &path);
    let mut entry = Request {
        method: parts.method.clone(),
        path: path.clone(),
        headers: parts.headers,
        status: 0,
        sent: 0,
    };
    for effect in &effects {
        match effect {
            Effect::DropConnection => {
                in_flight.responded(entry);
                return Err(io::Error::other("dropped on demand"));
            }
            Effect::Delay(time) => tokio::time::sleep(*time).await,
            _ => {}
        }
    }
    let response = instead(&effects, &path).unwrap_or_else(|| match state.shelf.find(&parts.uri) {
        Some(Document { kind, bytes }) => PreparedResponse::empty(StatusCode::OK)
            .with(header::CONTENT_TYPE, kind)
            .holding(Content::Bytes(bytes)),
        None => PreparedResponse::empty(StatusCode::NOT_FOUND),
    });
    entry.status = response.status.as_u16();
    in_flight.responded(entry);
    Ok(response.send(parts.method == Method::HEAD, &effects, in_flight))
}
