//! Credentials that are wrong, missing, expired or renewed: the error
//! names which were used, and no secret is ever printed or sent elsewhere.

use crate::support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use http::Method;
use lab::images::Image;
use lab::registry::{Auth, Bearer, Credentials, Effect, Fault, LabRegistry, Settings};
use support::under_way::UnderWay;
use support::{PLAIN, Ran, Site};

const PASSWORD: &str = "correct-horse-battery";
const WRONG: &str = "wrong-pony-accumulator";
const QUICK: &str = "--retry-times 1 --retry-delay 10ms";

fn registry(auth: Auth) -> LabRegistry {
    LabRegistry::start(Settings { auth, ..Settings::default() }).unwrap()
}

fn right() -> Credentials {
    Credentials::new("carrier", PASSWORD)
}

/// A machine whose configuration names `count` images of the registry.
fn site(registry: &LabRegistry, count: usize) -> Site {
    let site = Site::new();
    let names: Vec<String> = (0..count).map(|n| format!("org/image-{n}")).collect();
    for name in &names {
        registry.put_image(&Image::tiny(name).unwrap(), name, "v1").unwrap();
    }
    let images: Vec<_> = names.iter().map(|name| registry.image(name, "v1").unwrap()).collect();
    site.images("isc.yaml", &images);
    site
}

/// Writes an authfile as `podman login` does.
fn authfile(site: &Site, name: &str, registry: &LabRegistry, password: &str) {
    let pair = base64(&format!("carrier:{password}"));
    let text = format!(r#"{{"auths": {{"{}": {{"auth": "{pair}"}}}}}}"#, registry.address());
    // Renamed into place, so that no reader sees half of it.
    let path = site.write(&format!("{name}.new"), &text);
    fs::rename(path, site.path(name)).unwrap();
}

fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Neither the output nor a file the program wrote has a secret in it.
fn nothing_leaked(site: &Site, ran: &Ran, secrets: &[&str]) {
    let encoded: Vec<String> = secrets.iter().map(|s| base64(&format!("carrier:{s}"))).collect();
    let secrets: Vec<&str> =
        secrets.iter().copied().chain(encoded.iter().map(String::as_str)).collect();
    for secret in &secrets {
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{}\n{}", ran.out, ran.err);
    }
    let mut seen = 0;
    search(&site.path("data"), &secrets, &mut seen);
    assert!(seen > 2, "there were logs to check");
}

fn search(directory: &Path, secrets: &[&str], seen: &mut usize) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, secrets, seen);
            continue;
        }
        *seen += 1;
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        for secret in secrets {
            assert!(!text.contains(secret), "{} holds a secret", path.display());
        }
    }
}

#[test]
fn a_wrong_password_is_reported_with_the_file_it_came_from_and_never_printed() {
    for auth in [Auth::Basic(right()), Auth::Bearer(Bearer::new(right()))] {
        let registry = registry(auth);
        let site = site(&registry, 1);
        authfile(&site, "auth.json", &registry, WRONG);
        let ran = site.run(&format!(
            "-c isc.yaml {PLAIN} {QUICK} --log-level trace --authfile auth.json file://data"
        ));
        assert_eq!(ran.code, 8, "{}", ran.err);
        let error = ran.image("org/image-0")["error"].as_str().unwrap().to_owned();
        assert!(error.contains("401"), "{error}");
        assert!(error.contains("auth.json"), "{error}");
        assert!(error.contains(&registry.address().to_string()), "{error}");
        nothing_leaked(&site, &ran, &[WRONG]);
    }
}

#[test]
fn a_password_on_the_command_line_is_used_and_never_printed() {
    let registry = registry(Auth::Bearer(Bearer::new(right())));
    let site = site(&registry, 1);
    for (flag, code) in [
        (format!("--src-creds carrier:{WRONG}"), 8),
        (format!("--src-username carrier --src-password {WRONG}"), 8),
        (format!("--src-creds carrier:{PASSWORD}"), 0),
    ] {
        let ran =
            site.run(&format!("-c isc.yaml {PLAIN} {QUICK} --log-level trace {flag} file://data"));
        assert_eq!(ran.code, code, "{}", ran.err);
        if code != 0 {
            let error = ran.image("org/image-0")["error"].as_str().unwrap().to_owned();
            assert!(error.contains("given on the command line"), "{error}");
        }
        nothing_leaked(&site, &ran, &[WRONG, PASSWORD]);
    }
}

#[test]
fn missing_credentials_are_reported_with_where_they_were_searched() {
    for auth in [Auth::Basic(right()), Auth::Bearer(Bearer::new(right()))] {
        let registry = registry(auth);
        let site = site(&registry, 1);
        let ran = site.run(&format!("-c isc.yaml {PLAIN} {QUICK} file://data"));
        assert_eq!(ran.code, 8, "{}", ran.err);
        let error = ran.image("org/image-0")["error"].as_str().unwrap().to_owned();
        assert!(error.contains("401"), "{error}");
        assert!(error.contains("no credentials"), "{error}");
    }
}

#[test]
fn a_forbidden_repository_fails_its_image_and_does_not_count_as_absent() {
    let registry = registry(Auth::Basic(right()));
    let site = site(&registry, 2);
    authfile(&site, "auth.json", &registry, PASSWORD);
    registry.fault(Fault::on_any("/org/image-0/").does(Effect::status(403)));
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {QUICK} --authfile auth.json file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    let error = ran.image("org/image-0")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("403") && error.contains("auth.json"), "{error}");
    assert_eq!(ran.image("org/image-1")["outcome"], "copied");
}

#[test]
fn an_authfile_that_cannot_be_used_ends_the_run_before_it_begins() {
    let registry = registry(Auth::None);
    let site = site(&registry, 1);
    site.write("broken.json", "{\"auths\": ");
    for (file, expected) in [("missing.json", "missing.json"), ("broken.json", "broken.json")] {
        let ran = site.run(&format!("-c isc.yaml {PLAIN} --authfile {file} file://data"));
        assert_ne!(ran.code, 0, "{file}");
        assert!(
            ran.out.contains(expected) || ran.err.contains(expected),
            "{}\n{}",
            ran.out,
            ran.err
        );
        assert_eq!(registry.requests().count(), 0, "{file}");
    }
}

#[test]
fn tokens_that_run_out_in_the_middle_are_renewed() {
    for bearer in [
        Bearer { requests: Some(4), ..Bearer::new(right()) },
        Bearer { lifetime: Duration::from_millis(300), ..Bearer::new(right()) },
    ] {
        let registry = registry(Auth::Bearer(bearer.clone()));
        let site = site(&registry, 6);
        registry.fault(
            Fault::on(Method::GET, "/blobs/").after(4).times(2).does(Effect::ExpireTokensNow),
        );
        registry.fault(
            Fault::on(Method::GET, "/blobs/").does(Effect::Delay(Duration::from_millis(100))),
        );
        authfile(&site, "auth.json", &registry, PASSWORD);
        site.succeeds(&format!("-c isc.yaml {PLAIN} --authfile auth.json file://data"));

        // Uploads hold a token for longer than anything else does.
        let target = self::registry(Auth::Bearer(bearer));
        authfile(&site, "target.json", &target, PASSWORD);
        target.fault(
            Fault::on(Method::PUT, "/blobs/uploads/")
                .after(2)
                .times(2)
                .does(Effect::ExpireTokensNow),
        );
        let to = target.address();
        site.succeeds(&format!(
            "-c isc.yaml {PLAIN} --authfile target.json --from file://data docker://{to}"
        ));
        // skopeo does not support such tokens; what the registry accepted, it has checked.
        let requested = target.requests();
        let taken = requested.of(&Method::PUT, "/manifests/v1").filter(|put| put.status == 201);
        assert_eq!(taken.count(), 6);
    }
}

#[test]
fn credentials_renewed_during_a_run_are_used_by_it() {
    let registry = registry(Auth::Basic(right()));
    let site = site(&registry, 1);
    authfile(&site, "auth.json", &registry, WRONG);
    // The first response is slow; meanwhile the user logs in again.
    let busy = Effect::too_many_requests(1);
    registry.fault(Fault::on_any("/manifests/").times(1).does(busy));
    let line = format!(
        "-c isc.yaml {PLAIN} --retry-times 3 --retry-delay 10ms --authfile auth.json file://data"
    );
    let mut run = UnderWay::start(&site, &line);
    run.until("the registry received a request", || registry.requests().count() > 0);
    authfile(&site, "auth.json", &registry, PASSWORD);
    let ran = run.end();
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
}

#[test]
fn a_redirect_takes_no_credentials_to_another_host() {
    for auth in [Auth::Basic(right()), Auth::Bearer(Bearer::new(right()))] {
        let storage = registry(Auth::None);
        let registry = registry(auth);
        let site = site(&registry, 2);
        for n in 0..2 {
            let name = format!("org/image-{n}");
            storage.put_image(&Image::tiny(&name).unwrap(), &name, "v1").unwrap();
        }
        registry.fault(
            Fault::on(Method::GET, "/blobs/").does(Effect::RedirectTo(storage.url().to_owned())),
        );
        authfile(&site, "auth.json", &registry, PASSWORD);
        let ran = site.succeeds(&format!(
            "-c isc.yaml {PLAIN} --log-level trace --authfile auth.json file://data"
        ));
        let moved = storage.requests();
        assert!(moved.of(&Method::GET, "/blobs/").count() >= 2, "{moved:?}");
        assert!(moved.0.iter().all(|request| !request.had_authorization()), "{moved:?}");
        nothing_leaked(&site, &ran, &[PASSWORD]);
    }
}

#[test]
fn the_credentials_of_one_side_are_not_given_to_the_other() {
    let source = registry(Auth::None);
    let target = registry(Auth::Basic(right()));
    let site = site(&source, 1);
    authfile(&site, "auth.json", &target, PASSWORD);
    let to = target.address();
    let copy = format!("-c isc.yaml {PLAIN} {QUICK} --workspace file://data docker://{to}");
    site.succeeds(&format!("--authfile auth.json {copy}"));
    assert!(source.requests().0.iter().all(|request| !request.had_authorization()));
    // A password given for the source is not used for the destination.
    let ran = site.run(&format!("--src-creds carrier:{PASSWORD} {copy}"));
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert!(ran.out.contains("401"), "{}", ran.out);
}
