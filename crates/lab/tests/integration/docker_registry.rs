//! docker-registry as a child process, checked with skopeo.

use crate::skopeo;

use std::fs;
use std::process::Command;
use std::sync::Arc;

use lab::certificates::Authority;
use lab::corpus::Corpus;
use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::{Image, SigningKey};
use lab::netns::Isolated;
use lab::registry::{self, Credentials, LabRegistry};
use skopeo::{skopeo, skopeo_fails};

#[test]
fn skopeo_reads_what_was_put_on_its_disk_and_what_it_wrote_itself() {
    let registry = DockerRegistry::start(&Settings::default()).unwrap();
    let corpus = Corpus::shaped(10_000).unwrap();
    registry.storage().put_corpus(&corpus).unwrap();
    let host = registry.host().unwrap();
    for (reference, entry) in corpus.references(&host).zip(&corpus.entries).step_by(9) {
        let raw = ["inspect", "--raw", "--tls-verify=false"];
        let copied = format!("docker://{host}/copied/image:v1");
        let original = format!("docker://{reference}");
        assert_eq!(
            skopeo(&[raw[0], raw[1], raw[2], &original]).as_bytes(),
            entry.image.root().bytes
        );
        skopeo(&[
            "copy",
            "-q",
            "--all",
            "--src-tls-verify=false",
            "--dest-tls-verify=false",
            &original,
            &copied,
        ]);
        assert_eq!(skopeo(&[raw[0], raw[1], raw[2], &copied]).as_bytes(), entry.image.root().bytes);
    }
    let log = fs::read_to_string(registry.access_log()).unwrap();
    assert!(log.contains("\"PUT /v2/copied/image/manifests/v1"), "{log}");
    registry.wipe().unwrap();
    let gone = format!("docker://{host}/copied/image:v1");
    assert!(skopeo_fails(&["inspect", "--tls-verify=false", &gone]).contains("manifest unknown"));
}

#[test]
fn tls_and_a_password_are_required_where_they_are_set() {
    let authority = Arc::new(Authority::generate().unwrap());
    let settings = Settings {
        tls: Some(authority.clone()),
        credentials: Some(Credentials::new("me", "secret")),
        ..Settings::default()
    };
    let registry = DockerRegistry::start(&settings).unwrap();
    registry.put_image(&Image::tiny("x").unwrap(), "a/x", "v1").unwrap();
    let dir = tempfile::tempdir().unwrap();
    authority.write_certs_dir(dir.path(), None).unwrap();
    let certs = format!("--cert-dir={}", dir.path().display());
    let image = format!("docker://{}", registry.image("a/x", "v1").unwrap());
    skopeo(&["inspect", &certs, "--creds=me:secret", &image]);
    assert!(skopeo_fails(&["inspect", &certs, &image]).contains("authentication required"));
    assert!(skopeo_fails(&["inspect", "--creds=me:secret", &image]).contains("x509"));
}

#[test]
fn its_content_outlives_it_and_it_is_killed_when_dropped() {
    let storage = tempfile::tempdir().unwrap();
    let settings = Settings { storage: Some(storage.path().into()), ..Settings::default() };
    let first = DockerRegistry::start(&settings).unwrap();
    first.put_image(&Image::tiny("x").unwrap(), "a/x", "v1").unwrap();
    let (pid, port) = (first.pid(), first.address().port());
    drop(first);
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    let again = DockerRegistry::start(&Settings { port: Some(port), ..settings }).unwrap();
    let image = format!("docker://{}", again.image("a/x", "v1").unwrap());
    skopeo(&["inspect", "--tls-verify=false", &image]);
}

#[test]
fn attachments_are_found_under_their_tags() {
    let key = SigningKey::generate().unwrap();
    let image = Image::tiny("x").unwrap().signed(&key, "quay.io/a/x").unwrap();
    let image = image.attested(&key).unwrap().with_sbom().unwrap();
    let registry = DockerRegistry::start(&Settings::default()).unwrap();
    registry.put_image(&image, "a/x", "v1").unwrap();
    for suffix in ["sig", "att", "sbom"] {
        let tag = oci::Tag::of_attachment(&image.digest(), suffix);
        let image = format!("docker://{}", registry.image("a/x", tag.as_str()).unwrap());
        skopeo(&["inspect", "--raw", "--tls-verify=false", &image]);
    }
}

#[test]
fn in_a_namespace_only_its_own_loopback_is_reached() {
    let outside = DockerRegistry::start(&Settings::default()).unwrap();
    let isolated = Isolated::new().unwrap();
    let inside = DockerRegistry::start_in(&isolated, &Settings::default()).unwrap();
    let listener = Some(isolated.listener().unwrap());
    let ours = LabRegistry::start(registry::Settings { listener, ..Default::default() }).unwrap();
    ours.put_image(&Image::tiny("x").unwrap(), "a/x", "v1").unwrap();
    let copy = |from: String, to: String| {
        isolated
            .command("skopeo")
            .args(["--insecure-policy", "copy", "-q", "--src-tls-verify=false"])
            .args(["--dest-tls-verify=false", &from, &to])
            .output()
            .unwrap()
    };
    let from = || format!("docker://{}", ours.image("a/x", "v1").unwrap());
    let arrived = copy(from(), format!("docker://{}", inside.image("b/x", "v1").unwrap()));
    assert!(arrived.status.success(), "{arrived:?}");
    let refused = copy(from(), format!("docker://{}", outside.image("b/x", "v1").unwrap()));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("connection refused"), "{why}");
    let routes = isolated.command("ip").args(["route", "show"]).output().unwrap();
    assert!(routes.stdout.is_empty());
    assert!(!Command::new("ip").args(["route", "show"]).output().unwrap().stdout.is_empty());
}
