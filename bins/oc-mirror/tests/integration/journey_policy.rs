//! With --secure-policy only those images travel that a trust policy lets in.

use crate::support;

use std::fs;

use base64::Engine as _;
use lab::images::{Compression, Format, Image, Layer, SigningKey};
use lab::registry::{LabRegistry, Settings};
use lab::releases::{ReleaseKey, claim};
use lab::signature_store::SignatureStore;
use lab::sigstore::{CodeAuthority, RECORDED, Signed, TransparencyLog};
use oci::{Digest, Tag};
use serde_json::{Value, json};

use support::{PLAIN, Ran, Site, chunks};

const POLICY: &str = "--secure-policy --policy policy.json";

/// A registry, a key, and names for images signed with it.
struct Source {
    registry: LabRegistry,
    key: SigningKey,
}

impl Source {
    fn new() -> Self {
        let registry = LabRegistry::start(Settings::default()).unwrap();
        Self { registry, key: SigningKey::generate().unwrap() }
    }

    fn name(&self, repository: &str) -> String {
        format!("{}/{repository}", self.registry.address())
    }

    /// Puts an image there and returns its name.
    fn put(&self, image: &Image, repository: &str) -> String {
        self.registry.put_image(image, repository, "v1").unwrap();
        format!("{}:v1", self.name(repository))
    }

    fn signed(&self, repository: &str) -> Image {
        Image::tiny(repository).unwrap().signed(&self.key, &self.name(repository)).unwrap()
    }

    /// What asks for a signature with the key, as cosign makes them.
    fn requirement(&self, site: &Site) -> Value {
        let path = site.write("key.pub", &self.key.public_pem());
        let identity = json!({"type": "matchRepository"});
        json!({"type": "sigstoreSigned", "keyPath": path, "signedIdentity": identity})
    }

    /// Writes a policy for the images of this registry; all others are rejected.
    fn policy(&self, site: &Site, rules: &[(&str, Value)]) {
        let scopes = rules.iter().map(|(scope, rule)| (self.name(scope), json!([rule])));
        let docker: serde_json::Map<String, Value> = scopes.collect();
        let policy = json!({"default": [{"type": "reject"}], "transports": {"docker": docker}});
        site.write("policy.json", &policy.to_string());
    }
}

fn accept() -> Value {
    json!({"type": "insecureAcceptAnything"})
}

fn outcome(ran: &Ran, part: &str) -> String {
    ran.image(part)["outcome"].as_str().unwrap().to_owned()
}

fn reason(ran: &Ran, part: &str) -> String {
    assert_eq!(outcome(ran, part), "failed", "{}", ran.out);
    ran.image(part)["error"].as_str().unwrap().to_owned()
}

/// What nobody must fetch of an image before it is let in.
fn layers(image: &Image) -> Vec<Digest> {
    let manifest = image.root().parse().unwrap();
    manifest.blobs().iter().map(|blob| blob.digest).collect()
}

#[test]
fn each_image_is_judged_and_the_rest_goes_on() {
    let source = Source::new();
    let site = Site::new();
    let other_key = SigningKey::generate().unwrap();
    let forged = |name: &str| Image::tiny(name).unwrap().signed(&other_key, &source.name(name));
    // The signature of another image, where that of this one would be.
    let mut moved = Image::tiny("moved").unwrap();
    let lender = source.signed("team/good");
    let mut signature = lender.attachments[0].clone();
    signature.tag = Some(Tag::of_attachment(&moved.digest(), "sig"));
    moved.attachments.push(signature);
    moved.blobs.extend(lender.blobs.clone());
    let misnamed = Image::tiny("misnamed").unwrap().signed(&source.key, &source.name("team/x"));
    let cases = [
        ("team/good", lender, ""),
        ("free/any", Image::tiny("free").unwrap(), ""),
        ("team/forged", forged("team/forged").unwrap(), "was not made with"),
        ("team/unsigned", Image::tiny("unsigned").unwrap(), "has no signature"),
        ("team/moved", moved, "a signature is of another image"),
        ("team/misnamed", misnamed.unwrap(), "/team/x, which matchRepository does not accept"),
        ("team/banned", source.signed("team/banned"), "every image is rejected here"),
        ("else/where", source.signed("else/where"), "(default): every image is rejected here"),
        ("gpg/signed", source.signed("gpg/signed"), "no lookaside server is configured"),
    ];
    let gpg_key = site.write("key.gpg", ReleaseKey::generate().unwrap().public());
    source.policy(
        &site,
        &[
            ("team", source.requirement(&site)),
            ("free", accept()),
            ("team/banned", json!({"type": "reject"})),
            ("gpg", json!({"type": "signedBy", "keyType": "GPGKeys", "keyPath": gpg_key})),
        ],
    );
    let names: Vec<String> = cases.iter().map(|(name, image, _)| source.put(image, name)).collect();
    site.images("isc.yaml", &names);

    source.registry.forget_requests();
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {POLICY} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    let requests = source.registry.requests();
    for (name, image, why) in &cases {
        if why.is_empty() {
            assert_eq!(outcome(&ran, name), "copied", "{name}");
        } else {
            let told = reason(&ran, name);
            assert!(told.contains(why), "{name}: {told}");
            let fetched = layers(image).iter().any(|layer| requests.blob_gets(layer) > 0);
            assert!(!fetched, "{name} was fetched");
        }
    }

    let mut logs =
        fs::read_dir(site.path("data/working-dir/logs")).unwrap().map(|e| e.unwrap().path());
    let audit = logs.find(|path| path.extension().is_some_and(|e| e == "jsonl")).unwrap();
    let digest = Digest::of(site.read("policy.json").as_bytes());
    let note = format!("the trust policy policy.json ({digest})");
    assert!(fs::read_to_string(audit).unwrap().contains(&note));
}

#[test]
fn signatures_are_judged_without_the_network_of_the_origin_and_need_not_be_carried() {
    let source = Source::new();
    let site = Site::new();
    source.policy(&site, &[("team", source.requirement(&site))]);
    let good = source.signed("team/good");
    let images = [
        source.put(&good, "team/good"),
        source.put(&Image::tiny("unsigned").unwrap(), "team/unsigned"),
    ];
    site.images("isc.yaml", &images);

    // Straight across: judged by signatures that then stay behind.
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    let ran = site.run(&format!(
        "-c isc.yaml {PLAIN} {POLICY} --remove-signatures --workspace file://ws docker://{to}"
    ));
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert_eq!(outcome(&ran, "team/good"), "copied");
    assert!(reason(&ran, "team/unsigned").contains("has no signature"));
    let tags =
        site.skopeo(&["list-tags", "--tls-verify=false", &format!("docker://{to}/team/good")]);
    assert!(tags.contains("v1") && !tags.contains(".sig"), "{tags}");

    // To disk without a policy, and judged on the other side.
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    drop(source);
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    let push = format!("-c isc.yaml {PLAIN} {POLICY} --from file://data docker://{to}");
    for line in [format!("{push} --dry-run"), push] {
        let ran = site.run(&line);
        assert_eq!(ran.code, 8, "{}", ran.err);
        assert_ne!(outcome(&ran, "team/good"), "failed");
        assert!(reason(&ran, "team/unsigned").contains("has no signature"));
    }
    site.pull(&format!("docker://{to}/team/good:v1"), &["--src-tls-verify=false"]);
    let there = target.requests();
    assert_eq!(there.of(&http::Method::PUT, "team/unsigned").count(), 0);
}

#[test]
fn an_image_that_is_held_is_judged_too_and_may_have_been_signed_since() {
    let source = Source::new();
    let site = Site::new();
    let image = Image::tiny("later").unwrap();
    let name = source.put(&image, "team/later");
    source.policy(&site, &[("team", source.requirement(&site))]);
    site.images("isc.yaml", &[&name]);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));

    let run = format!("-c isc.yaml {PLAIN} {POLICY} file://data");
    for line in [format!("{run} --dry-run"), run.clone()] {
        let ran = site.run(&line);
        assert_eq!(ran.code, 8, "{}", ran.err);
        assert!(reason(&ran, "team/later").contains("has no signature"));
    }
    let signed = image.signed(&source.key, &source.name("team/later")).unwrap();
    source.put(&signed, "team/later");
    let ran = site.succeeds(&format!("{run} --dry-run"));
    assert_eq!(outcome(&ran, "team/later"), "pending", "its signature is new");
    site.succeeds(&run);
    source.registry.forget_requests();
    let ran = site.succeeds(&run);
    assert_eq!(outcome(&ran, "team/later"), "present");
    let requests = source.registry.requests();
    assert_eq!((requests.count(), requests.heads()), (1, 1), "{requests:?}");
}

#[test]
fn a_later_archive_is_judged_by_signatures_that_an_earlier_one_brought() {
    let source = Source::new();
    let site = Site::new();
    source.policy(&site, &[("team", source.requirement(&site))]);
    let first = source.put(&source.signed("team/first"), "team/first");
    site.images("isc.yaml", &[&first]);
    let mirror = format!("-c isc.yaml {PLAIN} {POLICY} file://data");
    site.succeeds(&mirror);
    let second = source.put(&source.signed("team/second"), "team/second");
    site.images("isc.yaml", &[&first, &second]);
    site.succeeds(&mirror);
    drop(source.registry);

    let target = LabRegistry::start(Settings::default()).unwrap();
    for (archive, images) in chunks(&site.path("data")).iter().zip([1, 2]) {
        let other_side = Site::new();
        fs::create_dir(other_side.path("carried")).unwrap();
        let chunk = other_side.path("carried").join(archive.file_name().unwrap());
        fs::copy(archive, chunk).unwrap();
        for file in ["policy.json", "isc.yaml"] {
            other_side.write(file, &site.read(file));
        }
        if images == 1 {
            other_side.images("isc.yaml", &[&first]);
        }
        let to = target.address();
        let ran = other_side
            .succeeds(&format!("-c isc.yaml {PLAIN} {POLICY} --from file://carried docker://{to}"));
        assert_eq!(ran.total("images"), images);
    }
}

#[test]
fn a_list_needs_a_signature_or_signed_images() {
    let source = Source::new();
    let site = Site::new();
    source.policy(&site, &[("team", source.requirement(&site))]);
    let instance = |list: &str, platform: &str| {
        let layer = Layer::generate(&format!("{list} {platform}"), 300, Compression::Gzip).unwrap();
        Image::new(Format::Oci, platform.parse().unwrap(), &[layer]).unwrap()
    };
    let sign = |image: Image, list: &str| image.signed(&source.key, &source.name(list)).unwrap();
    let list = |images: [Image; 2]| Image::list(Format::Oci, images).unwrap();
    let (amd, arm) = ("linux/amd64", "linux/arm64");

    let whole = list([instance("team/whole", amd), instance("team/whole", arm)]);
    let each = list([amd, arm].map(|p| sign(instance("team/each", p), "team/each")));
    let some = list([sign(instance("team/some", amd), "team/some"), instance("team/some", arm)]);
    let arm_digest = some.manifests[2].digest;
    let names = [
        source.put(&sign(whole, "team/whole"), "team/whole"),
        source.put(&each, "team/each"),
        source.put(&some, "team/some"),
    ];
    site.images("isc.yaml", &names);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {POLICY} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert_eq!((outcome(&ran, "whole"), outcome(&ran, "each")), ("copied".into(), "copied".into()));
    let why = reason(&ran, "team/some");
    assert!(why.contains(&format!("{arm_digest} has no signature")), "{why}");

    // Only what is mirrored need be signed.
    let filtered: String = names
        .iter()
        .map(|name| {
            format!("  - name: {name}\n    platforms: [{{os: linux, architecture: amd64}}]\n")
        })
        .collect();
    site.image_set("isc.yaml", &format!("  additionalImages:\n{filtered}"));
    site.succeeds(&format!("-c isc.yaml {PLAIN} {POLICY} file://filtered"));
}

#[test]
fn layouts_are_judged_by_their_directory() {
    let source = Source::new();
    let site = Site::new();
    let name = source.put(&Image::tiny("x").unwrap(), "x");
    let mut lines = String::from("  additionalImages:\n");
    for layout in ["good/x", "bad/x"] {
        fs::create_dir_all(site.path(layout)).unwrap();
        let into = format!("oci:{}", site.path(layout).display());
        site.skopeo(&["copy", "--src-tls-verify=false", &format!("docker://{name}"), &into]);
        lines.push_str(&format!("  - name: oci://{layout}\n    targetRepo: from/{layout}\n"));
    }
    site.image_set("isc.yaml", &lines);
    let good = site.path("good").canonicalize().unwrap().display().to_string();
    let policy =
        json!({"default": [{"type": "reject"}], "transports": {"oci": {good: [accept()]}}});
    site.write("policy.json", &policy.to_string());
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {POLICY} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert_eq!(outcome(&ran, "good/x"), "copied");
    assert!(reason(&ran, "bad/x").contains("(default): every image is rejected"));
}

#[test]
fn the_policy_of_the_user_is_used_and_a_bad_one_stops_the_run() {
    let source = Source::new();
    let site = Site::new();
    let name = source.put(&Image::tiny("x").unwrap(), "x");
    site.images("isc.yaml", &[name]);
    let home = "home/.config/containers/policy.json";
    site.write(home, r#"{"default":[{"type":"reject"}]}"#);
    let line = format!("-c isc.yaml {PLAIN} --secure-policy file://data");
    assert!(reason(&site.run(&line), "/x").contains("every image is rejected here"));
    // Without the flag nothing is judged.
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));

    for (text, part) in [
        (r#"{"default":[{"type":"rejct"}]}"#, "unknown variant `rejct`"),
        (r#"{"default":[{"type":"sigstoreSigned","keyPath":"/gone.pub"}]}"#, "/gone.pub"),
    ] {
        site.write(home, text);
        let ran = site.run(&line);
        assert_eq!(ran.code, 1, "{}", ran.out);
        assert!(ran.err.contains(home) && ran.err.contains(part), "{}", ran.err);
    }
}

/// Images with signatures of GPG keys on a lookaside server, and the verdict that is expected.
struct Gpg {
    source: Source,
    site: Site,
    server: SignatureStore,
    cases: Vec<(&'static str, &'static str)>,
}

impl Gpg {
    fn new() -> Self {
        let (source, site) = (Source::new(), Site::new());
        let server = SignatureStore::start().unwrap();
        let [key, other] = [(); 2].map(|()| ReleaseKey::generate().unwrap());
        let cases = vec![
            ("gpg/good", ""),
            ("gpg/second", ""),
            ("gpg/other-key", "which is not in"),
            ("gpg/unsigned", "has no signature on a lookaside server"),
            ("gpg/moved", "a good signature of another image"),
            ("gpg/misnamed", "which matchRepoDigestOrExact does not accept"),
            ("gpg/edited", "a signature is rejected"),
            ("gpg/nonsense", "a signature is rejected"),
            ("remapped/app", ""),
            ("any-tag/app", ""),
            ("free/any", ""),
        ];
        let host = source.registry.address();
        for (name, _) in &cases {
            let image = Image::tiny(name).unwrap();
            let reference = source.put(&image, name);
            let digest = image.digest();
            let put = |number, signature: Vec<u8>| {
                server.put_lookaside(name, &digest, number, signature);
            };
            let text = |digest: &Digest, name: &str| claim(digest, name).to_string().into_bytes();
            let own = text(&digest, &reference);
            match *name {
                "gpg/good" => put(1, key.sign(&own).unwrap()),
                "gpg/second" => {
                    put(1, other.sign(&own).unwrap());
                    put(2, key.sign(&own).unwrap());
                }
                "gpg/other-key" => put(1, other.sign(&own).unwrap()),
                "gpg/moved" => {
                    let text = text(&Digest::of(b"another"), &reference);
                    put(1, key.sign(&text).unwrap());
                }
                "gpg/misnamed" => {
                    let text = text(&digest, &format!("{host}/gpg/x:v1"));
                    put(1, key.sign(&text).unwrap());
                }
                "gpg/edited" => {
                    let mut signature = key.sign_uncompressed(&own).unwrap();
                    let at = signature.windows(3).position(|part| part == b":v1").unwrap();
                    signature[at + 2] = b'2';
                    put(1, signature);
                }
                "gpg/nonsense" => put(1, b"<html>not found</html>".to_vec()),
                "remapped/app" => {
                    let text = text(&digest, "vendor.example/app:v1");
                    put(1, key.sign(&text).unwrap());
                }
                "any-tag/app" => {
                    let text = text(&digest, &format!("{host}/any-tag/app:v7"));
                    put(1, key.sign(&text).unwrap());
                }
                _ => {}
            }
        }
        let path = site.write("key.gpg", key.public());
        let by = |identity: Option<Value>| {
            let mut rule = json!({"type": "signedBy", "keyType": "GPGKeys", "keyPath": path});
            if let Some(identity) = identity {
                rule["signedIdentity"] = identity;
            }
            rule
        };
        let remap = json!({
            "type": "remapIdentity",
            "prefix": format!("{host}/remapped"),
            "signedPrefix": "vendor.example",
        });
        source.policy(
            &site,
            &[
                ("gpg", by(None)),
                ("remapped", by(Some(remap))),
                ("any-tag", by(Some(json!({"type": "matchRepository"})))),
                ("free", accept()),
            ],
        );
        let this = Self { source, site, server, cases };
        this.registries_d(&this.server.lookaside_url());
        let names: Vec<String> =
            this.cases.iter().map(|(name, _)| format!("{}:v1", this.source.name(name))).collect();
        this.site.images("isc.yaml", &names);
        this
    }

    fn registries_d(&self, url: &str) {
        let host = self.source.registry.address();
        let text = format!("docker:\n  {host}:\n    lookaside: {url}\n");
        self.site.write("registries.d/lab.yaml", &text);
    }

    /// Whether skopeo accepts an image under the same policy.
    fn skopeo_accepts(&self, name: &str) -> bool {
        let into = tempfile::tempdir().unwrap();
        let path = |name: &str| self.site.path(name).display().to_string();
        let output = self.site.try_judge(
            "skopeo",
            &[
                "--policy",
                &path("policy.json"),
                "--registries.d",
                &path("registries.d"),
                "copy",
                "--remove-signatures",
                "--src-tls-verify=false",
                &format!("docker://{}:v1", self.source.name(name)),
                &format!("dir:{}", into.path().display()),
            ],
        );
        output.status.success()
    }
}

const GPG: &str = "--secure-policy --policy policy.json --registries.d registries.d";

#[test]
fn signatures_of_gpg_keys_are_judged_as_skopeo_does_on_both_sides() {
    let gpg = Gpg::new();
    let ran = gpg.site.run(&format!("-c isc.yaml {PLAIN} {GPG} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    for (name, why) in &gpg.cases {
        let accepted = why.is_empty();
        assert_eq!(gpg.skopeo_accepts(name), accepted, "skopeo on {name}");
        match accepted {
            true => assert_eq!(outcome(&ran, name), "copied", "{name}: {}", ran.out),
            false => {
                let told = reason(&ran, name);
                assert!(
                    told.contains("is rejected by policy") && told.contains(why),
                    "{name}: {told}"
                );
            }
        }
    }

    // The signatures are in the archive: the disconnected side needs no lookaside server.
    gpg.server.wipe();
    gpg.server.server.forget_requests();
    let other_side = Site::new();
    fs::create_dir(other_side.path("carried")).unwrap();
    for chunk in chunks(&gpg.site.path("data")) {
        fs::copy(&chunk, other_side.path("carried").join(chunk.file_name().unwrap())).unwrap();
    }
    let policy = gpg.site.read("policy.json");
    other_side.write("policy.json", &policy);
    other_side.write("registries.d/lab.yaml", &gpg.site.read("registries.d/lab.yaml"));
    let good = ["gpg/good", "remapped/app"].map(|name| format!("{}:v1", gpg.source.name(name)));
    other_side.images("isc.yaml", &good);
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    other_side.succeeds(&format!("-c isc.yaml {PLAIN} {GPG} --from file://carried docker://{to}"));
    assert_eq!(gpg.server.server.requests().count(), 0);
}

#[test]
fn a_lookaside_server_that_does_not_respond_is_no_permission() {
    let gpg = Gpg::new();
    // A port that nothing listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    gpg.registries_d(&format!("http://127.0.0.1:{port}/x"));
    gpg.source.registry.forget_requests();
    let ran = gpg.site.run(&format!("-c isc.yaml {PLAIN} {GPG} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    let why = reason(&ran, "gpg/good");
    assert!(
        why.contains("is rejected by policy") && why.contains("lookaside server 127.0.0.1"),
        "{why}"
    );
    assert!(why.to_lowercase().contains("connection refused"), "{why}");
    assert!(!gpg.skopeo_accepts("gpg/good"));
    let image = Image::tiny("gpg/good").unwrap();
    let requests = gpg.source.registry.requests();
    assert!(layers(&image).iter().all(|layer| requests.blob_gets(layer) == 0));

    // Without signatures in the archive, the disconnected side rejects, and asks no server.
    gpg.site.succeeds(&format!("-c isc.yaml {PLAIN} file://all"));
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    let line = format!("-c isc.yaml {PLAIN} {GPG} --from file://all docker://{to}");
    let ran = gpg.site.run(&line);
    assert_eq!(ran.code, 8, "{}", ran.err);
    let why = reason(&ran, "gpg/good");
    assert!(why.contains("the archive has none"), "{why}");
    assert_eq!(target.requests().of(&http::Method::PUT, "gpg/").count(), 0);
}

/// The verdicts of skopeo 1.22 (containers/image 5.39) on the same images and policies, Debian
/// forky's package. Debian 12's skopeo supports neither Rekor nor Fulcio. Where `SKOPEO_FORKY` names
/// a root directory with that package, it is run as well.
#[test]
fn logs_and_certificates_are_judged_as_skopeo_1_22_does() {
    let (source, site) = (Source::new(), Site::new());
    let [log, other_log] = [(); 2].map(|()| TransparencyLog::new().unwrap());
    let [authority, stranger] = [(); 2].map(|()| CodeAuthority::new().unwrap());
    let (email, oidc) = ("dev@example.com", "https://accounts.example.com");
    let cases = [
        ("log/good", ""),
        ("log/no-bundle", "no bundle"),
        ("log/other-log", "was not made with"),
        ("log/forged", "was not made with"),
        ("log/other-entry", "is of another"),
        ("code/good", ""),
        ("code/no-bundle", "no bundle"),
        ("code/late", "is not issued by the authority"),
        ("code/stranger", "is not issued by the authority"),
        ("code/other-person", "expected dev@example.com"),
        ("code/other-provider", "names the identity provider"),
        ("code/key-only", "has no certificate"),
    ];
    for (name, _) in cases {
        let image = Image::tiny(name).unwrap();
        let reference = source.name(name);
        let by_key = Signed::new(&image, &reference, &source.key).unwrap();
        let certified = |authority: &CodeAuthority, email: &str, oidc: &str| {
            authority.sign(&image, &reference, email, oidc).unwrap()
        };
        let promised =
            |log: &TransparencyLog, signed: &Signed| log.bundle(signed, RECORDED).unwrap();
        let (signed, bundle) = match name {
            "log/good" | "code/key-only" => (by_key.clone(), Some(promised(&log, &by_key))),
            "log/no-bundle" => (by_key, None),
            "log/other-log" => (by_key.clone(), Some(promised(&other_log, &by_key))),
            "log/forged" => {
                let mut bundle = promised(&log, &by_key);
                bundle["Payload"]["integratedTime"] = json!(RECORDED + 1);
                (by_key, Some(bundle))
            }
            "log/other-entry" => {
                let other = Signed::new(&Image::tiny("x").unwrap(), &reference, &source.key);
                (by_key, Some(promised(&log, &other.unwrap())))
            }
            "code/no-bundle" => (certified(&authority, email, oidc), None),
            "code/late" => {
                let signed = certified(&authority, email, oidc);
                let bundle = log.bundle(&signed, RECORDED + 3600).unwrap();
                (signed, Some(bundle))
            }
            name => {
                let signed = match name {
                    "code/good" => certified(&authority, email, oidc),
                    "code/stranger" => certified(&stranger, email, oidc),
                    "code/other-person" => certified(&authority, "eve@example.com", oidc),
                    _ => certified(&authority, email, "https://evil.example"),
                };
                let bundle = promised(&log, &signed);
                (signed, Some(bundle))
            }
        };
        source.put(&signed.attach(image, bundle.as_ref()).unwrap(), name);
    }
    // As data, so that skopeo in another root directory can use the same policy.
    let data = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let rule = |rest: Value| {
        let mut rule = json!({
            "type": "sigstoreSigned",
            "rekorPublicKeyData": data(&log.public_pem()),
            "signedIdentity": {"type": "matchRepository"},
        });
        rule.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        rule
    };
    let fulcio =
        json!({"caData": data(authority.pem()), "oidcIssuer": oidc, "subjectEmail": email});
    source.policy(
        &site,
        &[
            ("log", rule(json!({"keyData": data(&source.key.public_pem())}))),
            ("code", rule(json!({"fulcio": fulcio}))),
        ],
    );
    site.images("isc.yaml", &cases.map(|(name, _)| format!("{}:v1", source.name(name))));
    let ran = site.run(&format!("-c isc.yaml {PLAIN} {POLICY} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    for (name, why) in cases {
        if let Some(root) = std::env::var_os("SKOPEO_FORKY") {
            assert_eq!(
                forky_accepts(&source, &site, &root, name),
                why.is_empty(),
                "skopeo on {name}"
            );
        }
        match why {
            "" => assert_eq!(outcome(&ran, name), "copied", "{name}: {}", ran.out),
            why => {
                let told = reason(&ran, name);
                assert!(
                    told.contains("is rejected by policy") && told.contains(why),
                    "{name}: {told}"
                );
            }
        }
    }
}

/// Whether skopeo in another root directory accepts an image.
fn forky_accepts(source: &Source, site: &Site, root: &std::ffi::OsStr, name: &str) -> bool {
    let inside = tempfile::tempdir_in(std::path::Path::new(root).join("tmp")).unwrap();
    let at = format!("/tmp/{}", inside.path().file_name().unwrap().to_str().unwrap());
    fs::write(inside.path().join("policy.json"), site.read("policy.json")).unwrap();
    let registries = "default-docker:\n  use-sigstore-attachments: true\n";
    fs::create_dir(inside.path().join("registries.d")).unwrap();
    fs::write(inside.path().join("registries.d/x.yaml"), registries).unwrap();
    let output = std::process::Command::new("chroot")
        .arg(root)
        .args(["skopeo", "--policy", &format!("{at}/policy.json")])
        .args(["--registries.d", &format!("{at}/registries.d"), "copy", "--remove-signatures"])
        .args(["--src-tls-verify=false", &format!("docker://{}:v1", source.name(name))])
        .arg(format!("dir:{at}/out"))
        .output()
        .unwrap();
    output.status.success()
}
