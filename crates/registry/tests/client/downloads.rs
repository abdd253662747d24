use std::time::Duration;

use http::Method;
use lab::link::{Link, SlowLink};
use lab::registry::{Effect, Fault, Settings};
use registry::{Blob, Client, Error, Side, Timeouts};

use crate::{fetch, lab, location, source, stored_blob};

const SIZE: u64 = 300_000;

#[tokio::test]
async fn a_blob_arrives_whole_or_from_where_it_is_wanted() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", SIZE);
    let client = source();
    let from = location(&registry, "a");
    assert_eq!(fetch(&client, &from, blob, 0).await.unwrap(), content);
    assert_eq!(fetch(&client, &from, blob, 1234).await.unwrap(), content[1234..]);
    assert!(fetch(&client, &from, blob, blob.size).await.unwrap().is_empty());
    assert_eq!(registry.requests().count(), 2);
    assert!(client.has_blob(&from, &blob.digest).await.unwrap());
    assert_eq!(client.traffic().received, blob.size + blob.size - 1234);
}

#[tokio::test]
async fn an_interrupted_download_continues_where_it_was_interrupted() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", SIZE);
    registry.fault(Fault::on(Method::GET, "/blobs/").times(5).does(Effect::CutAfter(40_000)));
    let client = source();
    let bytes = fetch(&client, &location(&registry, "a"), blob, 0).await.unwrap();
    assert_eq!(bytes, content);
    let ranges: Vec<String> = registry
        .requests()
        .of(&Method::GET, "/blobs/")
        .map(|request| match request.headers.get("range") {
            None => String::new(),
            Some(range) => range.to_str().unwrap().to_owned(),
        })
        .collect();
    assert_eq!(
        ranges,
        ["", "bytes=40000-", "bytes=80000-", "bytes=120000-", "bytes=160000-", "bytes=200000-"]
    );
    assert!(client.traffic().received < SIZE + 40_000, "{:?}", client.traffic());
}

#[tokio::test]
async fn a_registry_that_ignores_ranges_is_read_past_what_is_known() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", SIZE);
    registry.fault(Fault::on(Method::GET, "/blobs/").times(1).does(Effect::CutAfter(40_000)));
    registry.fault(Fault::on(Method::GET, "/blobs/").does(Effect::IgnoreRange));
    let bytes = fetch(&source(), &location(&registry, "a"), blob, 7).await.unwrap();
    assert_eq!(bytes, content[7..]);
}

#[tokio::test]
async fn a_download_that_never_gets_on_is_given_up() {
    let registry = lab(Settings::default());
    let (blob, _) = stored_blob(&registry, "a", SIZE);
    registry.fault(Fault::on(Method::GET, "/blobs/").times(1).does(Effect::CutAfter(40_000)));
    registry.fault(Fault::on(Method::GET, "/blobs/").after(1).does(Effect::DropConnection));
    let client = source();
    let error = fetch(&client, &location(&registry, "a"), blob, 0).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(client.traffic().retries, 3);
}

#[tokio::test]
async fn a_stalled_download_is_noticed_and_continues() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", SIZE);
    registry.fault(Fault::on(Method::GET, "/blobs/").times(1).does(Effect::StallAfter(40_000)));
    let mut settings = crate::settings(Side::Source);
    settings.timeouts = Timeouts { stall: Duration::from_millis(100), ..settings.timeouts };
    let client = Client::open(settings).unwrap();
    let bytes = fetch(&client, &location(&registry, "a"), blob, 0).await.unwrap();
    assert_eq!(bytes, content);
    assert_eq!(client.traffic().retries, 1);
}

#[tokio::test]
async fn a_blob_of_another_length_than_in_its_manifest_is_an_error() {
    let registry = lab(Settings::default());
    let (blob, _) = stored_blob(&registry, "a", SIZE);
    let from = location(&registry, "a");
    for size in [SIZE - 1, SIZE + 600_000] {
        let wrong = Blob { size, ..blob };
        let error = fetch(&source(), &from, wrong, 0).await.unwrap_err();
        assert!(matches!(error.last(), Error::Length { .. }), "{error}");
    }
    registry.fault(Fault::on(Method::GET, "/blobs/").does(Effect::ExtraBytes(10)));
    assert!(fetch(&source(), &from, blob, 0).await.is_err());
}

#[tokio::test]
async fn a_blob_that_is_not_there_is_named() {
    let registry = lab(Settings::default());
    let (blob, _) = stored_blob(&registry, "a", SIZE);
    let client = source();
    let error = client.blob(&location(&registry, "b"), blob, 0).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Absent { .. }), "{text}");
    assert!(text.contains("/b@sha256:"), "{text}");
    assert_eq!(registry.requests().count(), 1);
}

#[tokio::test]
async fn redirects_are_followed_without_credentials() {
    let storage = lab(Settings::default());
    let (blob, content) = stored_blob(&storage, "a", SIZE);
    let credentials = lab::registry::Credentials::new("me", "secret");
    let auth = lab::registry::Auth::Basic(credentials);
    let front = lab(Settings { auth, ..Settings::default() });
    front.fault(Fault::on(Method::GET, "/blobs/").does(Effect::RedirectTo(storage.url().into())));
    let client = crate::with_user(Side::Source, "me", "secret");
    let bytes = fetch(&client, &location(&front, "a"), blob, 0).await.unwrap();
    assert_eq!(bytes, content);
    assert!(front.requests().0.iter().any(|request| request.had_authorization()));
    assert_eq!(storage.requests().count(), 1);
    assert!(!storage.requests().0[0].had_authorization());
}

#[tokio::test]
async fn a_loop_of_redirects_ends() {
    let registry = lab(Settings::default());
    let (blob, _) = stored_blob(&registry, "a", SIZE);
    registry
        .fault(Fault::on(Method::GET, "/blobs/").does(Effect::RedirectTo(registry.url().into())));
    let error = fetch(&source(), &location(&registry, "a"), blob, 0).await.unwrap_err();
    assert!(error.to_string().contains("redirects"), "{error}");
}

#[tokio::test]
async fn blobs_share_connections_one_after_another() {
    let registry = lab(Settings::default());
    let (blob, content) = stored_blob(&registry, "a", 100_000);
    let line = Link { round_trip: Duration::ZERO, ..Link::DISTANT };
    let line = SlowLink::start(registry.address(), line).unwrap();
    let host = line.address().to_string().parse().unwrap();
    let from = registry::Location::new(host, "a".parse().unwrap());
    let client = source();
    for _ in 0..20 {
        assert_eq!(fetch(&client, &from, blob, 0).await.unwrap(), content);
    }
    // One for the blobs, one that found out that the registry speaks plain HTTP.
    assert_eq!(line.traffic().connections, 2);
}
