//! Single responses that no correct registry sends, and some that only few send.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use registry::{Client, CredentialSource, Environment, Error, Location, Side};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{fetch, settings, source};

/// A server that responds to each request by a function of its head, and closes.
struct Odd {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Odd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Odd {
    async fn start(respond: impl Fn(&str, SocketAddr) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(request) = read_request(&mut stream).await else { continue };
                let text = respond(&request, address);
                seen.lock().unwrap().push(request);
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { address, heads, task }
    }

    fn at(&self) -> Location {
        Location::from(&self.image())
    }

    fn image(&self) -> oci::ImageRef {
        format!("{}/a:v1", self.address).parse().unwrap()
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Head and body. `None` for what is not HTTP: a client that tries TLS first.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&buffer[..read]);
        let request = std::str::from_utf8(&text).ok()?.to_owned();
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(request);
        }
    }
}

fn respond(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn authorization(head: &str) -> Option<String> {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
    line.map(str::to_owned)
}

#[tokio::test]
async fn a_manifest_without_end_is_not_read_to_its_end() {
    let odd = Odd::start(|_, _| {
        let body = "x".repeat(5 << 20);
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}")
    })
    .await;
    let error = source().manifest(&odd.image()).await.unwrap_err();
    assert!(matches!(error, Error::Large { .. }), "{error}");
    assert_eq!(odd.heads().len(), 1);
}

#[tokio::test]
async fn a_head_without_digest_is_followed_by_a_get() {
    let manifest = oci::referrers_index(vec![]);
    let body = String::from_utf8(manifest.bytes.clone()).unwrap();
    let odd = Odd::start(move |head, _| match head.starts_with("HEAD") {
        true => "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\n".into(),
        false => {
            respond("200 OK", "content-type: application/vnd.oci.image.index.v1+json\r\n", &body)
        }
    })
    .await;
    let found = source().head(&odd.image()).await.unwrap().unwrap();
    assert_eq!(found.digest, manifest.digest);
    assert_eq!(odd.heads().len(), 2);
}

#[tokio::test]
async fn more_bytes_than_expected_are_an_error_even_without_a_content_length() {
    let odd = Odd::start(|_, _| {
        "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n".into()
    })
    .await;
    let digest = oci::Digest::of(b"abcde");
    let client = source();
    for (size, fine) in [(6, true), (5, false), (3, false)] {
        let actual = fetch(&client, &odd.at(), registry::Blob { digest, size }, 0).await;
        assert_eq!(actual.is_ok(), fine, "{size}: {actual:?}");
    }
    assert_eq!(client.traffic().retries, 0);
    let error = fetch(&client, &odd.at(), registry::Blob { digest, size: 7 }, 0).await.unwrap_err();
    assert!(matches!(error.last(), Error::Length { wanted: 7, .. }), "{error}");
}

#[tokio::test]
async fn an_upload_that_is_sent_elsewhere_does_not_take_the_credentials_along() {
    let storage = Odd::start(|_, _| respond("201 Created", "", "")).await;
    let elsewhere = storage.address;
    let odd = Odd::start(move |head, _| {
        if authorization(head).is_none() {
            return respond("401 Unauthorized", "www-authenticate: Basic realm=\"x\"\r\n", "");
        }
        let location = format!("location: http://{elsewhere}/put?signature=1\r\n");
        respond("202 Accepted", &location, "")
    })
    .await;
    let client = crate::with_user(Side::Destination, "me", "secret");
    let content = bytes::Bytes::from_static(b"content");
    crate::upload(&client, &odd.at(), &content, None).await.unwrap();
    let put = storage.heads().pop().unwrap();
    let digest = oci::Digest::of(&content).hex();
    assert!(put.starts_with(&format!("PUT /put?signature=1&digest=sha256%3A{digest} ")), "{put}");
    assert!(put.ends_with("\r\n\r\ncontent"), "{put}");
    assert_eq!(authorization(&put), None);
}

#[tokio::test]
async fn an_identity_token_is_exchanged_and_a_service_may_call_it_access_token() {
    let odd = Odd::start(|head, address| {
        if head.starts_with("POST /token") {
            return respond("200 OK", "", r#"{"access_token":"granted","expires_in":300}"#);
        }
        match authorization(head).is_some_and(|line| line.ends_with("Bearer granted")) {
            true => respond("404 Not Found", "", ""),
            false => {
                let wants = format!(
                    "www-authenticate: Bearer realm=\"http://{address}/token\",service=\"svc\"\r\n"
                );
                respond("401 Unauthorized", &wants, "")
            }
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.json");
    let login = r#"{"identitytoken":"refresh-me"}"#;
    std::fs::write(&file, format!(r#"{{"auths":{{"{}":{login}}}}}"#, odd.address)).unwrap();
    let credentials = CredentialSource::File(file);
    let client =
        Client::open(registry::Settings { credentials, ..settings(Side::Source) }).unwrap();
    assert_eq!(client.manifest(&odd.image()).await.unwrap(), None);
    let heads = odd.heads();
    let token = heads.iter().find(|head| head.starts_with("POST /token")).unwrap();
    assert!(token.contains("refresh_token=refresh-me") && token.contains("service=svc"), "{token}");
    assert_eq!(authorization(token), None);
}

#[tokio::test]
async fn a_page_for_every_path_is_not_a_referrers_api() {
    let odd = Odd::start(|_, _| respond("200 OK", "content-type: text/html\r\n", "<html>")).await;
    let client = source();
    let digest = oci::Digest::of(b"");
    for _ in 0..2 {
        assert_eq!(client.referrers(&odd.at(), &digest).await.unwrap(), None);
    }
    assert_eq!(odd.heads().len(), 1);
}

#[tokio::test]
async fn a_page_link_to_another_host_is_not_followed() {
    let odd = Odd::start(|_, _| {
        let link = "link: <http://127.0.0.1:1/v2/a/tags/list?last=v1>; rel=\"next\"\r\n";
        respond("200 OK", link, r#"{"name":"a","tags":["v1","not a tag"]}"#)
    })
    .await;
    let tags = source().tags(&odd.at(), std::num::NonZeroUsize::MAX).await.unwrap();
    assert_eq!(tags.tags, ["v1".parse().unwrap()]);
    assert_eq!(odd.heads().len(), 1);
}

#[tokio::test]
async fn a_list_of_referrers_that_never_ends_is_an_error() {
    let odd = Odd::start(|_, _| {
        let headers = "link: </v2/a/referrers/x?again>; rel=\"next\"\r\ncontent-type: application/vnd.oci.image.index.v1+json\r\n";
        respond("200 OK", headers, r#"{"manifests":[]}"#)
    })
    .await;
    let error = source().referrers(&odd.at(), &oci::Digest::of(b"")).await.unwrap_err();
    assert!(error.to_string().contains("does not end"), "{error}");
    assert_eq!(odd.heads().len(), 100);
}

#[tokio::test]
async fn proxies_of_the_environment_are_used_but_for_the_exceptions() {
    let proxy = Odd::start(|_, _| respond("404 Not Found", "", "")).await;
    let open = |no_proxy: &str| {
        let environment = Environment {
            http_proxy: Some(format!("http://{}", proxy.address)),
            no_proxy: Some(no_proxy.into()),
            ..crate::nowhere()
        };
        Client::open(registry::Settings { environment, ..settings(Side::Source) }).unwrap()
    };
    let image: oci::ImageRef = "registry.invalid:5000/a:v1".parse().unwrap();
    assert_eq!(open("").head(&image).await.unwrap(), None);
    let head = proxy.heads().pop().unwrap();
    assert!(head.starts_with("HEAD http://registry.invalid:5000/v2/a/manifests/v1 "), "{head}");
    for exception in ["invalid", "*.invalid", "registry.invalid:5000"] {
        assert!(open(exception).head(&image).await.is_err(), "{exception}");
    }
    let local: oci::ImageRef = "127.0.0.1:1/a:v1".parse().unwrap();
    assert!(open("").head(&local).await.is_err());
    assert_eq!(proxy.heads().len(), 1);
}
