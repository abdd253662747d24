use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Method;
use lab::registry::{Behaviour, Effect, Fault, Settings};
use oci::Digest;
use registry::{Blob, Error, Uploaded};

use crate::{destination, fetch, lab, location, pieces, stored_blob, upload};

fn content() -> Bytes {
    (0..100_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into()
}

fn blob(content: &Bytes) -> Blob {
    Blob { digest: Digest::of(content), size: content.len() as u64 }
}

#[tokio::test]
async fn a_blob_is_sent_in_two_requests() {
    for behaviour in [Behaviour::MODERN, Behaviour::DOCKER_2_8] {
        let registry = lab(Settings { behaviour, ..Settings::default() });
        let client = destination();
        let to = location(&registry, "a/b");
        let content = content();
        assert_eq!(upload(&client, &to, &content, None).await.unwrap(), Uploaded::Sent);
        let methods: Vec<_> =
            registry.requests().0.iter().map(|request| request.method.clone()).collect();
        assert_eq!(methods, [Method::POST, Method::PUT]);
        let put = registry.requests().0[1].clone();
        assert_eq!(put.headers["content-length"], "400000");
        assert!(!put.headers.contains_key("transfer-encoding"));
        assert_eq!(client.traffic().sent, 400_000);
        assert_eq!(fetch(&client, &to, blob(&content), 0).await.unwrap(), content);
    }
}

#[tokio::test]
async fn an_empty_blob_can_be_sent() {
    let registry = lab(Settings::default());
    let client = destination();
    let to = location(&registry, "a");
    assert_eq!(upload(&client, &to, &Bytes::new(), None).await.unwrap(), Uploaded::Sent);
    assert!(client.has_blob(&to, &Digest::of(b"")).await.unwrap());
}

#[tokio::test]
async fn a_blob_is_mounted_where_it_can_be_and_sent_where_not() {
    let registry = lab(Settings::default());
    let (_, content) = stored_blob(&registry, "base", 50_000);
    let client = destination();
    let to = location(&registry, "a");
    let mounted = upload(&client, &to, &content, Some("base")).await.unwrap();
    assert_eq!(mounted, Uploaded::Mounted);
    assert_eq!(registry.requests().count(), 1);
    let other = self::content();
    let sent = upload(&client, &to, &other, Some("base")).await.unwrap();
    assert_eq!(sent, Uploaded::Sent);
    // The session that the refused mount opened is used: no second POST.
    assert_eq!(registry.requests().of(&Method::POST, "").count(), 2);
    assert!(client.has_blob(&to, &Digest::of(&other)).await.unwrap());
}

#[tokio::test]
async fn a_broken_upload_starts_again_with_a_new_body() {
    for effect in [Effect::CutRequestAfter(100_000), Effect::status(502), Effect::status(404)] {
        let registry = lab(Settings::default());
        registry.fault(Fault::on(Method::PUT, "/blobs/uploads/").times(2).does(effect.clone()));
        let client = destination();
        let content = content();
        let bodies = AtomicUsize::new(0);
        let make = || async {
            bodies.fetch_add(1, Ordering::Relaxed);
            Ok(pieces(&content))
        };
        let to = location(&registry, "a");
        let sent = client.upload(&to, blob(&content), None, make).await;
        assert_eq!(sent.unwrap_or_else(|e| panic!("{effect:?}: {e}")), Uploaded::Sent);
        assert_eq!(bodies.load(Ordering::Relaxed), 3, "{effect:?}");
        assert!(client.has_blob(&to, &Digest::of(&content)).await.unwrap());
    }
}

#[tokio::test]
async fn a_body_that_fails_or_has_another_length_is_the_callers_error() {
    let registry = lab(Settings::default());
    let client = destination();
    let content = content();
    let to = location(&registry, "a");
    for (size, expected) in [(399_999, "longer"), (400_001, "1 bytes shorter")] {
        let wrong = Blob { digest: Digest::of(&content), size };
        let error =
            client.upload(&to, wrong, None, || async { Ok(pieces(&content)) }).await.unwrap_err();
        assert!(matches!(error, Error::Body { .. }), "{error}");
        assert!(error.chain().contains(expected), "{}", error.chain());
    }
    let broken = || async {
        let read = Ok(Bytes::from_static(b"x"));
        let failed = Err(std::io::Error::other("the disk is gone"));
        Ok(futures_util::stream::iter([read, failed]))
    };
    let error = client.upload(&to, blob(&content), None, broken).await.unwrap_err();
    assert!(error.chain().ends_with("the disk is gone"), "{}", error.chain());
    assert_eq!(client.traffic().retries, 0);
    assert!(!client.has_blob(&to, &Digest::of(&content)).await.unwrap());
}

#[tokio::test]
async fn wrong_content_is_refused_by_the_registry_and_not_sent_again() {
    let registry = lab(Settings::default());
    let client = destination();
    let wrong = Blob { digest: Digest::of(b"other"), size: 400_000 };
    let content = content();
    let to = location(&registry, "a");
    let error =
        client.upload(&to, wrong, None, || async { Ok(pieces(&content)) }).await.unwrap_err();
    assert!(error.to_string().contains("DIGEST_INVALID"), "{error}");
    assert_eq!(client.traffic().retries, 0);
}

#[tokio::test]
async fn a_stream_from_one_registry_can_be_the_body_for_another() {
    let (from, to) = (lab(Settings::default()), lab(Settings::default()));
    let (blob, content) = stored_blob(&from, "a", 300_000);
    from.fault(Fault::on(Method::GET, "/blobs/").times(1).does(Effect::CutAfter(100_000)));
    let (source, destination) = (crate::source(), destination());
    let at = location(&from, "a");
    let body = || async { source.blob(&at, blob, 0).await.map(registry::BlobStream::into_stream) };
    let target = location(&to, "b");
    destination.upload(&target, blob, None, body).await.unwrap();
    assert_eq!(fetch(&destination, &target, blob, 0).await.unwrap(), content);
}

#[tokio::test]
async fn a_cut_upload_continues_where_the_registry_has_it() {
    let content: Bytes = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
    for behaviour in [Behaviour::MODERN, Behaviour::DOCKER_2_8] {
        let registry = lab(Settings { behaviour, ..Settings::default() });
        let cut = Effect::KeepThenCut(3_000_000);
        registry.fault(Fault::on(Method::PUT, "/blobs/uploads/").times(1).does(cut));
        let client = destination();
        let to = location(&registry, "a");
        assert_eq!(upload(&client, &to, &content, None).await.unwrap(), Uploaded::Sent);
        assert_eq!(fetch(&client, &to, blob(&content), 0).await.unwrap(), content);
        let requests = registry.requests();
        assert_eq!(requests.of(&Method::POST, "/blobs/uploads/").count(), 1, "one upload");
        let rest = requests.of(&Method::PATCH, "").next().unwrap().clone();
        assert_eq!(rest.headers["content-range"], "3000000-3999999");
        assert_eq!(rest.headers["content-length"], "1000000");
    }
}

#[tokio::test]
async fn an_upload_that_cannot_be_continued_starts_again() {
    let content: Bytes = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
    for (method, refusal) in [(Method::GET, 404), (Method::GET, 405), (Method::PATCH, 400)] {
        let registry = lab(Settings::default());
        let cut = Effect::KeepThenCut(3_000_000);
        registry.fault(Fault::on(Method::PUT, "/blobs/uploads/").times(1).does(cut));
        let refuse = Effect::status(refusal);
        registry.fault(Fault::on(method.clone(), "/blobs/uploads/").does(refuse));
        let client = destination();
        let to = location(&registry, "a");
        assert_eq!(upload(&client, &to, &content, None).await.unwrap(), Uploaded::Sent);
        assert_eq!(fetch(&client, &to, blob(&content), 0).await.unwrap(), content);
        let opened = registry.requests().of(&Method::POST, "/blobs/uploads/").count();
        assert_eq!(opened, 2, "{method} {refusal}");
    }
}

/// Uploads in memory, as another process would find them.
#[derive(Debug, Default)]
struct Begun(std::sync::Mutex<std::collections::BTreeMap<String, registry::Url>>);

impl registry::UploadLog for Begun {
    fn find(&self, to: &registry::Location, digest: &Digest) -> Option<registry::Url> {
        self.0.lock().unwrap().get(&format!("{to} {digest}")).cloned()
    }

    fn begin(&self, to: &registry::Location, digest: &Digest, url: &registry::Url) {
        self.0.lock().unwrap().insert(format!("{to} {digest}"), url.clone());
    }

    fn end(&self, to: &registry::Location, digest: &Digest) {
        self.0.lock().unwrap().remove(&format!("{to} {digest}"));
    }
}

#[tokio::test]
async fn an_upload_that_another_process_began_is_continued_at_the_same_registry_only() {
    let content: Bytes = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
    for is_elsewhere in [false, true] {
        let registry = lab(Settings::default());
        let cut = Effect::KeepThenCut(3_000_000);
        registry.fault(Fault::on(Method::PUT, "/blobs/uploads/").times(1).does(cut));
        let begun = std::sync::Arc::new(Begun::default());
        let client = || {
            let settings = crate::settings(registry::Side::Destination);
            let retry = registry::Retry { times: 0, delay: None };
            let uploads = Some(begun.clone() as std::sync::Arc<dyn registry::UploadLog>);
            registry::Client::open(registry::Settings { retry, uploads, ..settings }).unwrap()
        };
        let to = location(&registry, "a");
        upload(&client(), &to, &content, None).await.unwrap_err();
        assert_eq!(begun.0.lock().unwrap().len(), 1);
        let other = lab(Settings::default());
        if is_elsewhere {
            for url in begun.0.lock().unwrap().values_mut() {
                url.set_port(Some(other.address().port())).unwrap();
            }
        }
        // As a run does, which also shows whether the registry is reached by TLS.
        let again = client();
        assert!(!again.has_blob(&to, &Digest::of(&content)).await.unwrap());
        assert_eq!(upload(&again, &to, &content, None).await.unwrap(), Uploaded::Sent);
        assert_eq!(fetch(&again, &to, blob(&content), 0).await.unwrap(), content);
        let opened = registry.requests().of(&Method::POST, "/blobs/uploads/").count();
        let continued = registry.requests().of(&Method::PATCH, "").count();
        assert_eq!((opened, continued), if is_elsewhere { (2, 0) } else { (1, 1) });
        assert_eq!(other.requests().count(), 0);
        assert!(begun.0.lock().unwrap().is_empty());
    }
}
