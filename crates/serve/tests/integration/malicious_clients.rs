//! Malicious clients, and many clients at once.
use crate::fixture;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fixture::{DEADLINE, Format, Response, RunningServer, TestContent};
use oci::{Digest, Hasher};
use serve::Options;

/// For limits that must not take effect in a test.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

fn one_image(layer: &[u8]) -> TestContent {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", layer);
    content.add_image("apps/a:v1", vec![image], vec![]);
    content
}

#[test]
fn every_writing_method_is_refused_as_read_only() {
    let server = one_image(b"layer").serve();
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
        let response = server.send(&format!("{method} {path} HTTP/1.1"), &["Content-Length: 0"]);
        assert_eq!(
            (response.status, &*response.error_code()),
            (405, "UNSUPPORTED"),
            "{method} {path}"
        );
        assert_eq!(response.header("allow"), Some("GET, HEAD"));
    }
    assert_eq!(server.get("/v2/apps/a/manifests/v1").status, 200);
}

#[test]
fn a_manipulated_path_returns_no_content() {
    let content = one_image(b"layer");
    std::fs::write(content.dir.path().join("secret"), b"not for you").unwrap();
    let server = content.serve();
    let here = content.dir.path().display().to_string();
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
        let response = server.get(&path);
        assert!(matches!(response.status, 400 | 404), "{path:?}: {response:?}");
        assert!(!String::from_utf8_lossy(&response.body).contains("not for you"), "{path:?}");
    }
}

#[test]
fn oversized_requests_are_refused() {
    let server = one_image(b"layer").serve();
    let long = format!("/v2/{}", "a".repeat(200_000));
    assert!(matches!(server.get(&long).status, 414 | 431));
    let large = format!("X-Large: {}", "a".repeat(200_000));
    assert_eq!(server.send("GET /v2/ HTTP/1.1", &[&large]).status, 431);
    let many: Vec<String> = (0..500).map(|number| format!("X-{number}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(server.send("GET /v2/ HTTP/1.1", &many).status, 431);
    assert_eq!(server.get("/v2/").status, 200);
}

/// Waits for the server to close the connection, with or without a response.
fn expect_closed(mut stream: TcpStream) {
    if let Err(error) = stream.read_to_end(&mut Vec::new()) {
        let is_open = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!is_open, "the connection is still open");
    }
}

#[test]
fn a_client_that_does_not_finish_its_request_is_disconnected_and_frees_its_slot() {
    let head_timeout = Duration::from_millis(300);
    let stall_timeout = NEVER;
    let options = Options { head_timeout, stall_timeout, max_connections: 1, ..Options::default() };
    let server = one_image(b"layer").serve_with(options);
    let mut slow = server.connect();
    slow.write_all(b"GET /v2/ HTTP/1.1\r\nHost:").unwrap();
    // One slot: this request gets a response when the slow client is disconnected.
    assert_eq!(server.get("/v2/").status, 200);
    expect_closed(server.connect());
}

#[test]
fn a_client_that_stops_reading_is_cut_off() {
    let stall_timeout = Duration::from_millis(300);
    let head_timeout = NEVER;
    let options = Options { stall_timeout, head_timeout, max_connections: 1, ..Options::default() };
    // More than the system's socket buffers take.
    let layer = vec![7; 32 << 20];
    let content = one_image(&layer);
    let server = content.serve_with(options);
    let mut stalled = server.connect();
    let path = format!("/v2/apps/a/blobs/{}", Digest::of(&layer));
    write!(stalled, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(server.get("/v2/").status, 200);
    let mut received = Vec::new();
    _ = stalled.read_to_end(&mut received);
    assert!(received.len() < layer.len(), "the stalled client was served to the end");
}

fn digest_of_pull(server: &RunningServer, path: &str) -> Digest {
    let response: Response = server.get(path);
    assert_eq!(response.status, 200);
    let mut hasher = Hasher::new();
    hasher.update(&response.body);
    hasher.finish()
}

#[test]
fn many_clients_pull_the_same_and_different_blobs_at_once() {
    let mut content = TestContent::new();
    let layers: Vec<Vec<u8>> = (0..4u8)
        .map(|seed| (0..3_000_000u32).map(|at| (at % 251) as u8 ^ seed).collect())
        .collect();
    for (number, layer) in layers.iter().enumerate() {
        let image = content.image(Format::Oci, "amd64", layer);
        content.add_image(&format!("apps/a:v{number}"), vec![image], vec![]);
    }
    let digests: Vec<Digest> = layers.iter().map(|layer| Digest::of(layer)).collect();
    let options = Options { max_connections: 8, ..Options::default() };
    let server = content.serve_with(options);
    std::thread::scope(|scope| {
        for number in 0..24 {
            let (server, expected) = (&server, digests[number % digests.len()]);
            scope.spawn(move || {
                let path = format!("/v2/apps/a/blobs/{expected}");
                assert_eq!(digest_of_pull(server, &path), expected);
            });
        }
    });
}

#[test]
fn several_requests_share_a_connection() {
    let server = one_image(b"layer").serve();
    let mut stream = server.connect();
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
    let mut server = one_image(b"layer").serve_with(options);
    let mut idle = server.connect();
    write!(idle, "GET /v2/ HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut first = [0; 16];
    idle.read_exact(&mut first).unwrap();
    let (stopped, stop) = mpsc::channel();
    thread::spawn(move || {
        server.stop();
        stopped.send(()).unwrap();
    });
    stop.recv_timeout(DEADLINE).expect("an idle connection does not hold up the shutdown");
}

#[test]
fn a_shutdown_cuts_off_busy_connections_after_the_grace() {
    let layer = vec![7; 32 << 20];
    let content = one_image(&layer);
    let grace = Duration::from_millis(300);
    let mut server = content.serve_with(Options { grace, ..Options::default() });
    let mut busy = server.connect();
    let path = format!("/v2/apps/a/blobs/{}", Digest::of(&layer));
    write!(busy, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    busy.read_exact(&mut [0; 16]).unwrap();
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() >= grace, "{:?}", started.elapsed());
    let mut rest = Vec::new();
    _ = busy.read_to_end(&mut rest);
    assert!(rest.len() < layer.len(), "the client was served to the end");
}
