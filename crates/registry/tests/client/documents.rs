//! Small documents from web servers.

use std::time::Duration;

use http::Method;
use lab::registry::{Effect, Fault};
use lab::update_service::{Graph, UpdateService};
use registry::{
    Access, Client, CredentialSource, DocumentRequest, Environment, Error, Settings, Side,
    Timeouts, Url,
};

use crate::{nowhere, settings, source};

fn service() -> (UpdateService, Url) {
    let service = UpdateService::start().unwrap();
    service.publish("stable-4.1", "amd64", &Graph::default().node("4.1.0", "payload"));
    let url = format!("{}?channel=stable-4.1&arch=amd64", service.graph_url());
    (service, url.parse().unwrap())
}

async fn fetch(client: &Client, url: &Url, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    client
        .document(DocumentRequest {
            url,
            accept: "application/json",
            limit,
            access: Access::Public,
        })
        .await
}

#[tokio::test]
async fn a_document_arrives_complete_with_its_request_line() {
    let (service, url) = service();
    let bytes = fetch(&source(), &url, 1 << 20).await.unwrap().unwrap();
    assert!(String::from_utf8(bytes).unwrap().contains("4.1.0"));
    let requests = service.server.requests();
    let request = requests.of(&Method::GET, "channel=stable-4.1&arch=amd64").next().unwrap();
    assert_eq!(request.headers["accept"], "application/json");
    assert!(!request.had_authorization());
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_stays_is_an_error_with_its_reason() {
    for effect in [
        Effect::status(500),
        Effect::status(503),
        Effect::too_many_requests(0),
        Effect::DropConnection,
        Effect::CutAfter(10),
    ] {
        let (service, url) = service();
        service.server.fault(Fault::on_any("/graph").times(2).does(effect.clone()));
        let found = fetch(&source(), &url, 1 << 20).await;
        assert!(found.is_ok_and(|document| document.is_some()), "{effect:?}");
        service.server.fault(Fault::on_any("/graph").does(effect.clone()));
        assert!(fetch(&source(), &url, 1 << 20).await.is_err(), "{effect:?}");
        assert_eq!(service.server.requests().count(), 3 + 4, "{effect:?}");
    }
}

#[tokio::test]
async fn absent_and_refused_are_distinguished() {
    let (service, url) = service();
    let absent = url.join("/nowhere").unwrap();
    assert!(fetch(&source(), &absent, 100).await.unwrap().is_none());
    service.server.fault(Fault::on_any("/graph").does(Effect::status(403)));
    let error = fetch(&source(), &url, 1 << 20).await.unwrap_err();
    assert!(error.to_string().contains("the server responded 403 Forbidden"), "{error}");
    assert!(!error.to_string().contains("channel="), "a query may hold what is secret");
    assert_eq!(service.server.requests().count(), 2, "a refused request is not retried");
}

#[tokio::test]
async fn a_web_page_or_too_much_is_not_taken_for_a_document() {
    let (service, url) = service();
    let error = fetch(&source(), &url, 10).await.unwrap_err();
    assert!(matches!(error, Error::Large { limit: 10, .. }), "{error}");
    let headers = vec![("content-type".into(), "text/html; charset=utf-8".into())];
    let page = Effect::Status(200, headers, "<html>Please log in</html>".into());
    service.server.fault(Fault::on_any("/graph").does(page));
    let error = fetch(&source(), &url, 1 << 20).await.unwrap_err();
    assert!(error.to_string().contains("a web page arrived instead"), "{error}");
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let (service, url) = service();
    service.server.fault(Fault::on_any("/graph").does(Effect::StallAfter(3)));
    let stall = Duration::from_millis(200);
    let settings = settings(Side::Source);
    let timeouts = Timeouts { stall, ..settings.timeouts };
    let retry = registry::Retry { times: 1, delay: Some(Duration::ZERO) };
    let client = Client::open(registry::Settings { timeouts, retry, ..settings }).unwrap();
    let error = fetch(&client, &url, 1 << 20).await.unwrap_err();
    assert!(error.to_string().contains("no further bytes were received within 0.2 s"), "{error}");
}

#[tokio::test]
async fn a_document_comes_through_the_proxy_of_the_environment() {
    // Requests to a proxy have whole addresses, and this one has the path of all.
    let (service, _) = service();
    let http_proxy = Some(service.server.url().to_owned());
    let environment = Environment { http_proxy, ..nowhere() };
    let client =
        Client::open(registry::Settings { environment, ..settings(Side::Source) }).unwrap();
    let url = "http://updates.example/api/upgrades_info/v1/graph?channel=stable-4.1";
    let found = fetch(&client, &url.parse().unwrap(), 1 << 20).await.unwrap();
    assert!(found.is_some());
    let requests = service.server.requests();
    assert_eq!(requests.0[0].headers["host"], "updates.example");
}

#[tokio::test]
async fn credentials_are_sent_to_private_servers_only_and_not_where_those_link_to() {
    let (service, url) = service();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.json");
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    // user:pass
    let text = format!(r#"{{"auths":{{"{host}":{{"auth":"dXNlcjpwYXNz"}}}}}}"#);
    std::fs::write(&file, text).unwrap();
    let given = CredentialSource::User { name: "user".into(), password: "pass".into() };
    let mut with_login = url.clone();
    with_login.set_username("user").unwrap();
    with_login.set_password(Some("pa%73s")).unwrap();
    for (credentials, access, url, is_sent) in [
        (CredentialSource::File(file.clone()), Access::Public, &url, false),
        (CredentialSource::File(file.clone()), Access::Private, &url, true),
        (CredentialSource::File(file.clone()), Access::Linked, &url, true),
        (given.clone(), Access::Public, &url, false),
        (given.clone(), Access::Private, &url, true),
        (given, Access::Linked, &url, false),
        (CredentialSource::Anonymous, Access::Private, &with_login, true),
    ] {
        let client = Client::open(Settings { credentials, ..settings(Side::Source) }).unwrap();
        service.server.forget_requests();
        let request = DocumentRequest { url, accept: "*/*", limit: 1 << 20, access };
        client.document(request).await.unwrap().unwrap();
        let requests = service.server.requests();
        let request = requests.of(&Method::GET, "/graph").next().unwrap();
        let sent = request.headers.get("authorization").map(|value| value.to_str().unwrap());
        assert_eq!(sent, is_sent.then_some("Basic dXNlcjpwYXNz"), "{access:?}");
    }
}
