use lab::images::Image;
use lab::registry::{Behaviour, Effect, Fault, LabRegistry, Settings};
use registry::{Client, Environment, Error, Retry, Side};

use crate::{fetch, lab, location, stored_blob};

/// A client under a `registries.conf`.
fn under(conf: &str, side: Side, tls_verify: bool) -> Client {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("registries.conf");
    std::fs::write(&file, conf).unwrap();
    let environment = Environment { registries_conf: Some(file), ..crate::nowhere() };
    let settings = registry::Settings { environment, tls_verify, ..crate::settings(side) };
    Client::open(settings).unwrap()
}

fn mirrored(of: &str, mirrors: &[String]) -> String {
    let mut conf = format!("[[registry]]\nlocation = \"{of}\"\n");
    for mirror in mirrors {
        conf += &format!("[[registry.mirror]]\nlocation = \"{mirror}\"\n");
    }
    conf
}

fn host(registry: &LabRegistry) -> String {
    registry.host().unwrap().to_string()
}

#[tokio::test]
async fn the_mirror_gets_the_requests_and_the_registry_none() {
    let (own, mirror) = (lab(Settings::default()), lab(Settings::default()));
    let (blob, content) = stored_blob(&mirror, "cache/a", 5000);
    let conf = mirrored(&host(&own), &[format!("{}/cache", host(&mirror))]);
    let client = under(&conf, Side::Source, false);
    let image = own.image("a", "v1").unwrap();
    assert!(client.head(&image).await.unwrap().is_some());
    assert!(client.manifest(&image).await.unwrap().is_some());
    assert_eq!(fetch(&client, &location(&own, "a"), blob, 0).await.unwrap(), content);
    assert_eq!(own.requests().count(), 0);
}

#[tokio::test]
async fn what_a_mirror_lacks_or_refuses_comes_from_the_next() {
    let (own, empty, broken) =
        (lab(Settings::default()), lab(Settings::default()), lab(Settings::default()));
    broken.fault(Fault::on_any("").does(Effect::status(403)));
    let (blob, content) = stored_blob(&own, "a", 5000);
    let conf = mirrored(&host(&own), &[host(&empty), host(&broken), "127.0.0.1:1".into()]);
    let client = under(&conf, Side::Source, false);
    assert!(client.head(&own.image("a", "v1").unwrap()).await.unwrap().is_some());
    assert_eq!(fetch(&client, &location(&own, "a"), blob, 0).await.unwrap(), content);
    assert_eq!(client.head(&own.image("a", "v2").unwrap()).await.unwrap(), None);
    assert_eq!((empty.requests().count(), broken.requests().count()), (3, 3));
    assert_eq!(client.traffic().retries, 0);
}

#[tokio::test]
async fn a_mirror_that_cannot_be_reached_is_left_out_for_a_while() {
    let own = lab(Settings::default());
    own.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    let client = under(&mirrored(&host(&own), &["127.0.0.1:1".into()]), Side::Source, false);
    let image = own.image("a", "v1").unwrap();
    client.head(&image).await.unwrap().unwrap();
    let first = client.traffic().requests;
    for _ in 0..5 {
        client.head(&image).await.unwrap().unwrap();
    }
    assert_eq!(client.traffic().requests, first + 5);
}

#[tokio::test]
async fn a_download_that_breaks_at_a_mirror_continues_at_the_registry() {
    let (own, mirror) = (lab(Settings::default()), lab(Settings::default()));
    let (blob, content) = stored_blob(&own, "a", 300_000);
    stored_blob(&mirror, "a", 300_000);
    let gets = || Fault::on(http::Method::GET, "/blobs/");
    mirror.fault(gets().times(1).does(Effect::CutAfter(100_000)));
    mirror.fault(gets().after(1).does(Effect::status(404)));
    let client = under(&mirrored(&host(&own), &[host(&mirror)]), Side::Source, false);
    assert_eq!(fetch(&client, &location(&own, "a"), blob, 0).await.unwrap(), content);
    assert_eq!(own.requests().0[0].headers["range"], "bytes=100000-");
}

#[tokio::test]
async fn when_every_place_fails_the_error_lists_each() {
    let (own, mirror) = (lab(Settings::default()), lab(Settings::default()));
    own.fault(Fault::on_any("").does(Effect::status(500)));
    let conf = mirrored(&host(&own), &[format!("{}/m", host(&mirror)), "127.0.0.1:1/x".into()]);
    let client = under(&conf, Side::Source, false);
    let error = client.manifest(&own.image("a", "v1").unwrap()).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error.last(), Error::Everywhere { .. }), "{text}");
    assert!(text.contains(&format!("{}/m/a does not have it", host(&mirror))), "{text}");
    assert!(
        text.contains("127.0.0.1:1/v2/x/a/manifests/v1: http request failed: no connection"),
        "{text}"
    );
    assert!(text.contains("500 Internal Server Error"), "{text}");
    assert_eq!(client.traffic().retries, 3);
}

#[tokio::test]
async fn what_a_mirror_lacks_of_attachments_is_not_there_where_only_mirrors_are_reached() {
    let behaviour = Behaviour::DOCKER_2_8;
    let mirror = lab(Settings { behaviour, ..Settings::default() });
    let image = Image::tiny("x").unwrap();
    mirror.put_image(&image, "a", "v1").unwrap();
    let client = under(&mirrored("127.0.0.1:1", &[host(&mirror)]), Side::Source, false);
    let at =
        |reference: &str| -> oci::ImageRef { format!("127.0.0.1:1/a{reference}").parse().unwrap() };
    assert!(client.attachment(&at(":v1")).await.unwrap().is_some());
    assert_eq!(client.attachment(&at(":sig")).await.unwrap(), None);
    let of = registry::Location::from(&at(":v1"));
    let pages = std::num::NonZeroUsize::MIN;
    assert_eq!(client.referrers(&of, &image.digest()).await.unwrap(), None);
    assert_eq!(client.tags(&of, pages).await.unwrap().tags.len(), 1);
    assert_eq!(client.traffic().retries, 0);
    // An image itself is another matter: it may or may not exist.
    assert!(client.manifest(&at(":v2")).await.is_err());
}

#[tokio::test]
async fn writing_follows_the_location_and_no_mirror() {
    let (own, mirror) = (lab(Settings::default()), lab(Settings::default()));
    let conf = format!(
        "[[registry]]\nprefix = \"registry.example/ocp\"\nlocation = \"{}/inner\"\ninsecure = true\n\
         [[registry.mirror]]\nlocation = \"{}\"\n",
        host(&own),
        host(&mirror)
    );
    let client = under(&conf, Side::Destination, true);
    let to: oci::ImageRef = "registry.example/ocp/a:v1".parse().unwrap();
    let list = oci::referrers_index(vec![]);
    client.put_manifest(&to, &list).await.unwrap();
    assert_eq!(client.head(&to).await.unwrap().unwrap().digest, list.digest);
    assert_eq!(mirror.requests().count(), 0);
    let paths: Vec<_> = own.requests().0.into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v2/inner/a/manifests/v1", "/v2/inner/a/manifests/v1"]);
}

#[tokio::test]
async fn insecure_is_for_the_registry_it_is_set_for_and_no_other() {
    let (marked, other) = (lab(Settings::default()), lab(Settings::default()));
    for registry in [&marked, &other] {
        registry.put_image(&Image::tiny("x").unwrap(), "a", "v1").unwrap();
    }
    let conf = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", host(&marked));
    let client = under(&conf, Side::Source, true);
    assert!(client.head(&marked.image("a", "v1").unwrap()).await.unwrap().is_some());
    let error = client.head(&other.image("a", "v1").unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("the response is not TLS"), "{error}");
    assert_eq!(other.requests().count(), 0);
}

#[tokio::test]
async fn a_blocked_registry_is_not_contacted() {
    let own = lab(Settings::default());
    let conf = format!("[[registry]]\nlocation = \"{}\"\nblocked = true\n", host(&own));
    let client = under(&conf, Side::Source, false);
    let error = client.head(&own.image("a", "v1").unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("is blocked by registries.conf"), "{error}");
    assert_eq!(own.requests().count(), 0);
}

#[tokio::test]
async fn an_unreachable_registry_is_named_with_the_reason() {
    let settings = registry::Settings {
        retry: Retry { times: 0, delay: None },
        ..crate::settings(Side::Source)
    };
    let client = Client::open(settings).unwrap();
    let error = client.head(&"127.0.0.1:1/a:v1".parse().unwrap()).await.unwrap_err();
    let text = error.chain();
    assert!(
        text.starts_with(
            "HEAD https://127.0.0.1:1/v2/a/manifests/v1: http request failed: no connection"
        ),
        "{text}"
    );
    assert!(text.ends_with(": connection refused"), "{text}");
    assert!(error.is_retryable());
}
