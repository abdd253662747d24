//! What the registry in this process does with uploads, mounts and tokens.

use http::Method;
use lab::images::{Blob, Image};
use lab::registry::{Auth, Bearer, Behaviour, Credentials, Effect, Fault, LabRegistry, Settings};
use reqwest::{Client, Response};

fn registry(behaviour: Behaviour) -> LabRegistry {
    LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap()
}

/// Starts an upload and returns where to put the content.
async fn begin(registry: &LabRegistry, query: &str) -> (Response, String) {
    let url = format!("{}/v2/a/x/blobs/uploads/{query}", registry.url());
    let response = Client::new().post(url).header("content-length", 0).send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let location = match location.starts_with('/') {
        true => format!("{}{location}", registry.url()),
        false => location,
    };
    (response, location)
}

fn finished(location: &str, blob: &Blob) -> String {
    let joint = if location.contains('?') { '&' } else { '?' };
    format!("{location}{joint}digest={}", blob.digest)
}

async fn has(registry: &LabRegistry, repository: &str, blob: &Blob) -> bool {
    let url = format!("{}/v2/{repository}/blobs/{}", registry.url(), blob.digest);
    Client::new().head(url).send().await.unwrap().status() == 200
}

#[tokio::test]
async fn an_upload_in_pieces_or_at_once_is_kept_under_its_digest_only() {
    for behaviour in [Behaviour::MODERN, Behaviour::DOCKER_2_8] {
        let registry = registry(behaviour);
        let blob = Blob::from_bytes(&b"hello"[..]);
        let (response, location) = begin(&registry, "").await;
        assert_eq!(response.status(), 202);
        let patched = Client::new().patch(&location).body("hel").send().await.unwrap();
        assert_eq!(patched.headers()["range"], "0-2");
        let put = Client::new().put(finished(&location, &blob)).body("lo").send().await.unwrap();
        assert_eq!(put.status(), 201);
        assert!(has(&registry, "a/x", &blob).await);
        assert_eq!(registry.requests().blob_puts(&blob.digest), 1);

        let other = Blob::from_bytes(&b"other"[..]);
        let (_, location) = begin(&registry, "").await;
        let put = Client::new().put(finished(&location, &other)).body("wrong").send().await;
        let put = put.unwrap();
        assert_eq!(put.status(), 400);
        assert!(put.text().await.unwrap().contains("DIGEST_INVALID"));
        assert!(!has(&registry, "a/x", &other).await);
    }
}

#[tokio::test]
async fn a_blob_is_mounted_from_a_repository_that_has_it_and_no_other() {
    let registry = registry(Behaviour::MODERN);
    let image = Image::tiny("x").unwrap();
    registry.put_image(&image, "b/x", "v1").unwrap();
    let blob = image.blobs.values().next().unwrap();
    let (refused, _) = begin(&registry, &format!("?mount={}&from=c/x", blob.digest)).await;
    assert_eq!(refused.status(), 202);
    assert!(!has(&registry, "a/x", blob).await);
    let (mounted, _) = begin(&registry, &format!("?mount={}&from=b/x", blob.digest)).await;
    assert_eq!(mounted.status(), 201);
    assert!(has(&registry, "a/x", blob).await);
    assert_eq!(registry.requests().mounts(&blob.digest), 2);
}

#[tokio::test]
async fn a_manifest_without_its_blobs_is_refused() {
    let registry = registry(Behaviour::MODERN);
    let image = Image::tiny("x").unwrap();
    let url = format!("{}/v2/a/x/manifests/v1", registry.url());
    let manifest = image.root();
    let put = Client::new()
        .put(url)
        .header("content-type", manifest.media_type.as_str())
        .body(manifest.bytes.clone())
        .send()
        .await
        .unwrap();
    assert_eq!(put.status(), 400);
    assert!(put.text().await.unwrap().contains("MANIFEST_BLOB_UNKNOWN"));
}

#[tokio::test]
async fn a_request_cut_on_its_way_in_loses_the_upload() {
    let registry = registry(Behaviour::MODERN);
    registry.fault(Fault::on(Method::PUT, "/uploads/").does(Effect::CutRequestAfter(1_000)));
    let blob = Blob::from_bytes(vec![1; 5_000_000]);
    let (_, location) = begin(&registry, "").await;
    let put = Client::new().put(finished(&location, &blob)).body(vec![1; 5_000_000]).send().await;
    assert!(put.is_err());
    assert!(!has(&registry, "a/x", &blob).await);
}

#[tokio::test]
async fn expired_tokens_are_refused_until_a_new_one_is_fetched() {
    let auth = Auth::Bearer(Bearer::new(Credentials::new("me", "secret")));
    let registry = LabRegistry::start(Settings { auth, ..Settings::default() }).unwrap();
    registry.put_image(&Image::tiny("x").unwrap(), "a/x", "v1").unwrap();
    let client = Client::new();
    let token = || async {
        let url = format!("{}/token?service=lab&scope=repository:a/x:pull", registry.url());
        let response = client.get(url).basic_auth("me", Some("secret")).send().await.unwrap();
        let text = response.text().await.unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["token"].as_str().unwrap().to_owned()
    };
    let tags = |token: String| {
        let url = format!("{}/v2/a/x/tags/list", registry.url());
        let request = client.get(url).bearer_auth(token);
        async { request.send().await.unwrap() }
    };
    let first = token().await;
    assert_eq!(tags(first.clone()).await.status(), 200);
    registry.fault(Fault::on_any("/tags/").times(1).does(Effect::ExpireTokensNow));
    let refused = tags(first).await;
    assert_eq!(refused.status(), 401);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    let realm = format!("Bearer realm=\"{}/token\"", registry.url());
    assert!(challenge.starts_with(&realm), "{challenge}");
    assert!(challenge.contains("scope=\"repository:a/x:pull\""), "{challenge}");
    assert_eq!(tags(token().await).await.status(), 200);
}
