//! The port on which a component serves its metrics: over TLS, to one client, by default the cluster's
//! monitoring.
//!
//! Certificate, client CA and terms of TLS may change at any time; see [`tls_server`].

mod client_authority;
mod terms;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use kube::Client;
use nmstate_deployment::tls::TlsSettings;
use rustls::RootCertStore;
use tls_server::{Access, Offer, ServingCertificate, TlsServer};
use tokio::sync::watch;

use crate::metrics::{self, Metrics};
use crate::service_port::ServiceState;
use client_authority::{AuthorityError, ClientAuthority};

pub(crate) use terms::Terms;

const EXPOSITION: HeaderValue = HeaderValue::from_static(metrics::CONTENT_TYPE);
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The account of the cluster's monitoring. Every OpenShift cluster gives it a certificate of this
/// name; so no request to the API server is needed to authorize it, and metrics are available during
/// an outage.
const MONITORING: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

/// Where, and under which name.
#[derive(Debug, Clone, Args)]
pub(crate) struct MetricsPort {
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
    #[arg(long = "metrics-client", value_name = "NAME", default_value = MONITORING)]
    client: String,
}

/// Which TLS is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServedTls {
    /// No request was sent to the cluster yet.
    NotYet,
    /// The settings of the cluster cannot be honored.
    Nothing,
    Tls(TlsSettings),
}

/// Serves `/metrics` for as long as it is awaited. What is offered may change meanwhile.
pub(crate) async fn serve(
    port: &MetricsPort,
    client: Client,
    served_tls: watch::Receiver<ServedTls>,
    service: &Arc<ServiceState>,
) -> Infallible {
    let Some(address) = port.address else { return std::future::pending().await };
    let certificate = ServingCertificate::new(&port.certificate, &port.key);
    let access = MetricsAccess { authority: ClientAuthority::new(client), served_tls };
    let server = Arc::new(TlsServer::new("metrics", certificate, access));
    let (expected, service) = (port.client.clone(), Arc::clone(service));
    let serving = server.serve(address, move |request, reader| {
        respond(request, reader, &expected, &service.metrics)
    });
    tokio::select! {
        never = server.access().authority.keep() => never,
        never = serving => never,
    }
}

/// What decides about clients of metrics: the cluster.
struct MetricsAccess {
    authority: ClientAuthority,
    served_tls: watch::Receiver<ServedTls>,
}

/// Why no client is served.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("nothing that the cluster's TLS profile allows is supported here")]
    Nothing,
    #[error("the CA of clients is missing")]
    Authority(#[source] AuthorityError),
}

impl Access for MetricsAccess {
    type Error = Closed;

    fn offer(&self) -> Result<Option<Offer>, Closed> {
        match &*self.served_tls.borrow() {
            ServedTls::NotYet => Ok(None),
            ServedTls::Nothing => Err(Closed::Nothing),
            ServedTls::Tls(settings) => Ok(Some(terms::offer(settings))),
        }
    }

    async fn client_roots(&self) -> Result<Arc<RootCertStore>, Closed> {
        self.authority.trusted().await.map_err(Closed::Authority)
    }

    fn unknown_client(&self) {
        self.authority.doubt();
    }
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
            respond(&request, reader, MONITORING, &metrics).status().as_u16()
        };
        assert_eq!(respond("/metrics", Some(MONITORING)), 200);
        assert_eq!(respond("/", Some(MONITORING)), 404);
        for other in [None, Some(""), Some("system:admin"), Some("x:prometheus-k8s")] {
            assert_eq!(respond("/metrics", other), 403, "{other:?}");
        }
    }
}
