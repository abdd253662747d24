use std::num::NonZeroUsize;

use http::Method;
use lab::images::{Format, Image};
use lab::registry::{Behaviour, Effect, Fault, Settings};
use oci::{MediaType, Platform};
use registry::Error;

use crate::{destination, lab, location, source};

fn images(format: Format) -> Image {
    let layer = lab::images::Layer::generate("a", 900, lab::images::Compression::Gzip).unwrap();
    let one = |architecture| {
        Image::new(format, Platform::new("linux", architecture), std::slice::from_ref(&layer))
            .unwrap()
    };
    Image::list(format, [one("amd64"), one("arm64")]).unwrap()
}

#[tokio::test]
async fn a_manifest_arrives_byte_for_byte_by_tag_and_by_digest() {
    for format in [Format::Docker, Format::Oci] {
        let registry = lab(Settings::default());
        let image = images(format);
        registry.put_image(&image, "a/b", "v1").unwrap();
        let client = source();
        let by_tag = registry.image("a/b", "v1").unwrap();
        assert_eq!(client.manifest(&by_tag).await.unwrap().as_ref(), Some(image.root()));
        for manifest in &image.manifests {
            let by_digest = by_tag.with_pointer(oci::Pointer::Digest(manifest.digest));
            assert_eq!(client.manifest(&by_digest).await.unwrap().as_ref(), Some(manifest));
            let found = client.head(&by_digest).await.unwrap().unwrap();
            assert_eq!(found.digest, manifest.digest);
            assert_eq!(found.media_type.as_ref(), Some(&manifest.media_type));
            assert_eq!(found.size, Some(manifest.bytes.len() as u64));
        }
        for request in registry.requests().0 {
            let accepted: Vec<_> =
                request.headers.get_all("accept").iter().map(|v| v.to_str().unwrap()).collect();
            assert_eq!(accepted, MediaType::ACCEPT, "{} {}", request.method, request.path);
        }
    }
}

#[tokio::test]
async fn an_open_registry_gets_one_request() {
    let registry = lab(Settings::default());
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    let client = source();
    client.head(&registry.image("a", "v1").unwrap()).await.unwrap().unwrap();
    client.head(&registry.image("a", "v1").unwrap()).await.unwrap().unwrap();
    let requests = registry.requests();
    assert_eq!((requests.count(), requests.heads()), (2, 2));
}

#[tokio::test]
async fn what_does_not_exist_is_none_and_takes_one_request() {
    let registry = lab(Settings::default());
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    let client = source();
    assert_eq!(client.head(&registry.image("a", "v2").unwrap()).await.unwrap(), None);
    assert_eq!(client.manifest(&registry.image("b", "v1").unwrap()).await.unwrap(), None);
    let digest = oci::Digest::of(b"nothing of the kind");
    assert!(!client.has_blob(&location(&registry, "a"), &digest).await.unwrap());
    assert_eq!(registry.requests().count(), 3);
}

#[tokio::test]
async fn a_reference_without_tag_and_digest_is_refused() {
    let image = "127.0.0.1:1/a".parse().unwrap();
    assert!(matches!(source().head(&image).await, Err(Error::NoPointer { .. })));
}

#[tokio::test]
async fn a_registry_with_a_wrong_digest_is_refused() {
    let registry = lab(Settings::default());
    let image = Image::tiny("x").unwrap();
    registry.put_image(&image, "a", "v1").unwrap();
    let by_tag = registry.image("a", "v1").unwrap();
    let by_digest = by_tag.with_pointer(oci::Pointer::Digest(image.digest()));
    let client = source();
    registry.fault(Fault::on_any("/manifests/").does(Effect::WrongDigestHeader));
    let error = client.manifest(&by_tag).await.unwrap_err();
    assert!(matches!(error.last(), Error::Digest { .. }), "{error}");
    let error = client.head(&by_digest).await.unwrap_err();
    assert!(matches!(error.last(), Error::Digest { .. }), "{error}");
    registry.clear_faults();
    registry.fault(Fault::on(Method::GET, "/manifests/").does(Effect::WrongBytes));
    let error = client.manifest(&by_digest).await.unwrap_err();
    assert!(matches!(error.last(), Error::Digest { .. }), "{error}");
    // Bytes may have been damaged in transit: two more attempts each.
    assert_eq!(client.traffic().retries, 6);
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_what_may_not_is_not() {
    let registry = lab(Settings::default());
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    let image = registry.image("a", "v1").unwrap();
    for effect in [
        Effect::status(500),
        Effect::status(503),
        Effect::DropConnection,
        Effect::too_many_requests(0),
    ] {
        registry.fault(Fault::on_any("/manifests/").times(2).does(effect.clone()));
        let client = source();
        assert!(client.manifest(&image).await.unwrap().is_some(), "{effect:?}");
        assert_eq!(client.traffic().retries, 2, "{effect:?}");
        registry.clear_faults();
    }
    registry.fault(Fault::on_any("/manifests/").does(Effect::status(400)));
    let client = source();
    let error = client.manifest(&image).await.unwrap_err();
    assert_eq!(client.traffic().retries, 0);
    let text = error.to_string();
    assert!(text.contains("GET http://127.0.0.1") && text.contains("400 Bad Request"), "{text}");
    assert!(text.contains("LAB_FAULT (a configured fault)"), "{text}");
}

#[tokio::test]
async fn attempts_are_counted_and_then_the_last_error_is_given() {
    let registry = lab(Settings::default());
    registry.fault(Fault::on_any("/manifests/").does(Effect::too_many_requests(0)));
    let client = source();
    let error = client.head(&registry.image("a", "v1").unwrap()).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(registry.requests().count(), 4);
    registry.clear_faults();
    registry.fault(Fault::on_any("/manifests/").does(Effect::too_many_requests(0)));
    let error = client.manifest(&registry.image("a", "v1").unwrap()).await.unwrap_err();
    let ending = "429 Too Many Requests: 429 Too Many Requests (after 4 attempts)";
    assert!(error.to_string().ends_with(ending), "{error}");
}

#[tokio::test]
async fn a_registry_that_sends_retry_after_gets_no_requests_until_then() {
    let registry = lab(Settings::default());
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    registry.fault(Fault::on_any("/manifests/").times(1).does(Effect::too_many_requests(1)));
    let client = source();
    let start = std::time::Instant::now();
    client.head(&registry.image("a", "v1").unwrap()).await.unwrap().unwrap();
    assert!(start.elapsed().as_millis() >= 1000, "{:?}", start.elapsed());
}

#[tokio::test]
async fn requests_at_a_time_are_limited() {
    let registry = lab(Settings::default());
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    let delay = Effect::Delay(std::time::Duration::from_millis(30));
    registry.fault(Fault::on_any("/manifests/").does(delay));
    let per_host = NonZeroUsize::new(3).unwrap();
    let settings = registry::Settings { per_host, ..crate::settings(registry::Side::Source) };
    let client = registry::Client::open(settings).unwrap();
    let image = registry.image("a", "v1").unwrap();
    futures_util::future::join_all((0..12).map(|_| client.head(&image))).await;
    assert_eq!(registry.most_concurrent(), 3);
}

#[tokio::test]
async fn a_manifest_is_put_as_what_it_is_and_its_subject_is_noticed() {
    let referred = Image::tiny("x").unwrap().with_referrer("application/x-test", b"hello").unwrap();
    let referrer = referred.referrers().next().unwrap();
    for (behaviour, noticed) in [(Behaviour::MODERN, true), (Behaviour::DOCKER_2_8, false)] {
        let registry = lab(Settings { behaviour, ..Settings::default() });
        registry.put_image(&referred, "a", "v1").unwrap();
        let client = destination();
        let to = registry.image("a", "attached").unwrap();
        let pushed = client.put_manifest(&to, referrer).await.unwrap();
        assert_eq!(pushed.digest, referrer.digest);
        assert_eq!(pushed.subject, noticed.then(|| referred.digest()));
        assert_eq!(client.manifest(&to).await.unwrap().as_ref(), Some(referrer));
    }
}

#[tokio::test]
async fn a_list_without_its_images_is_a_case_of_its_own() {
    let list = images(Format::Oci);
    let sparse = lab(Settings::default());
    let client = destination();
    client.put_manifest(&sparse.image("a", "v1").unwrap(), list.root()).await.unwrap();
    let strict = lab(Settings { behaviour: Behaviour::DOCKER_2_8, ..Settings::default() });
    let to = strict.image("a", "v1").unwrap();
    let error = client.put_manifest(&to, list.root()).await.unwrap_err();
    assert!(matches!(error, Error::SparseList { .. }), "{error}");
    let error = client.put_manifest(&to, &list.manifests[1]).await.unwrap_err();
    assert!(matches!(error, Error::Status { .. }), "{error}");
}

#[tokio::test]
async fn tags_come_in_pages_and_the_pages_are_bounded() {
    let registry = lab(Settings::default());
    let image = Image::tiny("x").unwrap();
    for number in 0..1500 {
        registry.put_image(&image, "a", &format!("v{number:04}")).unwrap();
    }
    let client = source();
    let at = location(&registry, "a");
    let all = client.tags(&at, NonZeroUsize::new(10).unwrap()).await.unwrap();
    assert!(all.complete);
    assert_eq!(all.tags.len(), 1500);
    assert_eq!(registry.requests().count(), 2);
    let some = client.tags(&at, NonZeroUsize::MIN).await.unwrap();
    assert_eq!((some.complete, some.tags.len()), (false, 1000));
    let none = client.tags(&location(&registry, "absent"), NonZeroUsize::MIN).await.unwrap();
    assert_eq!((none.complete, none.tags.len()), (true, 0));
}

#[tokio::test]
async fn referrers_are_listed_and_a_registry_without_the_api_gets_one_request() {
    let image = Image::tiny("x").unwrap().with_referrer("application/x-test", b"hello").unwrap();
    let modern = lab(Settings::default());
    modern.put_image(&image, "a", "v1").unwrap();
    let client = source();
    let found = client.referrers(&location(&modern, "a"), &image.digest()).await.unwrap().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].digest, image.referrers().next().unwrap().digest);
    assert_eq!(found[0].artifact_type.as_deref(), Some("application/x-test"));
    let old = lab(Settings { behaviour: Behaviour::DOCKER_2_8, ..Settings::default() });
    old.put_image(&image, "a", "v1").unwrap();
    for _ in 0..3 {
        assert_eq!(client.referrers(&location(&old, "a"), &image.digest()).await.unwrap(), None);
    }
    assert_eq!(old.requests().count(), 1);
}
