//! With --secure-policy only those images are mirrored that a trust policy accepts.

use crate::support;

use std::fs;

use http::Method;
use lab::images::{Compression, Format, Image, Layer, SigningKey};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use lab::releases::ReleaseKey;
use oci::{Digest, Tag};
use serde_json::{Value, json};

use support::releases::{World, channel, places};
use support::{PLAIN, Ran, Site, chunks};

pub(crate) const POLICY: &str = "--secure-policy --policy policy.json";

/// A registry, a key, and names for images signed with it.
pub(crate) struct Source {
    pub(crate) registry: LabRegistry,
    pub(crate) key: SigningKey,
}

impl Source {
    pub(crate) fn new() -> Self {
        let registry = LabRegistry::start(Settings::default()).unwrap();
        Self { registry, key: SigningKey::generate().unwrap() }
    }

    pub(crate) fn name(&self, repository: &str) -> String {
        format!("{}/{repository}", self.registry.address())
    }

    /// Stores an image there and returns its name.
    pub(crate) fn put(&self, image: &Image, repository: &str) -> String {
        self.registry.put_image(image, repository, "v1").unwrap();
        format!("{}:v1", self.name(repository))
    }

    fn signed(&self, repository: &str) -> Image {
        Image::tiny(repository).unwrap().signed(&self.key, &self.name(repository)).unwrap()
    }

    /// A requirement of a signature with the key, as cosign makes them.
    fn requirement(&self, site: &Site) -> Value {
        let path = site.write("key.pub", &self.key.public_pem());
        let identity = json!({"type": "matchRepository"});
        json!({"type": "sigstoreSigned", "keyPath": path, "signedIdentity": identity})
    }

    /// Writes a policy for the images of this registry; all others are rejected.
    pub(crate) fn policy(&self, site: &Site, rules: &[(&str, Value)]) {
        let scopes = rules.iter().map(|(scope, rule)| (self.name(scope), json!([rule])));
        let docker: serde_json::Map<String, Value> = scopes.collect();
        let policy = json!({"default": [{"type": "reject"}], "transports": {"docker": docker}});
        site.write("policy.json", &policy.to_string());
    }
}

pub(crate) fn accept() -> Value {
    json!({"type": "insecureAcceptAnything"})
}

pub(crate) fn outcome(ran: &Ran, part: &str) -> String {
    ran.image(part)["outcome"].as_str().unwrap().to_owned()
}

pub(crate) fn reason(ran: &Ran, part: &str) -> String {
    assert_eq!(outcome(ran, part), "failed", "{}", ran.out);
    ran.image(part)["error"].as_str().unwrap().to_owned()
}

/// What must not be fetched of an image before it is accepted.
pub(crate) fn layers(image: &Image) -> Vec<Digest> {
    let manifest = image.root().parse().unwrap();
    manifest.blobs().iter().map(|blob| blob.digest).collect()
}

#[test]
fn each_image_is_judged_and_the_rest_continues() {
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
            let message = reason(&ran, name);
            assert!(message.contains(why), "{name}: {message}");
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
fn signatures_are_judged_without_the_network_of_the_origin_and_need_not_be_transferred() {
    let source = Source::new();
    let site = Site::new();
    source.policy(&site, &[("team", source.requirement(&site))]);
    let good = source.signed("team/good");
    let images = [
        source.put(&good, "team/good"),
        source.put(&Image::tiny("unsigned").unwrap(), "team/unsigned"),
    ];
    site.images("isc.yaml", &images);

    // Directly: verified by signatures that are then not copied.
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

    // To disk without a policy, and verified on the other side.
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
fn a_later_archive_is_judged_by_signatures_that_an_earlier_one_contains() {
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
    // Without the flag nothing is verified.
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

#[test]
fn signatures_that_cannot_be_read_for_a_moment_are_read_again_in_the_same_run() {
    let (source, site) = (Source::new(), Site::new());
    let signed = source.signed("team/good");
    source.policy(&site, &[("team", source.requirement(&site))]);
    site.images("isc.yaml", &[source.put(&signed, "team/good")]);
    let signature = signed.attachments[0].manifest.parse().unwrap();
    let payload = signature.blobs().last().unwrap().digest.to_string();
    let once = "--retry-times 1 --retry-delay 10ms";
    let line = format!("-c isc.yaml {PLAIN} {POLICY} {once} file://data");
    // Longer than the attempts of one request, and shorter than two rounds.
    source.registry.fault(Fault::on(Method::GET, &payload).times(2).does(Effect::status(503)));
    let ran = site.succeeds(&line);
    assert_eq!(outcome(&ran, "team/good"), "copied");
    assert!(ran.err.contains("retrying to read"), "{}", ran.err);
    // What does not pass is named with its remedy.
    let other = Site::new();
    source.policy(&other, &[("team", source.requirement(&other))]);
    other.images("isc.yaml", &[format!("{}:v1", source.name("team/good"))]);
    source.registry.fault(Fault::on(Method::GET, &payload).does(Effect::status(503)));
    let ran = other.run(&line);
    assert!(reason(&ran, "team/good").contains("reading signatures"), "{}", ran.out);
    assert_eq!(ran.image("team/good")["remedy"], "runAgain");
}

/// An archive is as untrusted as a registry. The image of the update graph was built on the connected
/// side, so the policy has a name for it on the disconnected side.
#[test]
fn the_graph_image_of_an_archive_is_judged_too() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    world.offer_graph_data();
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", "    graph: true\n"));
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    let policy = |graph: Value| {
        let docker = json!({"quay.io": [accept()], "localhost/openshift/graph-image": [graph]});
        let policy = json!({"default": [{"type": "reject"}], "transports": {"docker": docker}});
        site.write("policy.json", &policy.to_string());
    };
    let push = |target: &LabRegistry| {
        let to = target.address();
        world.run(&site, &format!("-c isc.yaml {PLAIN} {POLICY} --from file://data docker://{to}"))
    };
    let target = LabRegistry::start(Settings::default()).unwrap();
    policy(json!({"type": "reject"}));
    let ran = push(&target);
    assert_ne!(ran.code, 0, "{}", ran.out);
    let message = reason(&ran, "openshift/graph-image");
    assert!(message.contains("is rejected by policy"), "{message}");
    assert_eq!(ran.image("graph-image")["outcome"], "failed", "{}", ran.out);
    assert!(ran.total("copied") > 0);
    assert_eq!(target.requests().of(&http::Method::PUT, "graph-image").count(), 0);
    let payload = places(&releases[1]).remove(0);
    let reference = format!("docker://{}/{}", target.address(), payload.0);
    assert_eq!(site.raw(&reference, &["--tls-verify=false"]), payload.1, "{reference}");

    policy(accept());
    let target = LabRegistry::start(Settings::default()).unwrap();
    let ran = push(&target);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let reference = format!("docker://{}/openshift/graph-image:latest", target.address());
    site.pull(&reference, &["--src-tls-verify=false"]);
}
