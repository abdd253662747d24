//! Archives in an object store: from registries into a bucket, and from the bucket into a registry.

use crate::support;

use std::fs;
use std::process::Command;

use lab::corpus::Corpus;
use lab::images::SigningKey;
use lab::object_store::ObjectStore;
use lab::registry::{LabRegistry, Settings};

use support::{PLAIN, Ran, Site, visible_names};

fn with_credentials<'a>(command: &'a mut Command, store: &ObjectStore) -> &'a mut Command {
    command
        .env("AWS_ACCESS_KEY_ID", ObjectStore::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", ObjectStore::SECRET_KEY)
        .env("AWS_ENDPOINT_URL", store.url())
        .env("AWS_ALLOW_HTTP", "true")
}

fn run(site: &Site, store: &ObjectStore, line: &str) -> Ran {
    let mut command = site.command(&format!("--output=json {line}"));
    Ran::of(with_credentials(&mut command, store).output().unwrap())
}

#[test]
fn archives_pass_through_a_bucket_and_only_new_ones_are_transferred() {
    let mut corpus = Corpus::sample(&SigningKey::generate().unwrap()).unwrap();
    let registry = || LabRegistry::start(Settings::default()).unwrap();
    let (source, direct, through) = (registry(), registry(), registry());
    corpus.fill(&source).unwrap();
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let (connected, disconnected) = (Site::new(), Site::new());
    let configuration = corpus.image_set(&source.host().unwrap());
    for site in [&connected, &disconnected] {
        site.write("isc.yaml", &configuration);
    }
    connected.succeeds(&format!(
        "-c isc.yaml {PLAIN} --workspace file://direct docker://{}",
        direct.address()
    ));

    let out = format!("-c isc.yaml {PLAIN} --workspace file://data s3://mirror/site-1");
    let ran = run(&connected, &store, &out);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let names = || visible_names(&bucket.join("site-1"));
    assert_eq!(names(), ["mirror_000001.tar"]);
    let stored = fs::read(bucket.join("site-1/mirror_000001.tar")).unwrap();
    assert_eq!(stored, fs::read(connected.path("data/mirror_000001.tar")).unwrap());

    let into = format!(
        "-c isc.yaml {PLAIN} --from s3://mirror/site-1 --workspace file://data docker://{}",
        through.address()
    );
    let ran = run(&disconnected, &store, &into);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(through.content(), direct.content());

    // The next run adds an archive, and the other side fetches that one only.
    corpus.change_one(1).unwrap();
    corpus.fill(&source).unwrap();
    assert_eq!(run(&connected, &store, &out).code, 0);
    assert_eq!(names(), ["mirror_000001.tar", "mirror_000002.tar"]);
    let ran = run(&disconnected, &store, &into);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("fetching mirror_000002.tar"), "{}", ran.err);
    assert!(!ran.err.contains("fetching mirror_000001.tar"), "{}", ran.err);
    assert_eq!(ran.total("copied"), 1);

    // A chunk that is missing on the other side is reported before anything is pushed.
    let (late, empty) = (Site::new(), registry());
    late.write("isc.yaml", &configuration);
    fs::remove_file(bucket.join("site-1/mirror_000001.tar")).unwrap();
    let ran = run(
        &late,
        &store,
        &into.replace(&through.address().to_string(), &empty.address().to_string()),
    );
    assert_ne!(ran.code, 0);
    assert!(empty.content().is_empty());
}

#[test]
fn a_bucket_that_does_not_exist_is_reported_before_the_run() {
    let store = ObjectStore::start().unwrap();
    store.bucket("empty").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &["127.0.0.1:1/a/b:1"]);
    let ran =
        run(&site, &store, &format!("-c isc.yaml {PLAIN} --workspace file://data s3://absent/x"));
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("the bucket of s3://absent/x does not exist"), "{}", ran.err);
    assert!(!site.path("data/working-dir/plans").exists());
    let line = format!(
        "-c isc.yaml {PLAIN} --from s3://empty/x --workspace file://data docker://127.0.0.1:1"
    );
    let ran = run(&site, &store, &line);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("s3://empty/x has no archives"), "{}", ran.err);
}
