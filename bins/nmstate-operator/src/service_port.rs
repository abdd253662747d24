//! The port of a running part: whether it lives, whether it is ready, and its numbers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::metrics::Metrics;

/// Connections at a time. Kubelet and Prometheus need two.
const CONNECTIONS: usize = 16;
/// How long a client may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a part tells about itself.
#[derive(Debug, Default)]
pub struct Standing {
    ready: AtomicBool,
    pub metrics: Metrics,
}

impl Standing {
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}

/// Serves `/healthz`, `/readyz` and `/metrics` for as long as it is awaited.
pub async fn serve(address: SocketAddr, standing: Arc<Standing>) -> Result<Infallible> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}; --listen chooses another address"))?;
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let permit = Arc::clone(&room).acquire_owned().await.context("waiting for a connection")?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("taking a connection on {address}: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let standing = Arc::clone(&standing);
        connections.spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request, &standing);
                async move { Ok::<_, Infallible>(answer) }
            });
            // A client that goes away in between is its own affair.
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            drop(permit);
        });
    }
}

fn answer<B>(request: &Request<B>, standing: &Standing) -> Response<Full<Bytes>> {
    let (code, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/healthz") => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET | &Method::HEAD, "/readyz") => match standing.ready.load(Ordering::Relaxed) {
            true => (StatusCode::OK, "ok\n".to_owned()),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not ready yet\n".to_owned()),
        },
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, standing.metrics.render()),
        _ => (StatusCode::NOT_FOUND, "try /healthz, /readyz or /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &str, standing: &Standing) -> u16 {
        let request = Request::builder().uri(path).body(()).unwrap();
        answer(&request, standing).status().as_u16()
    }

    #[test]
    fn readiness_is_told_apart_from_health() {
        let standing = Standing::default();
        assert_eq!((code("/healthz", &standing), code("/readyz", &standing)), (200, 503));
        standing.set_ready(true);
        assert_eq!(code("/readyz", &standing), 200);
        assert_eq!(code("/secrets", &standing), 404);
    }
}
