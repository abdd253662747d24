//! Signatures, attestations, SBOMs and referrers travel with their image.

use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use lab::docker_registry::{DockerRegistry, Settings as DockerSettings};
use lab::images::{Image, SigningKey};
use lab::registry::{Behaviour, Effect, Fault, LabRegistry, Settings};
use lab::tools::{self, Tool};
use oci::Tag;
use serde_json::Value;

use support::{PLAIN, Ran, Site, chunks};

const NAME: &str = "registry.example.com";

fn adorned(key: &SigningKey) -> Image {
    let image = Image::tiny("signed").unwrap();
    let image = image.signed(key, &format!("{NAME}/team/app")).unwrap().attested(key).unwrap();
    image.with_sbom().unwrap().with_referrer("application/vnd.example.report", b"well").unwrap()
}

fn docker() -> DockerRegistry {
    DockerRegistry::start(&DockerSettings::default()).unwrap()
}

fn get(address: SocketAddr, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: */*\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// The tags of a repository, in order.
fn tags(address: SocketAddr, repository: &str) -> Vec<String> {
    let (_, list) = get(address, &format!("/v2/{repository}/tags/list"));
    let tags = list["tags"].as_array().cloned().unwrap_or_default();
    let mut tags: Vec<String> = tags.iter().map(|tag| tag.as_str().unwrap().to_owned()).collect();
    tags.sort();
    tags
}

/// The digests that the referrers API of a registry lists.
fn referrers(address: SocketAddr, repository: &str, image: &Image) -> Vec<String> {
    let (status, list) = get(address, &format!("/v2/{repository}/referrers/{}", image.digest()));
    assert_eq!(status, 200);
    digests(&list)
}

fn digests(index: &Value) -> Vec<String> {
    let listed = index["manifests"].as_array().unwrap().iter();
    listed.map(|entry| entry["digest"].as_str().unwrap().to_owned()).collect()
}

fn cosign(site: &Site, key: &SigningKey, what: &[&str], reference: &str) -> bool {
    let cosign = tools::path(Tool::Cosign).unwrap_or_else(|error| panic!("{error}"));
    site.write("key.pub", &key.public_pem());
    let options = ["--key", "key.pub", "--insecure-ignore-tlog", "--allow-http-registry"];
    let args = [what, &options, &[reference]].concat();
    site.try_judge(cosign.to_str().unwrap(), &args).status.success()
}

fn cosign_verifies(site: &Site, key: &SigningKey, reference: &str) {
    assert!(cosign(site, key, &["verify"], reference), "{reference}");
    let attestation = ["verify-attestation", "--type", "slsaprovenance"];
    assert!(cosign(site, key, &attestation, reference), "{reference}");
    let other = SigningKey::generate().unwrap();
    assert!(!cosign(site, &other, &["verify"], reference), "{reference} with another key");
}

#[test]
fn the_tag_of_an_image_is_pushed_after_everything_that_is_attached_to_it() {
    let key = SigningKey::generate().unwrap();
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&adorned(&key), "team/app", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("team/app", "v1").unwrap()]);
    for behaviour in [Behaviour::MODERN, Behaviour::DOCKER_2_8] {
        let target = LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap();
        let to = target.address();
        let workspace = format!("--workspace file://{}", to.port());
        site.succeeds(&format!("-c isc.yaml {PLAIN} {workspace} docker://{to}"));
        let requests = target.requests();
        let puts = requests.of(&http::Method::PUT, "/manifests/");
        let puts: Vec<&str> = puts.map(|request| request.path.as_str()).collect();
        assert!(puts.len() >= 5, "image, signature, attestation, SBOM, referrer: {puts:#?}");
        assert!(puts.last().unwrap().ends_with("/team/app/manifests/v1"), "{puts:#?}");
    }
}

#[test]
fn cosign_verifies_an_image_after_disk_archive_registry_and_inner_enclave() {
    let key = SigningKey::generate().unwrap();
    let image = adorned(&key);
    let referrer = image.referrers().next().unwrap().digest.to_string();
    let fallback = Tag::of_digest(&image.digest()).to_string();
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&image, "team/app", "v1").unwrap();

    let connected = Site::new();
    connected.redirect(NAME, source.address());
    connected.images("isc.yaml", &[format!("{NAME}/team/app:v1")]);
    connected.succeeds("-c isc.yaml file://data");
    drop(source);

    // Only the archive is transferred, into a registry without the referrers API.
    let outer = docker();
    let site = Site::new();
    site.images("isc.yaml", &[format!("{NAME}/team/app:v1")]);
    fs::create_dir(site.path("data")).unwrap();
    let archive = &chunks(&connected.path("data"))[0];
    fs::copy(archive, site.path("data/mirror_000001.tar")).unwrap();
    drop(connected);
    let to = outer.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}/outer"));
    cosign_verifies(&site, &key, &format!("{to}/outer/team/app:v1"));
    let expected = |suffix: &str| Tag::of_attachment(&image.digest(), suffix).to_string();
    let mut all = vec![fallback.clone(), expected("att"), expected("sbom"), expected("sig")];
    all.push("v1".into());
    assert_eq!(tags(to, "outer/team/app"), all);
    let list =
        site.raw(&format!("docker://{to}/outer/team/app:{fallback}"), &["--tls-verify=false"]);
    assert_eq!(digests(&serde_json::from_slice(&list).unwrap()), [&*referrer]);

    // The filled target replaces the original registries. The referrers now
    // come from the list under the fallback tag.
    let inner = LabRegistry::start(Settings::default()).unwrap();
    let enclave = Site::new();
    enclave.images("isc.yaml", &[format!("{NAME}/team/app:v1")]);
    let conf = format!(
        "[[registry]]\nlocation = {NAME:?}\n[[registry.mirror]]\nlocation = \"{to}/outer\"\ninsecure = true\n"
    );
    let conf = enclave.write("registries.conf", &conf);
    let line = format!(
        "--output=json -c isc.yaml --dest-tls-verify=false --workspace file://data docker://{}/inner",
        inner.address()
    );
    let mut command = enclave.command(&line);
    let ran = Ran::of(command.env("CONTAINERS_REGISTRIES_CONF", conf).output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    cosign_verifies(&enclave, &key, &format!("{}/inner/team/app:v1", inner.address()));
    assert_eq!(referrers(inner.address(), "inner/team/app", &image), [&*referrer]);
    let itms = enclave.read("data/working-dir/cluster-resources/itms-oc-mirror.yaml");
    assert!(itms.contains(&format!("source: {NAME}/team\n")), "{itms}");
}

#[test]
fn a_list_and_its_instances_keep_their_signatures() {
    let key = SigningKey::generate().unwrap();
    let instance = |name: &str| Image::tiny(name).unwrap().signed(&key, "a/b").unwrap();
    let child = instance("child");
    let list = Image::list(lab::images::Format::Oci, [child.clone()]).unwrap();
    let list = list.signed(&key, "a/b").unwrap();
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&list, "a/list", "v1").unwrap();
    let target = docker();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("a/list", "v1").unwrap()]);
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    for digest in [list.digest(), child.digest()] {
        assert!(cosign(&site, &key, &["verify"], &format!("{to}/a/list@{digest}")), "{digest}");
    }
}

#[test]
fn attachments_stay_behind_when_requested_on_either_side() {
    let key = SigningKey::generate().unwrap();
    let image = adorned(&key);
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&image, "team/app", "v1").unwrap();
    let images = [source.image("team/app", "v1").unwrap()];
    let alone = |target: &LabRegistry| {
        assert_eq!(tags(target.address(), "team/app"), ["v1"]);
        assert_eq!(referrers(target.address(), "team/app", &image), [] as [&str; 0]);
    };

    let on_the_connected_side = Site::new();
    let target = LabRegistry::start(Settings::default()).unwrap();
    on_the_connected_side.images("isc.yaml", &images);
    on_the_connected_side.succeeds(&format!("-c isc.yaml {PLAIN} --remove-signatures file://data"));
    on_the_connected_side
        .succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address()));
    alone(&target);

    let on_the_other = Site::new();
    let target = LabRegistry::start(Settings::default()).unwrap();
    on_the_other.images("isc.yaml", &images);
    on_the_other.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    on_the_other.succeeds(&format!(
        "-c isc.yaml {PLAIN} --remove-signatures --from file://data docker://{}",
        target.address()
    ));
    alone(&target);

    // The workspace has records of signatures from the run before.
    let target = LabRegistry::start(Settings::default()).unwrap();
    on_the_other.succeeds(&format!(
        "-c isc.yaml {PLAIN} --remove-signatures --workspace file://data docker://{}",
        target.address()
    ));
    alone(&target);
}

#[test]
fn attachments_come_along_after_a_run_that_left_them_behind() {
    let key = SigningKey::generate().unwrap();
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&adorned(&key), "team/app", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("team/app", "v1").unwrap()]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} --remove-signatures file://data"));
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let target = docker();
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    cosign_verifies(&site, &key, &format!("{to}/team/app:v1"));
}

#[test]
fn new_signatures_of_a_held_image_are_fetched_on_request() {
    let key = SigningKey::generate().unwrap();
    let image = Image::tiny("signed later").unwrap();
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&image, "team/app", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("team/app", "v1").unwrap()]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    source.put_image(&image.signed(&key, "team/app").unwrap(), "team/app", "v1").unwrap();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --refresh-signatures file://data"));
    let target = docker();
    let to = target.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    assert!(cosign(&site, &key, &["verify"], &format!("{to}/team/app:v1")));
}

#[test]
fn referrers_of_an_image_by_digest_are_kept_by_digest_where_its_tag_would_list_them() {
    let image = Image::tiny("x").unwrap().with_referrer("application/x", b"hello").unwrap();
    let referrer = image.referrers().next().unwrap();
    let fallback = Tag::of_digest(&image.digest());
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&image, "team/app", "v1").unwrap();
    let from = source.host().unwrap();

    for images in [
        vec![format!("{from}/team/app@{}", image.digest())],
        vec![format!("{from}/team/app:v1"), format!("{from}/team/app@{}", image.digest())],
    ] {
        let site = Site::new();
        site.images("isc.yaml", &images);
        site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));

        let target = docker();
        let to = target.address();
        let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
        let line = ran.image(&image.digest().hex());
        assert!(line["notes"][0].as_str().unwrap().contains("by digest only"), "{line}");
        let plain = ["--tls-verify=false"];
        let under_tag = site.raw(&format!("docker://{to}/team/app:{fallback}"), &plain);
        assert_eq!(under_tag, image.root().bytes);
        let held = site.raw(&format!("docker://{to}/team/app@{}", referrer.digest), &plain);
        assert_eq!(held, referrer.bytes);

        let behaviour = Behaviour::MODERN;
        let target = LabRegistry::start(Settings { behaviour, ..Settings::default() }).unwrap();
        let to = target.address();
        let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
        assert_eq!(ran.image(&image.digest().hex())["notes"], Value::Null);
        assert_eq!(referrers(to, "team/app", &image), [referrer.digest.to_string()]);
    }
}

#[test]
fn referrers_others_listed_at_the_target_stay_listed() {
    let bare = Image::tiny("x").unwrap();
    let ours = bare.clone().with_referrer("application/x", b"ours").unwrap();
    let theirs = bare.with_referrer("application/x", b"theirs").unwrap();
    let source = LabRegistry::start(Settings::default()).unwrap();
    let sources = [("ours/app", &ours), ("theirs/app", &theirs)];
    let target = docker();
    let to = target.address();
    let site = Site::new();
    for (repository, image) in sources {
        source.put_image(image, repository, "v1").unwrap();
        let name = source.image(repository, "v1").unwrap();
        let image = format!("  additionalImages:\n  - name: {name}\n    targetRepo: app\n");
        site.image_set("isc.yaml", &image);
        site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    }
    let reference = format!("docker://{to}/app:{}", Tag::of_digest(&ours.digest()));
    let list = site.raw(&reference, &["--tls-verify=false"]);
    let mut listed = digests(&serde_json::from_slice(&list).unwrap());
    listed.sort();
    let mut expected =
        [&ours, &theirs].map(|image| image.referrers().next().unwrap().digest.to_string());
    expected.sort();
    assert_eq!(listed, expected);
}

#[test]
fn a_signature_with_repeated_layers_is_pushed_or_reported_where_the_registry_refuses_it() {
    let key = SigningKey::generate().unwrap();
    let source = LabRegistry::start(Settings::default()).unwrap();
    let name = format!("{}/team/app", source.address());
    let image = Image::tiny("app").unwrap().signed_repeatedly(&key, &name, 3).unwrap();
    source.put_image(&image, "team/app", "v1").unwrap();
    let site = Site::new();
    site.images("isc.yaml", &[source.image("team/app", "v1").unwrap()]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));

    let signature = format!("team/app:sha256-{}.sig", image.digest().hex());
    let accepting = docker();
    let to = accepting.address();
    site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    let pushed = site.raw(&format!("docker://{to}/{signature}"), &["--tls-verify=false"]);
    assert_eq!(pushed, image.attachments[0].manifest.bytes);
    let reference = format!("{to}/team/app@{}", image.digest());
    assert!(cosign(&site, &key, &["verify"], &reference), "{reference}");

    // Quay's response to such a manifest.
    let refusal = r#"{"errors":[{"code":"MANIFEST_INVALID","message":"manifest invalid"}]}"#;
    for mode in ["--from file://data", "--workspace file://straight"] {
        let refusing = LabRegistry::start(Settings::default()).unwrap();
        let headers = vec![("content-type".into(), "application/json".into())];
        let effect = Effect::Status(400, headers, refusal.into());
        refusing.fault(Fault::on(http::Method::PUT, ".sig").does(effect));
        let to = refusing.address();
        let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} {mode} docker://{to}"));
        let notes = ran.image("team/app")["notes"].to_string();
        assert!(notes.contains("the target refuses the attachment sha256-"), "{}", ran.out);
        assert!(notes.contains("manifest invalid"), "{notes}");
        site.pull(&format!("docker://{to}/team/app:v1"), &["--src-tls-verify=false"]);
    }
}
