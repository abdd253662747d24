use std::time::Duration;

use bytes::Bytes;
use http::Method;
use lab::images::Image;
use lab::registry::{Auth, Bearer, Credentials, Effect, Fault, LabRegistry, Settings};
use registry::{Client, CredentialSource, Environment, Error, Side, Uploaded};

use crate::{lab, location, settings, source, upload, with_user};

fn bearer() -> Bearer {
    Bearer::new(Credentials::new("me", "secret"))
}

fn with(auth: Auth) -> LabRegistry {
    let registry = lab(Settings { auth, ..Settings::default() });
    registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    registry
}

fn paths(registry: &LabRegistry, part: &str) -> Vec<String> {
    let all = registry.requests().0;
    all.into_iter().map(|request| request.path).filter(|path| path.contains(part)).collect()
}

#[tokio::test]
async fn tokens_are_narrow_and_requested_once() {
    let registry = with(Auth::Bearer(bearer()));
    let client = with_user(Side::Source, "me", "secret");
    let image = registry.image("a", "v1").unwrap();
    for _ in 0..3 {
        client.manifest(&image).await.unwrap().unwrap();
    }
    let tokens = paths(&registry, "/token");
    assert_eq!(tokens.len(), 1, "{tokens:?}");
    assert!(tokens[0].contains("scope=repository%3Aa%3Apull&"), "{tokens:?}");
    // One hello, one token, three manifests.
    assert_eq!(registry.requests().count(), 5);
}

#[tokio::test]
async fn many_requests_at_once_share_one_token() {
    let registry = with(Auth::Bearer(bearer()));
    let client = with_user(Side::Source, "me", "secret");
    let image = registry.image("a", "v1").unwrap();
    let all = futures_util::future::join_all((0..8).map(|_| client.head(&image))).await;
    assert!(all.into_iter().all(|found| found.unwrap().is_some()));
    assert_eq!(paths(&registry, "/token").len(), 1);
}

#[tokio::test]
async fn anonymous_tokens_are_got_without_credentials() {
    let registry = with(Auth::Bearer(Bearer { anonymous_pull: true, ..bearer() }));
    let client = source();
    let image = registry.image("a", "v1").unwrap();
    client.manifest(&image).await.unwrap().unwrap();
    client.manifest(&image).await.unwrap().unwrap();
    // A refused request, a token, and two manifests.
    assert_eq!(registry.requests().count(), 4);
}

#[tokio::test]
async fn tokens_are_renewed_before_they_expire_and_after_they_were_refused() {
    let short = Bearer { lifetime: Duration::from_secs(1), ..bearer() };
    let registry = with(Auth::Bearer(short));
    let client = with_user(Side::Source, "me", "secret");
    let image = registry.image("a", "v1").unwrap();
    client.head(&image).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(900)).await;
    client.head(&image).await.unwrap().unwrap();
    let refused = |registry: &LabRegistry| {
        registry.requests().0.iter().filter(|request| request.status == 401).count()
    };
    // Only the first request: no expired token was sent.
    assert_eq!(refused(&registry), 1);
    let registry = with(Auth::Bearer(Bearer { requests: Some(1), ..bearer() }));
    let image = registry.image("a", "v1").unwrap();
    for _ in 0..3 {
        client.head(&image).await.unwrap().unwrap();
    }
    assert_eq!(paths(&registry, "/token").len(), 3);
    assert_eq!(client.traffic().retries, 0);
}

#[tokio::test]
async fn a_token_that_expires_during_an_upload_is_renewed() {
    let registry = with(Auth::Bearer(bearer()));
    let client = with_user(Side::Destination, "me", "secret");
    let expire = Effect::ExpireTokensNow;
    registry.fault(Fault::on(Method::PUT, "/blobs/uploads/").times(1).does(expire));
    let content = Bytes::from(vec![7; 100_000]);
    let to = location(&registry, "b");
    assert_eq!(upload(&client, &to, &content, None).await.unwrap(), Uploaded::Sent);
    assert_eq!(registry.requests().of(&Method::PUT, "").count(), 2);
    assert_eq!(registry.requests().of(&Method::POST, "").count(), 1);
    assert_eq!(client.traffic().retries, 0);
}

#[tokio::test]
async fn a_mount_requests_both_repositories() {
    let registry = with(Auth::Bearer(bearer()));
    let content = crate::stored_blob(&registry, "base", 5000).1;
    let client = with_user(Side::Destination, "me", "secret");
    let to = location(&registry, "b");
    assert_eq!(upload(&client, &to, &content, Some("base")).await.unwrap(), Uploaded::Mounted);
    let tokens = paths(&registry, "/token");
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].contains("scope=repository%3Ab%3Apull%2Cpush"), "{tokens:?}");
    assert!(tokens[0].contains("scope=repository%3Abase%3Apull&"), "{tokens:?}");
}

#[tokio::test]
async fn refused_credentials_are_an_error_that_tells_where_they_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.json");
    for auth in [Auth::Basic(Credentials::new("me", "secret")), Auth::Bearer(bearer())] {
        let registry = with(auth);
        let image = registry.image("absent", "v1").unwrap();
        let host = registry.host().unwrap();
        // "me:hunter2" in base64.
        let login = format!(r#"{{"auths":{{"{host}":{{"auth":"bWU6aHVudGVyMg=="}}}}}}"#);
        std::fs::write(&file, login).unwrap();
        let open = |credentials| {
            Client::open(registry::Settings { credentials, ..settings(Side::Source) }).unwrap()
        };
        for (client, expected) in [
            (
                open(CredentialSource::File(file.clone())),
                format!("for \"{host}\" in {}", file.display()),
            ),
            (with_user(Side::Source, "me", "hunter2"), "given on the command line".to_owned()),
            (
                open(CredentialSource::Anonymous),
                "no credentials were used, as requested".to_owned(),
            ),
            (source(), "no credentials were given".to_owned()),
        ] {
            let error = client.head(&image).await.unwrap_err();
            let text = error.to_string();
            assert!(error.is_denied() && !error.is_retryable(), "{text}");
            assert!(text.contains(&expected) && text.contains("401"), "{text}");
            assert!(!format!("{error:?} {text}").contains("hunter2"), "{text}");
            assert_eq!(client.traffic().retries, 0);
        }
    }
}

#[tokio::test]
async fn a_login_made_while_we_run_is_used() {
    let registry = with(Auth::Basic(Credentials::new("me", "secret")));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("auth.json");
    let host = registry.host().unwrap();
    let login = |auth: &str| format!(r#"{{"auths":{{"{host}":{{"auth":"{auth}"}}}}}}"#);
    // "me:wrong" and "me:secret".
    std::fs::write(&file, login("bWU6d3Jvbmc=")).unwrap();
    let environment = Environment { registry_auth_file: Some(file.clone()), ..crate::nowhere() };
    let client =
        Client::open(registry::Settings { environment, ..settings(Side::Source) }).unwrap();
    let image = registry.image("a", "v1").unwrap();
    assert!(client.head(&image).await.unwrap_err().is_denied());
    std::fs::write(&file, login("bWU6c2VjcmV0")).unwrap();
    assert!(client.head(&image).await.unwrap().is_some());
}

#[test]
fn what_is_printed_for_debugging_holds_no_secret() {
    let client = with_user(Side::Source, "me", "hunter2");
    assert!(!format!("{client:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_refusal_of_rights_is_never_taken_for_absence() {
    let registry = with(Auth::None);
    registry.fault(Fault::on_any("/manifests/").does(Effect::status(403)));
    registry.fault(Fault::on_any("/blobs/").does(Effect::status(403)));
    let client = source();
    let image = registry.image("a", "v1").unwrap();
    let digest = oci::Digest::of(b"");
    let at = location(&registry, "a");
    assert!(matches!(client.head(&image).await, Err(Error::Denied { .. })));
    assert!(matches!(client.manifest(&image).await, Err(Error::Denied { .. })));
    assert!(matches!(client.has_blob(&at, &digest).await, Err(Error::Denied { .. })));
}
