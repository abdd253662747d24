//! The registry in this process, checked with skopeo and a plain HTTP client.

use crate::skopeo;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use lab::certificates::{Authority, ClientCertificates};
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{Auth, Bearer, Behaviour, Credentials, Effect, Fault, LabRegistry, Settings};
use reqwest::{Client, Response};
use skopeo::{skopeo, skopeo_fails};

fn registry() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

fn two_platforms(format: Format) -> Image {
    let base = Layer::generate("base", 300_000, Compression::Gzip).unwrap();
    let images = ["linux/amd64", "linux/arm64"].map(|platform| {
        let top = Layer::generate(platform, 2_000, Compression::Gzip).unwrap();
        Image::new(format, platform.parse().unwrap(), &[base.clone(), top]).unwrap()
    });
    Image::list(format, images).unwrap()
}

/// Copies between two places with skopeo, over plain HTTP, all platforms.
fn copy(from: &str, to: &str) {
    skopeo(&[
        "copy",
        "-q",
        "--all",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        from,
        to,
    ]);
}

fn raw(registry: &LabRegistry, name: &str) -> String {
    let image = format!("docker://{}/{name}", registry.address());
    skopeo(&["inspect", "--raw", "--tls-verify=false", &image])
}

#[test]
fn skopeo_copies_images_of_both_formats_through_the_registry_unchanged() {
    for (format, behaviour) in [
        (Format::Docker, Behaviour::MODERN),
        (Format::Oci, Behaviour::MODERN),
        (Format::Docker, Behaviour::DOCKER_2_8),
        (Format::Oci, Behaviour::DOCKER_2_8),
    ] {
        let image = two_platforms(format);
        let from = LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap();
        let to = LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap();
        from.put_image(&image, "org/app", "v1").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let disk = format!("dir:{}", dir.path().display());
        copy(&format!("docker://{}/org/app:v1", from.address()), &disk);
        copy(&disk, &format!("docker://{}/mirror/app:v1", to.address()));
        assert_eq!(raw(&to, "mirror/app:v1").as_bytes(), image.root().bytes, "{format:?}");
        for manifest in &image.manifests {
            let name = format!("mirror/app@{}", manifest.digest);
            assert_eq!(raw(&to, &name).as_bytes(), manifest.bytes);
        }
    }
}

#[test]
fn skopeo_understands_zstd_and_plain_layers_and_files_as_storage() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { directory: Some(dir.path().into()), ..Settings::default() };
    let registry = LabRegistry::start(settings).unwrap();
    let layers =
        [Compression::Zstd, Compression::None].map(|c| Layer::generate("z", 500_000, c).unwrap());
    let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &layers).unwrap();
    registry.put_image(&image, "org/z", "v1").unwrap();
    let out = tempfile::tempdir().unwrap();
    let layout = format!("oci:{}:v1", out.path().display());
    copy(&format!("docker://{}/org/z:v1", registry.address()), &layout);
    for digest in image.blobs.keys() {
        let file = out.path().join("blobs/sha256").join(digest.hex());
        assert_eq!(oci::Digest::of(&std::fs::read(file).unwrap()), *digest);
        assert_eq!(registry.requests().blob_gets(digest), 1);
    }
}

#[test]
fn skopeo_logs_in_with_basic_credentials_and_with_tokens() {
    let credentials = Credentials::new("me", "secret");
    for auth in [Auth::Basic(credentials.clone()), Auth::Bearer(Bearer::new(credentials))] {
        let registry = LabRegistry::start(Settings { auth, ..Settings::default() }).unwrap();
        registry.put_image(&Image::tiny("x").unwrap(), "a/x", "v1").unwrap();
        let image = format!("docker://{}/a/x:v1", registry.address());
        let other = format!("docker://{}/a/y:v1", registry.address());
        let open = ["--src-tls-verify=false", "--dest-tls-verify=false"];
        let refusal = skopeo_fails(&["inspect", "--tls-verify=false", &image]);
        assert!(
            refusal.contains("authentication required") || refusal.contains("unauthorized"),
            "{refusal}"
        );
        skopeo(&[
            "copy",
            "-q",
            open[0],
            open[1],
            "--src-creds=me:secret",
            "--dest-creds=me:secret",
            &image,
            &other,
        ]);
    }
}

#[test]
fn tls_works_for_clients_that_trust_the_authority_and_present_a_requested_certificate() {
    let authority = Arc::new(Authority::generate().unwrap());
    let with = |client_certificates| {
        let settings =
            Settings { tls: Some(authority.clone()), client_certificates, ..Settings::default() };
        let registry = LabRegistry::start(settings).unwrap();
        registry.put_image(&Image::tiny("x").unwrap(), "a/x", "v1").unwrap();
        registry
    };
    let dir = tempfile::tempdir().unwrap();
    let trusting = dir.path().join("trusting");
    authority.write_certs_dir(&trusting, None).unwrap();
    let known = dir.path().join("known");
    authority.write_certs_dir(&known, Some(&authority.client("me").unwrap())).unwrap();
    let cert_dir = |dir: &std::path::Path| format!("--cert-dir={}", dir.display());

    let open = with(ClientCertificates::Ignored);
    let image = format!("docker://{}/a/x:v1", open.address());
    skopeo(&["inspect", &cert_dir(&trusting), &image]);
    assert!(skopeo_fails(&["inspect", &image]).contains("x509"));

    let closed = with(ClientCertificates::Required);
    let image = format!("docker://{}/a/x:v1", closed.address());
    skopeo(&["inspect", &cert_dir(&known), &image]);
    skopeo_fails(&["inspect", &cert_dir(&trusting), &image]);
}

#[test]
fn tags_come_in_pages_where_the_registry_pages_them() {
    let registry = registry();
    let image = Image::tiny("x").unwrap();
    for tag in ["v1", "v2", "v3"] {
        registry.put_image(&image, "a/x", tag).unwrap();
    }
    let listed = skopeo(&[
        "list-tags",
        "--tls-verify=false",
        &format!("docker://{}/a/x", registry.address()),
    ]);
    assert!(["v1", "v2", "v3"].iter().all(|tag| listed.contains(tag)), "{listed}");
    let page = block_on(get(&registry, "/v2/a/x/tags/list?n=2"));
    assert_eq!(page.headers()["link"], r#"</v2/a/x/tags/list?n=2&last=v2>; rel="next""#);
    let last = block_on(async {
        get(&registry, "/v2/a/x/tags/list?n=2&last=v2").await.text().await.unwrap()
    });
    assert_eq!(last, r#"{"name":"a/x","tags":["v3"]}"#);
}

#[test]
fn sparse_lists_are_taken_or_refused() {
    let list = two_platforms(Format::Oci);
    for (behaviour, status) in [(Behaviour::MODERN, 201), (Behaviour::DOCKER_2_8, 400)] {
        let registry = LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap();
        let response = block_on(async {
            Client::new()
                .put(format!("{}/v2/a/x/manifests/v1", registry.url()))
                .header("content-type", list.root().media_type.as_str())
                .body(list.root().bytes.clone())
                .send()
                .await
                .unwrap()
        });
        assert_eq!(response.status(), status);
        let text = block_on(response.text()).unwrap();
        assert_eq!(text.contains("MANIFEST_BLOB_UNKNOWN"), status == 400, "{text}");
    }
}

#[test]
fn referrers_are_listed_where_the_registry_has_that_api() {
    let image = Image::tiny("x").unwrap().with_referrer("application/x", b"hello").unwrap();
    let path = format!("/v2/a/x/referrers/{}", image.digest());
    for (behaviour, status) in [(Behaviour::MODERN, 200), (Behaviour::DOCKER_2_8, 404)] {
        let registry = LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap();
        registry.put_image(&image, "a/x", "v1").unwrap();
        let response = block_on(get(&registry, &path));
        assert_eq!(response.status(), status);
        let text = block_on(response.text()).unwrap();
        let listed = text.contains(&image.referrers().next().unwrap().digest.to_string());
        assert_eq!(listed, status == 200, "{text}");
    }
}

mod faults {
    use super::*;

    /// A registry with one blob of 300 kB, the blob's path and its bytes.
    fn with_blob() -> (LabRegistry, String, Vec<u8>) {
        let registry = registry();
        let layer = Layer::generate("blob", 300_000, Compression::None).unwrap();
        let image =
            Image::new(Format::Oci, "linux/amd64".parse().unwrap(), std::slice::from_ref(&layer));
        registry.put_image(&image.unwrap(), "a/x", "v1").unwrap();
        let path = format!("/v2/a/x/blobs/{}", layer.blob.digest);
        (registry, path, layer.blob.bytes().unwrap().to_vec())
    }

    fn on_blobs(effect: Effect) -> Fault {
        Fault::on(Method::GET, "/blobs/").times(1).does(effect)
    }

    /// What arrives of a body, and whether it ended well.
    async fn body(mut response: Response) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => return (bytes, true),
                Err(_) => return (bytes, false),
            }
        }
    }

    #[tokio::test]
    async fn a_truncated_response_announces_the_full_length_and_ends_early_once() {
        let (registry, path, content) = with_blob();
        registry.fault(on_blobs(Effect::CutAfter(1_000)));
        let response = get(&registry, &path).await;
        assert_eq!(response.content_length(), Some(content.len() as u64));
        assert_eq!(body(response).await, (content[..1_000].to_vec(), false));
        assert_eq!(registry.requests().0[0].sent, 1_000);
        assert_eq!(body(get(&registry, &path).await).await, (content, true));
    }

    #[tokio::test]
    async fn wrong_and_extra_bytes_arrive_as_if_nothing_were() {
        let (registry, path, content) = with_blob();
        registry.fault(on_blobs(Effect::WrongBytes));
        let (wrong, whole) = body(get(&registry, &path).await).await;
        assert!(whole && wrong.len() == content.len() && wrong != content);
        registry.fault(on_blobs(Effect::ExtraBytes(7)));
        let (long, whole) = body(get(&registry, &path).await).await;
        assert!(whole && long.len() == content.len() + 7 && long.starts_with(&content));
    }

    #[tokio::test]
    async fn refusals_carry_their_headers_and_redirects_their_path() {
        let (registry, path, _) = with_blob();
        registry.fault(on_blobs(Effect::too_many_requests(3)));
        let response = get(&registry, &path).await;
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "3");

        let (other, ..) = with_blob();
        registry.fault(on_blobs(Effect::RedirectTo(other.url().into())));
        assert_eq!(get(&registry, &path).await.status(), 200);
        let there = other.requests();
        assert_eq!(there.count(), 1);
        assert!(!there.0[0].had_authorization());
    }

    #[tokio::test]
    async fn a_dropped_connection_has_no_response_and_is_logged_without_status() {
        let (registry, path, _) = with_blob();
        registry.fault(Fault::on_any("/blobs/").times(1).does(Effect::DropConnection));
        let url = format!("{}{path}", registry.url());
        assert!(Client::new().get(&url).send().await.is_err());
        assert_eq!(registry.requests().0[0].status, 0);
    }

    #[tokio::test]
    async fn headers_lie_on_demand() {
        let (registry, path, content) = with_blob();
        registry.fault(on_blobs(Effect::WrongDigestHeader));
        registry.fault(on_blobs(Effect::WrongContentType("text/html".into())));
        let response = get(&registry, &path).await;
        let claimed = response.headers()["docker-content-digest"].to_str().unwrap().to_owned();
        assert!(claimed.parse::<oci::Digest>().unwrap() != oci::Digest::of(&content));
        assert_eq!(response.headers()["content-type"], "text/html");
    }

    #[tokio::test]
    async fn ranges_are_served_in_part_or_ignored() {
        let (registry, path, content) = with_blob();
        let fetch = || async {
            let url = format!("{}{path}", registry.url());
            Client::new().get(url).header("range", "bytes=1000-").send().await.unwrap()
        };
        let part = fetch().await;
        assert_eq!(part.status(), 206);
        let total = content.len();
        assert_eq!(
            part.headers()["content-range"],
            format!("bytes 1000-{}/{total}", total - 1).as_str()
        );
        assert_eq!(body(part).await, (content[1_000..].to_vec(), true));
        registry.fault(on_blobs(Effect::IgnoreRange));
        let whole = fetch().await;
        assert_eq!(whole.status(), 200);
        assert_eq!(body(whole).await, (content, true));
    }

    #[tokio::test]
    async fn delays_slow_bodies_and_stalls_take_their_time() {
        let (registry, path, content) = with_blob();
        let began = Instant::now();
        registry.fault(on_blobs(Effect::Delay(Duration::from_millis(150))));
        body(get(&registry, &path).await).await;
        assert!(began.elapsed() >= Duration::from_millis(150));

        let began = Instant::now();
        registry.fault(on_blobs(Effect::SlowBytesPerSecond(1_000_000)));
        assert_eq!(body(get(&registry, &path).await).await, (content.clone(), true));
        assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());

        registry.fault(on_blobs(Effect::StallAfter(10)));
        let mut response = get(&registry, &path).await;
        assert_eq!(response.chunk().await.unwrap().unwrap(), content[..10]);
        let more = tokio::time::timeout(Duration::from_millis(200), response.chunk()).await;
        assert!(more.is_err(), "expected nothing more");
    }

    #[tokio::test]
    async fn concurrency_is_seen() {
        let (registry, path, _) = with_blob();
        let slow = Effect::Delay(Duration::from_millis(100));
        registry.fault(Fault::on(Method::GET, "/blobs/").does(slow));
        let fetch = || async { body(get(&registry, &path).await).await };
        futures_util::future::join_all((0..5).map(|_| fetch())).await;
        assert_eq!(registry.most_concurrent(), 5);
    }
}

async fn get(registry: &LabRegistry, path: &str) -> Response {
    Client::new().get(format!("{}{path}", registry.url())).send().await.unwrap()
}

fn block_on<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(task)
}
