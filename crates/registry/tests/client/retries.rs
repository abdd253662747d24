//! What is retried, how often, and what the user reads about it.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use lab::registry::{Effect, Fault, Settings};
use registry::{Client, Environment, Error, Retry, Side, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{fetch, lab, location, nowhere, settings, source, stored_blob};

/// An address at which nothing listens.
fn closed_port() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn with_environment(environment: Environment) -> Client {
    Client::open(registry::Settings { environment, ..settings(Side::Source) }).unwrap()
}

#[tokio::test]
async fn a_refused_connection_is_retried_once() {
    let client = source();
    let image: oci::ImageRef = format!("{}/a:v1", closed_port()).parse().unwrap();
    let error = client.head(&image).await.unwrap_err();
    assert!(error.chain().contains("connection refused"), "{}", error.chain());
    assert_eq!(client.traffic().retries, 1);
}

#[tokio::test]
async fn an_unknown_host_is_retried_once() {
    let client = source();
    let error = client.head(&"registry.invalid/a:v1".parse().unwrap()).await.unwrap_err();
    assert!(error.chain().contains("cannot be resolved"), "{}", error.chain());
    assert_eq!(client.traffic().retries, 1);
}

#[tokio::test]
async fn a_dead_proxy_is_named_without_its_password() {
    let address = closed_port();
    let https_proxy = Some(format!("http://me:secret@{address}"));
    let client = with_environment(Environment { https_proxy, ..nowhere() });
    let error = client.head(&"quay.io/a/b:v1".parse().unwrap()).await.unwrap_err();
    let text = error.chain();
    let named = format!("no connection through the proxy http://{address} (HTTPS_PROXY)");
    assert!(text.contains(&named) && text.contains("connection refused"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(client.traffic().retries, 1);
}

/// A port whose queue is full: further connections are neither accepted nor refused, as behind a
/// firewall that drops packets.
async fn silent_port() -> (tokio::net::TcpListener, Vec<tokio::net::TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    let connect = || tokio::net::TcpStream::connect(address);
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(300), connect()).await {
        queue.push(stream);
    }
    (listener, queue)
}

#[tokio::test]
async fn a_proxy_that_drops_packets_is_named_and_not_tried_for_each_request() {
    let (listener, _queue) = silent_port().await;
    let address = listener.local_addr().unwrap();
    let https_proxy = Some(format!("http://{address}"));
    let environment = Environment { https_proxy, ..nowhere() };
    let settings = settings(Side::Source);
    let client =
        Client::open(registry::Settings { environment, tls_verify: true, ..settings }).unwrap();
    // From here on, waiting takes no time.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    for image in ["quay.io/a/b:v1", "ghcr.io/a/b:v1"] {
        let error = client.head(&image.parse().unwrap()).await.unwrap_err();
        let text = error.chain();
        let named = format!("no connection through the proxy http://{address} (HTTPS_PROXY)");
        assert!(text.contains(&named), "{text}");
    }
    assert_eq!((client.traffic().requests, client.traffic().retries), (0, 0));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_host_that_drops_packets_is_waited_for_once() {
    let (listener, _queue) = silent_port().await;
    let timeouts = Timeouts { connect: Duration::from_millis(300), ..Timeouts::default() };
    let client = Client::open(registry::Settings { timeouts, ..settings(Side::Source) }).unwrap();
    let image: oci::ImageRef = format!("{}/a:v1", listener.local_addr().unwrap()).parse().unwrap();
    let first = client.head(&image).await.unwrap_err();
    assert!(first.chain().contains("no connection within 0.3 s"), "{}", first.chain());
    let sent = client.traffic().requests;
    let second = client.head(&image).await.unwrap_err();
    assert!(second.is_retryable() && !second.may_pass_soon(), "{second}");
    assert_eq!(client.traffic().requests, sent);
    assert_eq!(client.traffic().retries, 0);
}

#[tokio::test]
async fn a_proxy_that_requires_a_login_gets_no_second_request() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requested = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requested);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 1024]).await;
            let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
            let _ = stream.write_all(refusal).await;
        }
    });
    let https_proxy = Some(format!("http://{address}"));
    let client = with_environment(Environment { https_proxy, ..nowhere() });
    let image = "quay.io/a/b:v1".parse().unwrap();
    let error = client.head(&image).await.unwrap_err();
    assert!(error.chain().contains("the proxy requires credentials"), "{}", error.chain());
    assert!(!error.is_retryable());
    assert_eq!(client.traffic().retries, 0);
}

/// A host that has responded before gets all retries: the link may be down for a moment.
#[tokio::test]
async fn a_host_that_responded_before_is_retried_in_full() {
    let registry = lab(Settings::default());
    let (blob, _) = stored_blob(&registry, "a", 1000);
    let at = location(&registry, "a");
    let client = source();
    assert!(client.has_blob(&at, &blob.digest).await.unwrap());
    drop(registry);
    let error = client.has_blob(&at, &blob.digest).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(client.traffic().retries, 3);
    assert!(error.to_string().contains("(after 4 attempts)"), "{error}");
}

#[tokio::test]
async fn further_requests_to_a_host_that_never_responded_are_not_retried() {
    let client = source();
    let image: oci::ImageRef = format!("{}/a:v1", closed_port()).parse().unwrap();
    client.head(&image).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    client.head(&image).await.unwrap_err();
    assert_eq!(client.traffic().retries, 1);
}

#[tokio::test]
async fn a_damaged_manifest_is_requested_again() {
    let registry = lab(Settings::default());
    stored_blob(&registry, "a", 1000);
    let image = registry.image("a", "v1").unwrap();
    registry.fault(Fault::on(Method::GET, "/manifests/").times(1).does(Effect::WrongBytes));
    let client = source();
    assert!(client.manifest(&image).await.unwrap().is_some());
    assert_eq!(client.traffic().retries, 1);
    registry.fault(Fault::on(Method::GET, "/manifests/").does(Effect::WrongBytes));
    let error = client.manifest(&image).await.unwrap_err();
    assert!(matches!(error.last(), Error::Digest { .. }), "{error}");
    // Two more for the second request: a registry whose content is wrong stays wrong.
    assert_eq!(client.traffic().retries, 3);
}

#[tokio::test]
async fn an_alert_of_the_tls_layer_is_retried() {
    // A handshake that ends in `internal_error`, as from a balancer without a back end.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 80]).await;
            let _ = stream.shutdown().await;
        }
    });
    let settings = registry::Settings { tls_verify: true, ..settings(Side::Source) };
    let client = Client::open(settings).unwrap();
    let image: oci::ImageRef = format!("{address}/a:v1").parse().unwrap();
    let error = client.head(&image).await.unwrap_err();
    assert!(error.chain().contains("the TLS connection failed"), "{}", error.chain());
    assert_eq!(connections.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_permanent_error_is_not_retried() {
    let registry = lab(Settings::default());
    let (blob, _) = stored_blob(&registry, "a", 1000);
    for status in [400, 403, 405, 410, 507] {
        registry.clear_faults();
        registry.forget_requests();
        registry.fault(Fault::on(Method::GET, "/blobs/").does(Effect::status(status)));
        let error = fetch(&source(), &location(&registry, "a"), blob, 0).await.unwrap_err();
        assert_eq!(registry.requests().count(), 1, "{status}: {error}");
    }
}

/// Slow, but never silent: the whole takes longer than the limit for a stall.
#[tokio::test]
async fn a_slow_download_that_makes_progress_is_not_a_stall() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", 60_000);
    registry.fault(Fault::on(Method::GET, "/blobs/").does(Effect::SlowBytesPerSecond(60_000)));
    let timeouts = Timeouts { stall: Duration::from_millis(400), ..Timeouts::default() };
    let retry = Retry { times: 0, delay: None };
    let settings = registry::Settings { timeouts, retry, ..settings(Side::Source) };
    let client = Client::open(settings).unwrap();
    assert_eq!(fetch(&client, &location(&registry, "a"), blob, 0).await.unwrap(), content);
    assert_eq!(registry.requests().of(&Method::GET, "/blobs/").count(), 1);
}
