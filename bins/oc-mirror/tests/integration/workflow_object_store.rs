//! Archives in an object store: from registries into a bucket, and from the bucket into a registry.

use crate::support;

use std::fs;
use std::process::Command;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Uri};
use lab::certificates::Authority;
use lab::corpus::Corpus;
use lab::document_server::{self, Document, DocumentServer, DocumentSource};
use lab::images::{Compression, Format, Image, Layer, SigningKey};
use lab::object_store::ObjectStore;
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use oci::Platform;

use support::under_way::UnderWay;
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

/// A machine with an image to mirror, and the registry that has it.
fn with_image(layer_bytes: u64) -> (Site, LabRegistry) {
    let source = LabRegistry::start(Settings::default()).unwrap();
    let layer = Layer::generate("large", layer_bytes, Compression::None).unwrap();
    let image = Image::new(Format::Oci, Platform::new("linux", "amd64"), &[layer]).unwrap();
    source.put_image(&image, "org/image", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("org/image", "v1").unwrap()]);
    (site, source)
}

#[test]
fn a_workspace_is_chosen_where_none_is_named() {
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let (site, source) = with_image(1000);
    let ran = run(&site, &store, &format!("-c isc.yaml {PLAIN} s3://mirror/site-1"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let state = site.path("home/.local/state/oc-mirror/workspaces");
    assert!(ran.err.contains(&state.join("s3/mirror/site-1").display().to_string()), "{}", ran.err);
    assert_eq!(visible_names(&bucket.join("site-1")), ["mirror_000001.tar"]);
    let to = LabRegistry::start(Settings::default()).unwrap();
    let line = format!("-c isc.yaml {PLAIN} --from s3://mirror/site-1 docker://{}", to.address());
    let ran = run(&site, &store, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(state.join("from-s3/mirror/site-1/mirror_000001.tar").exists());
    assert_eq!(to.content(), source.content());
    // The next run continues in the same workspace.
    let ran = run(&site, &store, &format!("-c isc.yaml {PLAIN} s3://mirror/site-1"));
    assert_eq!((ran.code, ran.total("copied")), (0, 0), "{}", ran.err);
}

#[test]
fn credentials_come_from_a_file_and_a_profile_of_it() {
    let store = ObjectStore::start().unwrap();
    store.bucket("mirror").unwrap();
    let (site, _source) = with_image(1000);
    fs::create_dir_all(site.path("home/.aws")).unwrap();
    let text = format!(
        "[default]\naws_access_key_id = {}\naws_secret_access_key = wrong\n\n[night]\naws_access_key_id = {0}\naws_secret_access_key = {}\n",
        ObjectStore::ACCESS_KEY,
        ObjectStore::SECRET_KEY,
    );
    site.write("home/.aws/credentials", &text);
    let to = |prefix: &str| {
        let line = format!(
            "--output=json -c isc.yaml {PLAIN} --workspace file://{prefix} --s3-endpoint {} s3://mirror/{prefix}",
            store.url()
        );
        site.command(&line)
    };
    let ran = Ran::of(to("a").env("AWS_PROFILE", "night").output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = Ran::of(to("b").output().unwrap());
    assert!(ran.code == 1 && ran.err.contains("SignatureDoesNotMatch"), "{}", ran.err);
    let ran = Ran::of(to("c").env("AWS_PROFILE", "day").output().unwrap());
    assert!(ran.code == 1 && ran.err.contains("has no profile \"day\""), "{}", ran.err);
    assert!(!ran.err.contains(ObjectStore::SECRET_KEY), "{}", ran.err);
    let file = site.path("elsewhere");
    fs::rename(site.path("home/.aws/credentials"), &file).unwrap();
    let mut command = to("d");
    command.env("AWS_PROFILE", "night").env("AWS_SHARED_CREDENTIALS_FILE", &file);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
}

/// Replaces a security token service: a client with a token gets the credentials of the store.
struct TokenService;

impl DocumentSource for TokenService {
    fn find(&self, uri: &Uri) -> Option<Document> {
        let query = uri.query()?;
        let expected = ["Action=AssumeRoleWithWebIdentity", "WebIdentityToken=from-the-cluster"];
        if !expected.iter().all(|part| query.contains(part)) {
            return None;
        }
        let text = format!(
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
             <AccessKeyId>{}</AccessKeyId><SecretAccessKey>{}</SecretAccessKey>\
             <SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>\
             </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
            ObjectStore::ACCESS_KEY,
            ObjectStore::SECRET_KEY,
        );
        Some(Document { kind: "text/xml", bytes: text.into() })
    }
}

#[test]
fn credentials_come_from_a_web_identity() {
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let (site, _source) = with_image(1000);
    let authority = Arc::new(Authority::generate().unwrap());
    let ca = site.write("ca.crt", authority.pem());
    let settings = document_server::Settings { tls: Some(authority), listener: None };
    let service = DocumentServer::start(Arc::new(TokenService), settings).unwrap();
    let token = site.write("token", "from-the-cluster");
    let line = format!(
        "-c isc.yaml {PLAIN} --workspace file://data --s3-endpoint {} --s3-ca {} s3://mirror/x",
        store.url(),
        ca.display()
    );
    let mut command = site.command(&line);
    command
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", &token)
        .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/mirror")
        .env("AWS_ENDPOINT_URL_STS", format!("https://{}", service.address()));
    let ran = Ran::of(command.output().unwrap());
    // versitygw has no temporary credentials: its response shows that they were requested and sent.
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("(InvalidToken)"), "{}", ran.err);
    assert_eq!(visible_names(&bucket), [] as [&str; 0]);
}

#[test]
fn a_store_with_a_certificate_of_its_own_authority_is_trusted_when_given() {
    let authority = Authority::generate().unwrap();
    let store = ObjectStore::start_with_tls(&authority).unwrap();
    store.bucket("mirror").unwrap();
    let (site, _source) = with_image(1000);
    let ca = site.write("ca.crt", authority.pem());
    let line =
        |more: &str| format!("-c isc.yaml {PLAIN} --workspace file://data {more} s3://mirror/x");
    let ran = run(&site, &store, &line(""));
    assert!(ran.code == 1 && ran.err.contains("certificate"), "{}", ran.err);
    let ran = run(&site, &store, &line(&format!("--s3-ca {}", ca.display())));
    assert_eq!(ran.code, 0, "{}", ran.err);
}

/// Parts of uploads that are not completed, as versitygw keeps them.
fn unfinished_parts(bucket: &std::path::Path) -> usize {
    let mut folders = vec![bucket.join(".sgwtmp/multipart")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => count += 1,
            }
        }
    }
    count
}

#[test]
fn parts_that_a_killed_process_left_are_removed_by_the_next_one() {
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    // Several parts of 32 MiB.
    let (site, _source) = with_image(150 << 20);
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data s3://mirror/x");
    let mut command = site.command(&line);
    let mut child = with_credentials(&mut command, &store)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let note = bucket.join("x/mirror_000001.tar.upload");
    while !(note.exists() && unfinished_parts(&bucket) > 0) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before a part was stored");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(note.exists() && unfinished_parts(&bucket) > 0);
    assert!(!bucket.join("x/mirror_000001.tar").exists());
    let ran = run(&site, &store, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(visible_names(&bucket.join("x")), ["mirror_000001.tar"]);
    assert_eq!(unfinished_parts(&bucket), 0);
    let stored = fs::read(bucket.join("x/mirror_000001.tar")).unwrap();
    assert_eq!(stored, fs::read(site.path("data/mirror_000001.tar")).unwrap());
}

/// The claim of a run elsewhere, renewed at this time.
pub(crate) fn claim_of_another(renewed: jiff::Timestamp) -> String {
    serde_json::json!({
        "run": "other.example:/data", "owner": "other.example:/data",
        "started": renewed, "renewed": renewed, "hasEnded": false,
    })
    .to_string()
}

/// The last renewal of a claim that has expired.
pub(crate) fn long_ago() -> jiff::Timestamp {
    jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1)
}

#[test]
fn a_second_run_to_a_bucket_is_rejected_and_archives_of_others_are_never_replaced() {
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let (site, source) = with_image(1000);
    let delay = Effect::Delay(Duration::from_millis(500));
    source.fault(Fault::on(Method::GET, "/blobs/").does(delay));
    let line = |workspace: &str, prefix: &str| {
        format!(
            "--output=json -c isc.yaml {PLAIN} --shards 2 --workspace file://{workspace} s3://mirror/{prefix}"
        )
    };
    let mut command = site.command(&line("data", "x"));
    let command = with_credentials(&mut command, &store);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = UnderWay::of(child);
    let claim = bucket.join("x/oc-mirror-runs/active.json");
    first.until("the bucket is claimed", || claim.exists());
    let run = |line: &str| {
        let mut command = site.command(line);
        Ran::of(with_credentials(&mut command, &store).output().unwrap())
    };
    let second = run(&line("elsewhere", "x"));
    assert_eq!(second.code, 1, "{}", second.err);
    for part in ["s3://mirror/x/oc-mirror-runs/active.json is claimed", "/data mirrors to this"] {
        assert!(second.err.contains(part), "{part}: {}", second.err);
    }
    // The same workspace is locked. Its command does not change the claim.
    let same = run(&line("data", "x"));
    assert!(same.code == 1 && same.err.contains("is in use by process"), "{}", same.err);
    let second = run(&line("elsewhere", "x"));
    assert!(second.code == 1 && second.err.contains("is claimed"), "{}", second.err);
    source.clear_faults();
    let ran = first.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(visible_names(&bucket.join("x")), ["mirror_000001.tar"], "nothing else is left");

    // The first has ended. Its archive has the same name as that of the other workspace.
    let second = run(&line("elsewhere", "x"));
    assert_eq!(second.code, 1, "{}", second.err);
    let expected = "storing mirror_000001.tar in s3://mirror/x: it has another archive";
    assert!(second.err.contains(expected), "{}", second.err);
    let stored = fs::read(bucket.join("x/mirror_000001.tar")).unwrap();
    assert_eq!(stored, fs::read(site.path("data/mirror_000001.tar")).unwrap());
    assert_eq!(run(&line("elsewhere", "y")).code, 0);
    let stored = fs::read(bucket.join("y/mirror_000001.tar")).unwrap();
    assert_eq!(stored, fs::read(site.path("elsewhere/mirror_000001.tar")).unwrap());
}

#[test]
fn a_bucket_is_taken_over_once_its_claim_is_not_renewed() {
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let (site, _source) = with_image(1000);
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data s3://mirror/x");
    fs::create_dir_all(bucket.join("x/oc-mirror-runs")).unwrap();
    let claim = bucket.join("x/oc-mirror-runs/active.json");
    fs::write(&claim, claim_of_another(jiff::Timestamp::now())).unwrap();
    let ran = run(&site, &store, &line);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("the run other.example:/data mirrors to this target"), "{}", ran.err);
    assert!(claim.exists() && !bucket.join("x/mirror_000001.tar").exists());
    fs::write(&claim, claim_of_another(long_ago())).unwrap();
    let ran = run(&site, &store, &line);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(visible_names(&bucket.join("x")), ["mirror_000001.tar"]);
}

#[test]
fn an_archive_that_was_replaced_in_the_bucket_is_fetched_again() {
    let store = ObjectStore::start().unwrap();
    let bucket = store.bucket("mirror").unwrap();
    let (site, source) = with_image(1000);
    let to = LabRegistry::start(Settings::default()).unwrap();
    let out = format!("-c isc.yaml {PLAIN} --workspace file://out s3://mirror/x");
    assert_eq!(run(&site, &store, &out).code, 0);
    let into = format!(
        "-c isc.yaml {PLAIN} --from s3://mirror/x --workspace file://in docker://{}",
        to.address()
    );
    assert_eq!(run(&site, &store, &into).code, 0);
    // A file of the same length that begins differently.
    let file = bucket.join("x/mirror_000001.tar");
    let archive = fs::read(&file).unwrap();
    let mut another = archive.clone();
    another[20] ^= 1;
    for content in [another, archive] {
        fs::write(&file, &content).unwrap();
        let ran = run(&site, &store, &into);
        assert!(ran.err.contains("fetching mirror_000001.tar"), "{}", ran.err);
        assert_eq!(fs::read(site.path("in/mirror_000001.tar")).unwrap(), content);
    }
    let ran = run(&site, &store, &into);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("fetching"), "{}", ran.err);
    assert_eq!(to.content(), source.content());
}
