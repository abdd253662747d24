//! Registries that cannot be reached or trusted: which one, and why. What was
//! disabled for one side stays enabled for the other.

use crate::support;

use std::net::TcpListener;
use std::sync::Arc;

use lab::certificates::Authority;
use lab::images::Image;
use lab::registry::{LabRegistry, Settings};
use support::Site;

const QUICK: &str = "--retry-times 1 --retry-delay 10ms";

fn plain() -> LabRegistry {
    LabRegistry::start(Settings::default()).unwrap()
}

/// A registry with a certificate of its own authority.
fn private() -> (LabRegistry, Arc<Authority>) {
    let authority = Arc::new(Authority::generate().unwrap());
    let settings = Settings { tls: Some(authority.clone()), ..Settings::default() };
    (LabRegistry::start(settings).unwrap(), authority)
}

fn push_images(site: &Site, registry: &LabRegistry) {
    registry.put_image(&Image::tiny("one").unwrap(), "org/one", "v1").unwrap();
    site.images("isc.yaml", &[registry.image("org/one", "v1").unwrap()]);
}

fn error_of(site: &Site, line: &str) -> String {
    failure(site, line).0
}

/// The error of a run that fails, and the number of its retries.
fn failure(site: &Site, line: &str) -> (String, u64) {
    let ran = site.run(line);
    assert_ne!(ran.code, 0, "{line}: {}", ran.out);
    let failed = ran.report()["images"].as_array().unwrap().first().cloned().unwrap_or_default();
    let error = format!("{}{}", ran.errors(), failed["error"].as_str().unwrap_or_default());
    (error, ran.total("retries"))
}

#[test]
fn a_registry_that_cannot_be_reached_is_named_after_as_many_retries_as_requested() {
    let site = Site::new();
    // A port that was free a moment ago.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (host, expected) in
        [(closed.to_string(), "refused"), ("registry.invalid".to_owned(), "registry.invalid")]
    {
        site.images("isc.yaml", &[format!("{host}/org/one:v1")]);
        let (error, retries) = failure(&site, &format!("-c isc.yaml {QUICK} file://data"));
        assert!(error.contains(&host) && error.contains(expected), "{error}");
        assert!(retries <= 1, "{retries} retries: {error}");
    }
    let source = plain();
    push_images(&site, &source);
    let error = error_of(
        &site,
        &format!(
            "-c isc.yaml {QUICK} --src-tls-verify=false --workspace file://copy docker://{closed}"
        ),
    );
    assert!(error.contains(&closed.to_string()) && error.contains("refused"), "{error}");
}

#[test]
fn an_unknown_authority_is_distinguished_from_other_failures_and_can_be_trusted() {
    let (source, authority) = private();
    let site = Site::new();
    push_images(&site, &source);
    let error = error_of(&site, &format!("-c isc.yaml {QUICK} file://data"));
    assert!(error.contains("certificate"), "{error}");
    assert!(error.contains(&source.address().to_string()), "{error}");
    assert_eq!(source.requests().count(), 0);
    // The same run, after the administrator put the authority where it belongs.
    site.trust(source.address(), &authority);
    site.succeeds(&format!("-c isc.yaml {QUICK} file://data"));
}

#[test]
fn a_certificate_for_another_host_or_time_is_refused_with_the_reason() {
    let new = || Authority::generate().unwrap();
    for (authority, expected) in [
        (new().naming_servers("elsewhere.example"), "not valid for name"),
        (new().with_expired_servers(), "expired"),
    ] {
        let authority = Arc::new(authority);
        let settings = Settings { tls: Some(authority.clone()), ..Settings::default() };
        let source = LabRegistry::start(settings).unwrap();
        let site = Site::new();
        push_images(&site, &source);
        site.trust(source.address(), &authority);
        let error = error_of(&site, &format!("-c isc.yaml {QUICK} file://data"));
        assert!(error.contains("certificate") && error.contains(expected), "{error}");
        assert_eq!(source.requests().count(), 0);
    }
}

#[test]
fn plain_http_needs_to_be_allowed() {
    let source = plain();
    let site = Site::new();
    push_images(&site, &source);
    let error = error_of(&site, &format!("-c isc.yaml {QUICK} file://data"));
    assert!(error.contains("--src-tls-verify=false") || error.contains("HTTP"), "{error}");
    site.succeeds("-c isc.yaml --src-tls-verify=false file://data");
}

#[test]
fn what_is_switched_off_for_one_side_stays_on_for_the_other() {
    let (source, source_authority) = private();
    let (target, target_authority) = private();
    let copy = format!("-c isc.yaml {QUICK} --workspace file://data docker://{}", target.address());

    let site = Site::new();
    push_images(&site, &source);
    let error = error_of(&site, &format!("--src-tls-verify=false {copy}"));
    assert!(error.contains(&target.address().to_string()), "{error}");
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(target.requests().count(), 0);

    let error = error_of(&site, &format!("--dest-tls-verify=false {copy}"));
    assert!(error.contains(&source.address().to_string()), "{error}");
    assert!(error.contains("certificate"), "{error}");
    // Only HEAD requests were sent to it: nothing was pushed.
    assert_eq!(target.requests().count(), target.requests().heads());

    // Verification disabled for one, the other trusted: that is enough, in both directions.
    site.trust(target.address(), &target_authority);
    site.succeeds(&format!("--src-tls-verify=false {copy}"));
    let site = Site::new();
    push_images(&site, &source);
    site.trust(source.address(), &source_authority);
    site.succeeds(&format!("--dest-tls-verify=false {copy}"));
}
