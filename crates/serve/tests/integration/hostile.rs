//! Clients that mean harm, and many clients at once.
use crate::stand;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use oci::{Digest, Hasher};
use serve::Options;
use stand::{Answer, DEADLINE, Format, Serving, Stock};

/// For limits that a test does not want to act.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

fn one_image(layer: &[u8]) -> Stock {
    let mut stock = Stock::new();
    let image = stock.image(Format::Oci, "amd64", layer);
    stock.place("apps/a:v1", vec![image], vec![]);
    stock
}

#[test]
fn every_writing_method_is_refused_as_read_only() {
    let serving = one_image(b"layer").serve();
    let digest = Digest::of(b"layer");
    for (method, path) in [
        ("POST", "/v2/apps/a/blobs/uploads/".to_owned()),
        ("POST", format!("/v2/apps/a/blobs/uploads/?mount={digest}&from=apps/b")),
        ("PUT", "/v2/apps/a/manifests/v1".into()),
        ("PATCH", "/v2/apps/a/blobs/uploads/1".into()),
        ("DELETE", "/v2/apps/a/manifests/v1".into()),
        ("DELETE", format!("/v2/apps/a/blobs/{digest}")),
        ("OPTIONS", "/v2/".into()),
        ("BREW", "/v2/".into()),
    ] {
        let answer = serving.ask(&format!("{method} {path} HTTP/1.1"), &["Content-Length: 0"]);
        assert_eq!((answer.status, &*answer.error_code()), (405, "UNSUPPORTED"), "{method} {path}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
    assert_eq!(serving.get("/v2/apps/a/manifests/v1").status, 200);
}

#[test]
fn path_tricks_get_nothing() {
    let stock = one_image(b"layer");
    std::fs::write(stock.dir.path().join("secret"), b"not for you").unwrap();
    let serving = stock.serve();
    let here = stock.dir.path().display().to_string();
    for path in [
        "/v2/../../../../etc/passwd".to_owned(),
        "/v2/apps/a/blobs/../secret".into(),
        "/v2/apps/a/blobs/..%2fsecret".into(),
        "/v2/apps/a/blobs/sha256:../secret".into(),
        "/v2/apps/a/blobs/secret".into(),
        "/v2/apps/a/manifests/%2e%2e%2fsecret".into(),
        "/v2/apps%2fa/manifests/v1".into(),
        "/v2/apps//a/manifests/v1".into(),
        "/v2//apps/a/manifests/v1".into(),
        "//v2/apps/a/manifests/v1".into(),
        "/v2/apps/./a/manifests/v1".into(),
        "/v2/apps/x/../a/manifests/v1".into(),
        "/v2/apps/a/manifests/v1/".into(),
        "/v2/apps/a/manifests/v1%00".into(),
        "/v2/apps/a/manifests/v1\0".into(),
        "/v2/APPS/a/manifests/v1".into(),
        format!("/v2/{here}/secret/manifests/v1"),
        format!("{here}/secret"),
        format!("file://{here}/secret"),
        format!("/v2/{}/manifests/v1", "a".repeat(300)),
        format!("/v2/apps/a/manifests/{}", "v".repeat(5000)),
        "*".into(),
        "no-slash".into(),
    ] {
        let answer = serving.get(&path);
        assert!(matches!(answer.status, 400 | 404), "{path:?}: {answer:?}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("not for you"), "{path:?}");
    }
}

#[test]
fn oversized_requests_are_refused() {
    let serving = one_image(b"layer").serve();
    let long = format!("/v2/{}", "a".repeat(200_000));
    assert!(matches!(serving.get(&long).status, 414 | 431));
    let large = format!("X-Large: {}", "a".repeat(200_000));
    assert_eq!(serving.ask("GET /v2/ HTTP/1.1", &[&large]).status, 431);
    let many: Vec<String> = (0..500).map(|number| format!("X-{number}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(serving.ask("GET /v2/ HTTP/1.1", &many).status, 431);
    assert_eq!(serving.get("/v2/").status, 200);
}

/// Waits for the server to close the connection, with or without an answer.
fn expect_closed(mut stream: TcpStream) {
    if let Err(error) = stream.read_to_end(&mut Vec::new()) {
        let is_open = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!is_open, "the connection is still open");
    }
}

#[test]
fn a_client_that_does_not_finish_its_request_is_cut_off_and_gives_its_place_back() {
    let head_timeout = Duration::from_millis(300);
    let stall_timeout = NEVER;
    let options = Options { head_timeout, stall_timeout, max_connections: 1, ..Options::default() };
    let serving = one_image(b"layer").serve_with(options);
    let mut slow = serving.connect();
    slow.write_all(b"GET /v2/ HTTP/1.1\r\nHost:").unwrap();
    // Only one place: this one is answered when the slow client is gone.
    assert_eq!(serving.get("/v2/").status, 200);
    expect_closed(serving.connect());
}

#[test]
fn a_client_that_stops_reading_is_cut_off() {
    let stall_timeout = Duration::from_millis(300);
    let head_timeout = NEVER;
    let options = Options { stall_timeout, head_timeout, max_connections: 1, ..Options::default() };
    // More than the system's socket buffers take.
    let layer = vec![7; 32 << 20];
    let stock = one_image(&layer);
    let serving = stock.serve_with(options);
    let mut stalled = serving.connect();
    let path = format!("/v2/apps/a/blobs/{}", Digest::of(&layer));
    write!(stalled, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(serving.get("/v2/").status, 200);
    let mut received = Vec::new();
    _ = stalled.read_to_end(&mut received);
    assert!(received.len() < layer.len(), "the stalled client was served to the end");
}

fn digest_of_pull(serving: &Serving, path: &str) -> Digest {
    let answer: Answer = serving.get(path);
    assert_eq!(answer.status, 200);
    let mut hasher = Hasher::new();
    hasher.update(&answer.body);
    hasher.finish()
}

#[test]
fn many_clients_pull_the_same_and_different_blobs_at_once() {
    let mut stock = Stock::new();
    let layers: Vec<Vec<u8>> = (0..4u8)
        .map(|seed| (0..3_000_000u32).map(|at| (at % 251) as u8 ^ seed).collect())
        .collect();
    for (number, layer) in layers.iter().enumerate() {
        let image = stock.image(Format::Oci, "amd64", layer);
        stock.place(&format!("apps/a:v{number}"), vec![image], vec![]);
    }
    let digests: Vec<Digest> = layers.iter().map(|layer| Digest::of(layer)).collect();
    let options = Options { max_connections: 8, ..Options::default() };
    let serving = stock.serve_with(options);
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (serving, wanted) = (&serving, digests[number % digests.len()]);
            scope.spawn(move || {
                let path = format!("/v2/apps/a/blobs/{wanted}");
                assert_eq!(digest_of_pull(serving, &path), wanted);
            });
        }
    });
}

#[test]
fn several_requests_share_a_connection() {
    let serving = one_image(b"layer").serve();
    let mut stream = serving.connect();
    let blob = format!("/v2/apps/a/blobs/{}", Digest::of(b"layer"));
    for last in [false, false, true] {
        let close = if last { "Connection: close\r\n" } else { "" };
        write!(stream, "GET {blob} HTTP/1.1\r\nHost: x\r\n{close}\r\n").unwrap();
    }
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(String::from_utf8_lossy(&all).matches("\r\n\r\nlayer").count(), 3);
}

#[test]
fn a_shutdown_does_not_wait_for_idle_connections() {
    let options = Options { grace: NEVER, ..Options::default() };
    let mut serving = one_image(b"layer").serve_with(options);
    let mut idle = serving.connect();
    write!(idle, "GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut first = [0; 16];
    idle.read_exact(&mut first).unwrap();
    let (stopped, stop) = mpsc::channel();
    thread::spawn(move || {
        serving.stop();
        stopped.send(()).unwrap();
    });
    stop.recv_timeout(DEADLINE).expect("an idle connection does not hold up the shutdown");
}

#[test]
fn a_shutdown_cuts_off_busy_connections_after_the_grace() {
    let layer = vec![7; 32 << 20];
    let stock = one_image(&layer);
    let grace = Duration::from_millis(300);
    let mut serving = stock.serve_with(Options { grace, ..Options::default() });
    let mut busy = serving.connect();
    let path = format!("/v2/apps/a/blobs/{}", Digest::of(&layer));
    write!(busy, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    busy.read_exact(&mut [0; 16]).unwrap();
    let started = Instant::now();
    serving.stop();
    assert!(started.elapsed() >= grace, "{:?}", started.elapsed());
    let mut rest = Vec::new();
    _ = busy.read_to_end(&mut rest);
    assert!(rest.len() < layer.len(), "the client was served to the end");
}
