//! The health port of a component: liveness and readiness for the kubelet, without authentication.
//! Metrics are in `metrics_port`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tls_server::{REQUEST_TIMEOUT, bind, each_connection};

use crate::metrics::Metrics;

/// The readiness and the metrics of a component.
#[derive(Debug, Default)]
pub struct ServiceState {
    ready: AtomicBool,
    pub metrics: Metrics,
}

impl ServiceState {
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// Serves `/healthz` and `/readyz` for as long as it is awaited.
pub async fn serve(address: SocketAddr, service: Arc<ServiceState>) -> Result<Infallible> {
    let listener = bind(address)
        .await
        .with_context(|| format!("listening on {address}; --listen chooses another address"))?;
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "health is served");
    let never = each_connection(&listener, |stream| {
        let service = Arc::clone(&service);
        async move {
            let responder = service_fn(move |request: Request<Incoming>| {
                let response = respond(&request, &service);
                async move { Ok::<_, Infallible>(response) }
            });
            // A client that disconnects is not an error.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_TIMEOUT)
                .serve_connection(TokioIo::new(stream), responder)
                .await;
        }
    });
    match never.await {}
}

fn respond<B>(request: &Request<B>, service: &ServiceState) -> Response<Full<Bytes>> {
    let (code, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, "ok\n"),
        (&Method::GET | &Method::HEAD, "/readyz") => match service.is_ready() {
            true => (StatusCode::OK, "ok\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not ready yet\n"),
        },
        _ => (StatusCode::NOT_FOUND, "try /healthz or /readyz\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &str, service: &ServiceState) -> u16 {
        let request = Request::builder().uri(path).body(()).unwrap();
        respond(&request, service).status().as_u16()
    }

    #[test]
    fn readiness_is_distinct_from_health() {
        let service = ServiceState::default();
        assert_eq!((code("/healthz", &service), code("/readyz", &service)), (200, 503));
        service.set_ready(true);
        assert_eq!(code("/readyz", &service), 200);
        // Metrics require authentication.
        assert_eq!(code("/metrics", &service), 404);
    }
}
