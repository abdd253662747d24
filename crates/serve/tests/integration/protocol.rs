//! The registry's responses, byte for byte, over plain connections.
use crate::fixture;

use std::fs;

use fixture::{Format, TestContent};
use oci::{Digest, MediaType, RawManifest, Tag, referrers_index};
use serde_json::json;
use serve::Warning;

const LAYER: &[u8] = b"0123456789";

/// `apps/a:v1` and `apps/b:v1`, with one layer each.
fn two_images() -> TestContent {
    let mut content = TestContent::new();
    let a = content.image(Format::Oci, "amd64", LAYER);
    let b = content.image(Format::Docker, "amd64", b"other layer");
    content.add_image("apps/a:v1", vec![a], vec![]);
    content.add_image("apps/b:v1", vec![b], vec![]);
    content
}

#[test]
fn the_version_check_returns_registry_2() {
    let server = two_images().serve();
    for path in ["/v2", "/v2/"] {
        let response = server.get(path);
        assert_eq!(response.status, 200);
        assert_eq!(response.header("docker-distribution-api-version"), Some("registry/2.0"));
    }
}

#[test]
fn a_manifest_is_raw_whatever_the_client_accepts() {
    let content = two_images();
    let server = content.serve();
    let node = content.images[1].record.tree.root();
    let bytes = fs::read(content.path(node.digest)).unwrap();
    for reference in ["v1".to_owned(), node.digest.to_string()] {
        let line = format!("GET /v2/apps/b/manifests/{reference} HTTP/1.1");
        for accept in ["Accept: */*", "Accept: application/vnd.oci.image.index.v1+json"] {
            let response = server.send(&line, &[accept]);
            assert_eq!((response.status, &response.body), (200, &bytes));
            assert_eq!(response.header("content-type"), Some(MediaType::DOCKER_MANIFEST));
            let digest = node.digest.to_string();
            assert_eq!(response.header("docker-content-digest"), Some(&*digest));
            assert_eq!(response.header("etag"), Some(&*format!("\"{digest}\"")));
        }
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let content = two_images();
    let server = content.serve();
    let manifest = content.images[0].record.tree.root().digest;
    let blob = Digest::of(LAYER);
    for path in
        ["/v2/", "/v2/_catalog", "/v2/apps/a/tags/list"].map(str::to_owned).into_iter().chain([
            format!("/v2/apps/a/manifests/{manifest}"),
            format!("/v2/apps/a/blobs/{blob}"),
            format!("/v2/apps/a/referrers/{manifest}"),
            "/v2/apps/a/manifests/none".into(),
        ])
    {
        let get = server.get(&path);
        let head = server.send(&format!("HEAD {path} HTTP/1.1"), &[]);
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        for name in ["content-length", "content-type", "docker-content-digest", "etag"] {
            assert_eq!(head.header(name), get.header(name), "{path} {name}");
        }
        assert_eq!(get.header("content-length"), Some(&*get.body.len().to_string()), "{path}");
    }
}

#[test]
fn what_is_known_to_the_client_is_not_sent_again() {
    let content = two_images();
    let server = content.serve();
    let manifest = content.images[0].record.tree.root().digest;
    for (path, digest) in [
        ("/v2/apps/a/manifests/v1".to_owned(), manifest),
        (format!("/v2/apps/a/blobs/{}", Digest::of(LAYER)), Digest::of(LAYER)),
    ] {
        let line = format!("GET {path} HTTP/1.1");
        let known = format!("If-None-Match: \"other\", \"{digest}\"");
        assert_eq!(server.send(&line, &[&known]).status, 304);
        assert_eq!(server.send(&line, &["If-None-Match: \"other\""]).status, 200);
    }
}

#[test]
fn ranges_give_the_requested_bytes() {
    let server = two_images().serve();
    let digest = Digest::of(LAYER);
    let line = format!("GET /v2/apps/a/blobs/{digest} HTTP/1.1");
    for (range, body, content_range) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-99", "0123456789", "bytes 0-9/10"),
    ] {
        let response = server.send(&line, &[&format!("Range: {range}")]);
        assert_eq!((response.status, &*response.body), (206, body.as_bytes()), "{range}");
        assert_eq!(response.header("content-range"), Some(content_range));
        assert_eq!(response.header("content-length"), Some(&*body.len().to_string()));
    }
    let behind = server.send(&line, &["Range: bytes=10-"]);
    assert_eq!(behind.status, 416);
    assert_eq!(behind.header("content-range"), Some("bytes */10"));
    let same = format!("If-Range: \"{digest}\"");
    assert_eq!(server.send(&line, &["Range: bytes=1-1", &same]).body, b"1");
    assert_eq!(server.send(&line, &["Range: bytes=1-1", "If-Range: \"x\""]).body, LAYER);
    let head = server.send(&line.replace("GET", "HEAD"), &["Range: bytes=1-1"]);
    assert_eq!((head.status, head.header("content-length")), (200, Some("10")));
}

#[test]
fn a_blob_is_given_out_only_through_a_repository_that_has_it() {
    let content = two_images();
    let server = content.serve();
    let blob = Digest::of(LAYER);
    assert_eq!(server.get(&format!("/v2/apps/a/blobs/{blob}")).status, 200);
    let elsewhere = server.get(&format!("/v2/apps/b/blobs/{blob}"));
    assert_eq!((elsewhere.status, elsewhere.error_code()), (404, "BLOB_UNKNOWN".into()));
    let manifest = content.images[0].record.tree.root().digest;
    let elsewhere = server.get(&format!("/v2/apps/b/manifests/{manifest}"));
    assert_eq!((elsewhere.status, elsewhere.error_code()), (404, "MANIFEST_UNKNOWN".into()));
}

#[test]
fn what_is_not_there_is_named_in_the_error() {
    let server = two_images().serve();
    let digest = Digest::of(b"nothing");
    for (path, status, code) in [
        ("/v2/apps/c/tags/list".to_owned(), 404, "NAME_UNKNOWN"),
        ("/v2/apps/c/manifests/v1".into(), 404, "NAME_UNKNOWN"),
        (format!("/v2/apps/c/blobs/{digest}"), 404, "NAME_UNKNOWN"),
        ("/v2/apps/a/manifests/v2".into(), 404, "MANIFEST_UNKNOWN"),
        (format!("/v2/apps/a/manifests/{digest}"), 404, "MANIFEST_UNKNOWN"),
        (format!("/v2/apps/a/blobs/{digest}"), 404, "BLOB_UNKNOWN"),
        ("/v2/_catalog?n=x".into(), 400, "PAGINATION_NUMBER_INVALID"),
    ] {
        let response = server.get(&path);
        assert_eq!((response.status, &*response.error_code()), (status, code), "{path}");
    }
}

#[test]
fn following_the_links_returns_every_tag_and_repository_once() {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", LAYER);
    for number in 0..7 {
        content.add_image(&format!("apps/a:v{number}"), vec![image.clone()], vec![]);
        content.add_image(&format!("other/r{number}:v1"), vec![image.clone()], vec![]);
    }
    let server = content.serve();
    let follow = |start: &str, key: &str| {
        let (mut path, mut found) = (start.to_owned(), Vec::<String>::new());
        loop {
            let response = server.get(&path);
            let page = response.json()[key].clone();
            let page: Vec<String> = serde_json::from_value(page).unwrap();
            assert!(page.len() <= 3, "{page:?}");
            found.extend(page);
            let Some(link) = response.header("link") else { return found };
            let link = link.strip_prefix('<').unwrap().strip_suffix(">; rel=\"next\"").unwrap();
            path = link.to_owned();
        }
    };
    let tags: Vec<String> = (0..7).map(|number| format!("v{number}")).collect();
    assert_eq!(follow("/v2/apps/a/tags/list?n=3", "tags"), tags);
    let repositories: Vec<String> = std::iter::once("apps/a".to_owned())
        .chain((0..7).map(|number| format!("other/r{number}")))
        .collect();
    assert_eq!(follow("/v2/_catalog?n=3", "repositories"), repositories);
    assert_eq!(server.get("/v2/apps/a/tags/list").json(), json!({"name": "apps/a", "tags": tags}));
}

#[test]
fn referrers_are_listed_filtered_and_found_by_the_fallback_tag() {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", LAYER);
    let sbom = content.referrer(&image, "application/sbom");
    let proof = content.referrer(&image, "application/proof");
    let listed: Vec<_> = [&sbom, &proof].map(|one| one.listed_as.clone().unwrap()).into();
    let proof_digest = proof.manifests[0].digest;
    content.add_image("apps/a:v1", vec![image.clone()], vec![sbom, proof]);
    let server = content.serve();

    let path = format!("/v2/apps/a/referrers/{}", image.digest);
    let all = server.get(&path);
    assert_eq!(all.header("content-type"), Some(MediaType::OCI_INDEX));
    assert_eq!(all.header("oci-filters-applied"), None);
    assert_eq!(all.json()["manifests"].as_array().unwrap().len(), 2);
    let some = server.get(&format!("{path}?artifactType=application%2Fproof"));
    assert_eq!(some.header("oci-filters-applied"), Some("artifactType"));
    assert_eq!(some.json()["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(some.json()["manifests"][0]["digest"], proof_digest.to_string());
    assert_eq!(server.get(&format!("/v2/apps/a/manifests/{proof_digest}")).status, 200);

    let tag = Tag::of_digest(&image.digest);
    let fallback = server.get(&format!("/v2/apps/a/manifests/{tag}"));
    let RawManifest { digest, bytes, .. } = referrers_index(listed);
    assert_eq!((fallback.status, &fallback.body), (200, &bytes));
    let by_digest = server.get(&format!("/v2/apps/a/manifests/{digest}"));
    assert_eq!((by_digest.status, &by_digest.body), (200, &bytes));
    assert_eq!(server.get("/v2/apps/a/tags/list").json()["tags"], json!([tag, "v1"]));

    let none = server.get(&format!("/v2/apps/a/referrers/{}", Digest::of(b"no image")));
    assert_eq!((none.status, none.json()["manifests"].clone()), (200, json!([])));
}

#[test]
fn an_image_by_digest_keeps_its_tag_from_its_referrers() {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", LAYER);
    let sbom = content.referrer(&image, "application/sbom");
    let tag = Tag::of_digest(&image.digest);
    content.add_image(&format!("apps/a:{tag}"), vec![image.clone()], vec![sbom]);
    let server = content.serve();
    let response = server.get(&format!("/v2/apps/a/manifests/{tag}"));
    assert_eq!(response.header("docker-content-digest"), Some(&*image.digest.to_string()));
    let referrers = server.get(&format!("/v2/apps/a/referrers/{}", image.digest)).json();
    assert_eq!(referrers["manifests"].as_array().unwrap().len(), 1);
}

#[test]
fn an_image_without_its_blobs_causes_a_warning_and_is_not_served() {
    let mut content = two_images();
    content.images[1].record.blobs_held = false;
    let (_, warnings) = content.snapshot();
    let origin = content.images[1].record.origin.clone();
    assert_eq!(warnings, [Warning::NoBlobs { origin }]);
    assert!(warnings[0].to_string().contains("source.example/apps/b:v1 is not served"));
    let server = content.serve();
    assert_eq!(server.get("/v2/_catalog").json(), json!({"repositories": ["apps/a"]}));
}

#[test]
fn of_two_images_with_one_name_the_first_has_it_and_both_have_their_digest() {
    let mut content = two_images();
    let first = content.images[0].record.tree.root().digest;
    let other = content.image(Format::Oci, "arm64", b"another");
    content.add_image("apps/a:v1", vec![other.clone()], vec![]).origin =
        mirror_plan::Origin::Registry("second.example/apps/a:v1".parse().unwrap());
    let (_, warnings) = content.snapshot();
    let text: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        ["second.example/apps/a:v1 is served by digest only: its name apps/a:v1 belongs to \
          source.example/apps/a:v1"]
    );
    let server = content.serve();
    let response = server.get("/v2/apps/a/manifests/v1");
    assert_eq!(response.header("docker-content-digest"), Some(&*first.to_string()));
    assert_eq!(server.get(&format!("/v2/apps/a/manifests/{}", other.digest)).status, 200);
}

#[test]
fn damaged_content_is_an_error_of_the_server_that_contains_no_paths() {
    let content = two_images();
    let server = content.serve();
    let manifest = content.images[0].record.tree.root().digest;
    let mut changed = fs::read(content.path(manifest)).unwrap();
    *changed.last_mut().unwrap() = b' ';
    fs::write(content.path(manifest), changed).unwrap();
    fs::write(content.path(Digest::of(LAYER)), b"short").unwrap();
    fs::remove_file(content.path(Digest::of(b"other layer"))).unwrap();
    for path in [
        "/v2/apps/a/manifests/v1".to_owned(),
        format!("/v2/apps/a/blobs/{}", Digest::of(LAYER)),
        format!("/v2/apps/b/blobs/{}", Digest::of(b"other layer")),
    ] {
        let response = server.get(&path);
        assert_eq!(response.status, 500, "{path}");
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert!(!text.contains(content.dir.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn a_record_cannot_make_a_manifest_a_web_page() {
    let mut content = two_images();
    content.images[0].record.tree.manifests[0].media_type = MediaType::new("text/html");
    let response = content.serve().get("/v2/apps/a/manifests/v1");
    assert_eq!((response.status, response.header("content-type")), (500, Some("application/json")));
}

#[test]
fn a_new_snapshot_is_served_without_a_restart() {
    let mut content = two_images();
    let server = content.serve();
    assert_eq!(server.get("/v2/apps/c/manifests/v1").status, 404);
    let image = content.image(Format::Oci, "amd64", b"new");
    content.add_image("apps/c:v1", vec![image], vec![]);
    server.snapshot.replace(content.snapshot().0);
    assert_eq!(server.get("/v2/apps/c/manifests/v1").status, 200);
}
