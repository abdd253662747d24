//! The server.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use error_causes::with_causes;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::client_name::common_name;
use crate::connections::{REQUEST_TIMEOUT, bind, each_connection};
use crate::serving_certificate::{CertificateError, ServingCertificate};

/// The delay after an address was unavailable.
const BIND_RETRY_DELAY: Duration = Duration::from_secs(10);

/// The versions, cipher suites and groups that are offered.
#[derive(Debug, Clone)]
pub struct Offer {
    pub provider: CryptoProvider,
    pub versions: Vec<&'static SupportedProtocolVersion>,
}

/// Decides about the next connection.
pub trait Access: Send + Sync + 'static {
    /// Why no client is served.
    type Error: Error + Send + Sync + 'static;

    /// What is offered now. None while that is unknown: no client is served, and nothing is
    /// logged.
    ///
    /// # Errors
    ///
    /// If nothing can be offered.
    fn offer(&self) -> Result<Option<Offer>, Self::Error>;

    /// The CA of clients.
    ///
    /// # Errors
    ///
    /// If there is none.
    fn client_roots(&self) -> impl Future<Output = Result<Arc<RootCertStore>, Self::Error>> + Send;

    /// A client presented a certificate of an unknown CA, which may be a new one.
    fn unknown_client(&self);
}

/// Why no client is served.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("the serving certificate is missing")]
    Certificate(#[source] CertificateError),
    #[error(transparent)]
    Access(Box<dyn Error + Send + Sync>),
    #[error("certificate, client CA and the offered versions are not compatible")]
    Settings(#[source] rustls::Error),
    #[error("no client can be verified")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// A server.
pub struct TlsServer<A> {
    /// What is served, for the log: `metrics`.
    subject: &'static str,
    certificate: ServingCertificate,
    access: A,
    /// Why no client is served, as it was logged last.
    closed: Mutex<Option<String>>,
}

impl<A> fmt::Debug for TlsServer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl<A: Access> TlsServer<A> {
    pub fn new(subject: &'static str, certificate: ServingCertificate, access: A) -> Self {
        Self { subject, certificate, access, closed: Mutex::default() }
    }

    pub fn access(&self) -> &A {
        &self.access
    }

    /// Serves for as long as it is awaited. `respond` gets a request and the common name in the
    /// certificate of the client. Listening is retried while the address is unavailable.
    pub async fn serve<R>(self: &Arc<Self>, address: SocketAddr, respond: R) -> Infallible
    where
        R: Fn(&Request<Incoming>, Option<&str>) -> Response<Full<Bytes>> + Send + Sync + 'static,
    {
        let respond = Arc::new(respond);
        let listener = self.listen(address).await;
        // Problems are logged before the first client connects.
        let _ = self.open().await;
        each_connection(&listener, |stream| {
            let (server, respond) = (Arc::clone(self), Arc::clone(&respond));
            async move {
                let served = server.serve_connection(stream, &*respond);
                if tokio::time::timeout(REQUEST_TIMEOUT, served).await.is_err() {
                    let subject = server.subject;
                    tracing::debug!("a client of {subject} did not finish its request in time");
                }
            }
        })
        .await
    }

    async fn listen(&self, address: SocketAddr) -> TcpListener {
        let subject = self.subject;
        let mut is_logged = false;
        loop {
            match bind(address).await {
                Ok(listener) => {
                    let address = listener.local_addr().unwrap_or(address);
                    tracing::info!(%address, "serving {subject}");
                    return listener;
                }
                Err(error) if !is_logged => {
                    is_logged = true;
                    tracing::warn!(
                        "{subject} are not served: listening on {address}: {error}; retrying every {} s",
                        BIND_RETRY_DELAY.as_secs()
                    );
                }
                Err(_) => {}
            }
            tokio::time::sleep(BIND_RETRY_DELAY).await;
        }
    }

    async fn serve_connection<R>(&self, stream: TcpStream, respond: &R)
    where
        R: Fn(&Request<Incoming>, Option<&str>) -> Response<Full<Bytes>>,
    {
        let Some(config) = self.open().await else { return };
        let stream = match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => stream,
            Err(error) => {
                if is_unknown_client(&error) {
                    self.access.unknown_client();
                }
                return tracing::debug!("rejected a client of {}: {error}", self.subject);
            }
        };
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let name = certificates.first().and_then(common_name);
        let service = service_fn(|request: Request<Incoming>| {
            let response = respond(&request, name.as_deref());
            async move { Ok::<_, Infallible>(response) }
        });
        // A client presents its certificate for every request, so that an expired one is noticed. A
        // client that disconnects is not an error.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// The configuration for the next client; none if it cannot be served.
    async fn open(&self) -> Option<Arc<ServerConfig>> {
        let subject = self.subject;
        let opened = self.config().await;
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        match opened {
            Ok(Some(config)) => {
                if closed.take().is_some() {
                    tracing::info!("{subject} are served");
                }
                Some(Arc::new(config))
            }
            Ok(None) => None,
            Err(error) => {
                let why = with_causes(&error);
                if closed.as_ref() != Some(&why) {
                    tracing::warn!("{subject} are not served: {why}");
                    *closed = Some(why);
                }
                None
            }
        }
    }

    async fn config(&self) -> Result<Option<ServerConfig>, Closed> {
        let key = self.certificate.current().map_err(Closed::Certificate)?;
        let denied = |error: A::Error| Closed::Access(Box::new(error));
        let roots = self.access.client_roots().await.map_err(denied)?;
        let Some(offer) = self.access.offer().map_err(denied)? else { return Ok(None) };
        server_config(offer, &key, roots).map(Some)
    }
}

/// Clients must present a certificate that `roots` issued, for every connection: no session outlives
/// its connection.
fn server_config(
    offer: Offer,
    key: &CertifiedKey,
    roots: Arc<RootCertStore>,
) -> Result<ServerConfig, Closed> {
    let provider = Arc::new(offer.provider);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        // Clients that select a certificate by these names would present none if its CA is new.
        .clear_root_hint_subjects()
        .build()
        .map_err(Closed::Verifier)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&offer.versions)
        .map_err(Closed::Settings)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone())));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// A certificate of an unknown CA may be of one that is new.
fn is_unknown_client(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}
