//! A registry inside the test's own process, which misbehaves on demand and
//! records its requests.
//!
//! ```
//! use http::Method;
//! use lab::images::Image;
//! use lab::registry::{Effect, Fault, LabRegistry, Settings};
//!
//! let registry = LabRegistry::start(Settings::default())?;
//! registry.put_image(&Image::tiny("hello")?, "org/hello", "v1")?;
//! registry.fault(Fault::on(Method::GET, "/blobs/").times(1).does(Effect::CutAfter(100)));
//! let reference = registry.image("org/hello", "v1")?; // 127.0.0.1:port/org/hello:v1
//! // … let a client pull it, then check its requests:
//! assert_eq!(registry.requests().count(), 0);
//! # Ok::<(), anyhow::Error>(())
//! ```

mod api;
mod auth;
pub(crate) mod fault;
pub(crate) mod log;
pub(crate) mod prepared_response;
mod route;
mod store;

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use http::{Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oci::{ImageRef, RegistryHost};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use crate::background::Background;
use crate::certificates::{Authority, ClientCertificates};
use crate::endpoint::Endpoint;
use crate::images::Image;
use api::{Api, Call};
use auth::{Authenticator, Challenge};
use log::Log;
use prepared_response::{Body, PreparedResponse};
use route::{Query, Route};

pub use auth::{Auth, Bearer, Credentials};
pub use fault::{Effect, Fault, FaultOn};
pub use log::{Request, Requests};

/// How a registry is set up.
#[derive(Debug, Default)]
pub struct Settings {
    /// Which registry it behaves like.
    pub behaviour: Behaviour,
    /// What it requires of its clients.
    pub auth: Auth,
    /// TLS with a certificate of this authority; without one, plain HTTP.
    pub tls: Option<Arc<Authority>>,
    /// Whether TLS clients must present a certificate of the same authority.
    pub client_certificates: ClientCertificates,
    /// Keeps blobs in this directory instead of in memory. It is filled, never
    /// read back: what a registry holds ends with it.
    pub directory: Option<PathBuf>,
    /// Where to listen; without one, on a free port of 127.0.0.1.
    pub listener: Option<TcpListener>,
}

/// What registries do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// Supports `/v2/<name>/referrers/<digest>`.
    pub referrers_api: bool,
    /// Accepts a list whose children it lacks.
    pub sparse_lists: bool,
    /// Returns tags in pages on request.
    pub pages_tags: bool,
    /// Accepts a blob with one `POST ?digest=`.
    pub single_post: bool,
    /// Sends `Location` as a path instead of a whole address.
    pub relative_locations: bool,
}

impl Behaviour {
    /// All that the distribution specification offers.
    pub const MODERN: Self = Self {
        referrers_api: true,
        sparse_lists: true,
        pages_tags: true,
        single_post: true,
        relative_locations: true,
    };

    /// Like docker-registry 2.8: none of it.
    pub const DOCKER_2_8: Self = Self {
        referrers_api: false,
        sparse_lists: false,
        pages_tags: false,
        single_post: false,
        relative_locations: false,
    };
}

impl Default for Behaviour {
    fn default() -> Self {
        Self::MODERN
    }
}

/// A running registry. It ends when dropped.
#[derive(Debug)]
pub struct LabRegistry {
    state: Arc<ServerState>,
    address: SocketAddr,
    url: String,
    _background: Background,
}

/// What all connections share.
#[derive(Debug)]
struct ServerState {
    scheme: &'static str,
    api: Api,
    authenticator: Authenticator,
    faults: fault::Faults,
    log: Arc<Log>,
}

impl LabRegistry {
    /// Starts a registry on its own threads, so that it responds whatever
    /// the caller does, with or without a runtime.
    pub fn start(settings: Settings) -> Result<Self> {
        let (tls, clients) = (settings.tls.as_deref(), settings.client_certificates);
        let Endpoint { listener, address, acceptor, scheme } =
            Endpoint::open(settings.listener, tls, clients)?;
        let state = Arc::new(ServerState {
            scheme,
            authenticator: Authenticator::new(settings.auth),
            api: Api {
                store: store::Store::open(settings.directory.as_deref())?,
                behaviour: settings.behaviour,
            },
            faults: fault::Faults::default(),
            log: Arc::default(),
        });
        let background = Background::start("lab-registry")?;
        let listener = background.listener(listener)?;
        background.spawn(accept(listener, acceptor, state.clone()));
        let url = format!("{scheme}://{address}");
        Ok(Self { state, address, url, _background: background })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The registry's name in references: `127.0.0.1:1234`.
    pub fn host(&self) -> Result<RegistryHost> {
        Ok(self.address.to_string().parse()?)
    }

    /// Where it is reached: `http://127.0.0.1:1234`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The reference of a tag in it.
    pub fn image(&self, repository: &str, tag: &str) -> Result<ImageRef> {
        Ok(format!("{}/{repository}:{tag}", self.address).parse()?)
    }

    /// Stores an image with its attachments, without API, faults and log.
    pub fn put_image(&self, image: &Image, repository: &str, tag: &str) -> Result<()> {
        self.state.api.store.put_image(image, &repository.parse()?, &tag.parse()?)
    }

    /// Removes all content, like a new registry.
    pub fn wipe(&self) {
        self.state.api.store.clear();
    }

    /// Every tag, manifest and blob, one line each: two registries with the same content have
    /// equal sets.
    pub fn content(&self) -> BTreeSet<String> {
        self.state.api.store.content()
    }

    /// Makes the registry misbehave from now on.
    pub fn fault(&self, fault: Fault) {
        self.state.faults.add(fault);
    }

    /// Makes the registry behave again.
    pub fn clear_faults(&self) {
        self.state.faults.clear();
    }

    /// The requests so far. A request counts once its response has started.
    pub fn requests(&self) -> Requests {
        self.state.log.requests()
    }

    /// Clears the record of requests.
    pub fn forget_requests(&self) {
        self.state.log.clear();
    }

    /// How many requests have met a fault so far, those that it still delays included.
    pub fn disturbed(&self) -> usize {
        self.state.log.disturbed()
    }

    /// The most requests that were in flight at the same moment.
    pub fn most_concurrent(&self) -> usize {
        self.state.log.most_in_flight()
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    acceptor: Option<TlsAcceptor>,
    state: Arc<ServerState>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // Small responses must not wait for the other side's acknowledgement.
        let _ = stream.set_nodelay(true);
        let (state, acceptor) = (state.clone(), acceptor.clone());
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
    let service = service_fn(|request| handle(state.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new();
    // Broken connections are intended here; each side detects them itself.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(
    state: Arc<ServerState>,
    request: http::Request<Incoming>,
) -> io::Result<Response<Body>> {
    let in_flight = state.log.arrived();
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let effects = state.faults.meet(&parts.method, &path);
    if !effects.is_empty() {
        state.log.disturb();
    }
    let method = parts.method.clone();
    let entry = Request {
        method: method.clone(),
        path: path.clone(),
        headers: parts.headers.clone(),
        status: 0,
        sent: 0,
    };
    let response = match state.respond(parts, body, &path, &effects).await {
        Ok(response) => response,
        Err(error) => {
            in_flight.responded(entry);
            return Err(error);
        }
    };
    in_flight.responded(Request { status: response.status.as_u16(), ..entry });
    Ok(response.send(method == Method::HEAD, &effects, in_flight))
}

impl ServerState {
    async fn respond(
        &self,
        parts: http::request::Parts,
        body: Incoming,
        path: &str,
        effects: &[Effect],
    ) -> io::Result<PreparedResponse> {
        for effect in effects {
            match effect {
                Effect::DropConnection => return Err(io::Error::other("dropped on demand")),
                Effect::CutRequestAfter(count) => return cut_request(body, *count).await,
                Effect::Delay(time) => tokio::time::sleep(*time).await,
                Effect::ExpireTokensNow => self.authenticator.expire_tokens(),
                _ => {}
            }
        }
        if let Some(response) = prepared_response::instead(effects, path) {
            // Unread bytes would reset the connection, and the client might not get the response.
            let _ = body.collect().await;
            return Ok(response);
        }
        // The name by which the client reaches this server: there may be a proxy between.
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let base = format!("{}://{}", self.scheme, host.unwrap_or_default());
        let query = Query::of(&parts.uri);
        let route = match Route::parse(parts.uri.path()) {
            Ok(route) => route,
            Err(lost) => return Ok(api::lost(lost)),
        };
        if route == Route::Token {
            return Ok(match self.authenticator.token(&parts.headers, &query) {
                Some((token, seconds)) => PreparedResponse::json(
                    StatusCode::OK,
                    &json!({"token": token, "expires_in": seconds}),
                ),
                None => unauthorized(
                    PreparedResponse::empty(StatusCode::UNAUTHORIZED),
                    "Basic realm=\"lab\"",
                ),
            });
        }
        let needs = route::needs(&parts.method, &route, &query);
        if let Err(Challenge(challenge)) = self.authenticator.check(&base, &parts.headers, &needs) {
            let refusal = PreparedResponse::refusal(
                StatusCode::UNAUTHORIZED,
                "UNAUTHORIZED",
                "authentication required",
            );
            return Ok(unauthorized(refusal, &challenge));
        }
        let ignore_range = effects.iter().any(|effect| matches!(effect, Effect::IgnoreRange));
        let cut_after = effects.iter().find_map(|effect| match effect {
            Effect::KeepThenCut(count) => Some(*count),
            _ => None,
        });
        let headers = parts.headers;
        let call = Call { method: parts.method, route, query, headers, ignore_range, cut_after };
        let response = self.api.respond(&call, body).await?.with(API_VERSION, "registry/2.0");
        Ok(match self.api.behaviour.relative_locations {
            true => response,
            false => response.with_location_below(&base),
        })
    }
}

const API_VERSION: http::HeaderName =
    http::HeaderName::from_static("docker-distribution-api-version");

fn unauthorized(response: PreparedResponse, challenge: &str) -> PreparedResponse {
    response.with(header::WWW_AUTHENTICATE, challenge).with(API_VERSION, "registry/2.0")
}

/// Reads `count` bytes of a body, then stops.
async fn cut_request(mut body: Incoming, count: u64) -> io::Result<PreparedResponse> {
    let mut read = 0;
    while read < count
        && let Some(frame) = body.frame().await
    {
        read += frame.map_err(io::Error::other)?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Err(io::Error::other("cut on demand"))
}
