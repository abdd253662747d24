//! The port on which a component serves its metrics: over TLS, to one client, by default the cluster's
//! monitoring.
//!
//! Certificate, authority and terms of TLS are looked at for every connection, so that a change of
//! any of them needs no restart. While one is missing nobody is answered, and the log says why; the
//! rest of the part works on.

mod client_authority;
mod reader;
mod serving_certificate;
mod terms;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use nmstate_deployment::tls::TlsSettings;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::metrics::{self, Metrics};
use crate::service_port::{self, PATIENCE, ServiceState};
use client_authority::{AuthorityError, ClientAuthority};
use serving_certificate::{CertificateError, ServingCertificate};

pub(crate) use terms::Terms;

/// After an address could not be had.
const BIND_AGAIN: Duration = Duration::from_secs(10);
const EXPOSITION: HeaderValue = HeaderValue::from_static(metrics::CONTENT_TYPE);
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Where, and under which name.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Address of the metrics port, over TLS and for the cluster's monitoring only; without it, metrics are not served
    #[arg(long = "metrics-listen", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    /// Certificate for metrics, as PEM; read again when it changes
    #[arg(
        long = "metrics-certificate",
        value_name = "FILE",
        default_value = "/etc/metrics-certificate/tls.crt"
    )]
    certificate: PathBuf,
    /// Key of that certificate, as PEM; read again when it changes
    #[arg(
        long = "metrics-key",
        value_name = "FILE",
        default_value = "/etc/metrics-certificate/tls.key"
    )]
    key: PathBuf,
    /// Common name in the certificate of the only client that may read metrics
    #[arg(long = "metrics-client", value_name = "NAME", default_value = reader::MONITORING)]
    client: String,
}

/// Which TLS is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServedTls {
    /// The cluster has not been asked yet.
    NotYet,
    /// What the cluster wants cannot be had.
    Nothing,
    Tls(TlsSettings),
}

/// Serves `/metrics` for as long as it is awaited. What is offered may change meanwhile.
pub(crate) async fn serve(
    place: &Place,
    client: Client,
    served_tls: watch::Receiver<ServedTls>,
    service: &Arc<ServiceState>,
) -> Infallible {
    let Some(address) = place.address else { return std::future::pending().await };
    let access = Arc::new(Access {
        certificate: ServingCertificate::new(&place.certificate, &place.key),
        authority: ClientAuthority::new(client),
        reader: place.client.clone(),
        served_tls,
        closed: Mutex::default(),
    });
    let serving = async {
        let listener = listen(address).await;
        // Whoever reads the log shall not have to wait for somebody to knock.
        let _ = access.open().await;
        service_port::each_connection(&listener, |stream| {
            let (access, service) = (Arc::clone(&access), Arc::clone(service));
            async move {
                let served = answer(stream, &access, &service);
                if tokio::time::timeout(PATIENCE, served).await.is_err() {
                    tracing::debug!(
                        "a client of the metrics port did not finish its request in time"
                    );
                }
            }
        })
        .await
    };
    tokio::select! {
        never = access.authority.keep() => never,
        never = serving => never,
    }
}

/// A port that is taken is no reason to stop the work.
async fn listen(address: SocketAddr) -> TcpListener {
    let mut told = false;
    loop {
        match service_port::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(address);
                tracing::info!(%address, "serving metrics");
                return listener;
            }
            Err(error) if !told => {
                told = true;
                tracing::warn!(
                    "metrics are not served: listening on {address}: {error}; trying again every {} s",
                    BIND_AGAIN.as_secs()
                );
            }
            Err(_) => {}
        }
        tokio::time::sleep(BIND_AGAIN).await;
    }
}

/// What decides who gets in.
struct Access {
    certificate: ServingCertificate,
    authority: ClientAuthority,
    /// The common name of the only client.
    reader: String,
    served_tls: watch::Receiver<ServedTls>,
    /// Why nobody gets in, as the log was told last.
    closed: Mutex<Option<String>>,
}

/// Why nobody gets in.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("the cluster's TLS profile has not been read yet")]
    NotYet,
    #[error("nothing that the cluster's TLS profile allows can be spoken here")]
    Nothing,
    #[error("the serving certificate is missing")]
    Certificate(#[source] CertificateError),
    #[error("the CA of clients is missing")]
    Authority(#[source] AuthorityError),
    #[error("certificate, authority and TLS profile do not go together")]
    Settings(#[source] rustls::Error),
    #[error("no client can be checked")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

impl Access {
    /// How to receive the next client.
    async fn open(&self) -> Option<Arc<ServerConfig>> {
        let opened = self.settings().await;
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        match opened {
            Ok(config) => {
                if closed.take().is_some() {
                    tracing::info!("metrics are served to the monitoring");
                }
                Some(Arc::new(config))
            }
            // What every start begins with is no news.
            Err(Closed::NotYet) => None,
            Err(error) => {
                let why = format!("{:#}", anyhow::Error::from(error));
                if closed.as_ref() != Some(&why) {
                    tracing::warn!("metrics are not served: {why}");
                    *closed = Some(why);
                }
                None
            }
        }
    }

    async fn settings(&self) -> Result<ServerConfig, Closed> {
        let key = self.certificate.current().map_err(Closed::Certificate)?;
        let roots = self.authority.trusted().await.map_err(Closed::Authority)?;
        match &*self.served_tls.borrow() {
            ServedTls::NotYet => Err(Closed::NotYet),
            ServedTls::Nothing => Err(Closed::Nothing),
            ServedTls::Tls(settings) => terms::server_config(settings, &key, roots),
        }
    }
}

async fn answer(stream: TcpStream, access: &Access, service: &ServiceState) {
    let Some(config) = access.open().await else { return };
    let stream = match TlsAcceptor::from(config).accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            if is_stranger(&error) {
                access.authority.doubt();
            }
            return tracing::debug!("rejected a client of the metrics port: {error}");
        }
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let reader = certificates.first().and_then(reader::name);
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = respond(&request, reader.as_deref(), &access.reader, &service.metrics);
        async move { Ok::<_, Infallible>(answer) }
    });
    // Whoever comes again shows its certificate again: what has ended since is noticed.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// A certificate by somebody we do not know may be by an authority that is new.
fn is_stranger(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

fn respond<B>(
    request: &Request<B>,
    reader: Option<&str>,
    expected: &str,
    metrics: &Metrics,
) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (code, text) = if reader != Some(expected) {
        let name = reader.map_or_else(|| "no one".to_owned(), |name| format!("{name:?}"));
        let text = format!("metrics are for {expected}; your certificate names {name}\n");
        (StatusCode::FORBIDDEN, text)
    } else if is_read && request.uri().path() == "/metrics" {
        (StatusCode::OK, metrics.render())
    } else {
        (StatusCode::NOT_FOUND, "try /metrics\n".to_owned())
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let kind = if code == StatusCode::OK { EXPOSITION } else { TEXT };
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_monitoring_may_read_metrics() {
        let metrics = Metrics::default();
        let respond = |path: &str, reader| {
            let request = Request::builder().uri(path).body(()).unwrap();
            respond(&request, reader, reader::MONITORING, &metrics).status().as_u16()
        };
        assert_eq!(respond("/metrics", Some(reader::MONITORING)), 200);
        assert_eq!(respond("/", Some(reader::MONITORING)), 404);
        for other in [None, Some(""), Some("system:admin"), Some("x:prometheus-k8s")] {
            assert_eq!(respond("/metrics", other), 403, "{other:?}");
        }
    }
}
