//! Signatures that must not be accepted: each is refused by its own reason,
//! before anything of the release is fetched.

use crate::support;

use lab::data_tier;
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use lab::releases::{Recipe, Release, ReleaseKey, claim};

use support::releases::{World, channel};
use support::{PLAIN, Ran};

/// An environment with one release whose signature is still to be put in place.
struct Bench {
    world: World,
    release: Release,
}

impl Bench {
    fn new() -> Self {
        let (world, mut releases) = World::with(&["4.16.3"]);
        world.signatures.wipe();
        Self { world, release: releases.remove(0) }
    }

    fn put(&self, number: usize, signature: Vec<u8>) {
        self.world.signatures.put(&self.release.payload.digest(), number, signature);
    }

    fn good(&self) -> Vec<u8> {
        self.world.key.sign(&self.release.claim()).unwrap()
    }

    /// Mirrors the release with an image that nothing is wrong with.
    fn run(&self) -> Ran {
        let image = lab::images::Image::tiny("beside").unwrap();
        self.world.quay.put_image(&image, "org/beside", "v1").unwrap();
        let site = self.world.site();
        let beside = "  additionalImages:\n  - name: quay.io/org/beside:v1\n";
        site.image_set("isc.yaml", &(channel("stable-4.16", "") + beside));
        self.world.quay.forget_requests();
        let retry = "--retry-times 1 --retry-delay 1ms";
        self.world.run(&site, &format!("-c isc.yaml {PLAIN} {retry} file://data"))
    }

    /// The release was refused for a reason that contains `wanted`, nothing of
    /// it was requested, and the image beside it arrived.
    fn refused(&self, expected: &str) {
        let ran = self.run();
        assert_eq!(ran.code, 2, "{expected}: {}\n{}", ran.err, ran.out);
        let lost = ran.image(&self.release.payload.digest().to_string());
        let error = lost["error"].as_str().unwrap();
        assert!(error.contains(expected), "expected {expected:?}, found {error}");
        assert_eq!(ran.image("org/beside")["outcome"], "copied");
        let requests = self.world.quay.requests();
        let of_release: Vec<&str> = requests
            .0
            .iter()
            .map(|request| request.path.as_str())
            .filter(|path| path.contains("openshift-release-dev"))
            .collect();
        assert!(of_release.is_empty(), "{expected}: {of_release:?}");
    }
}

#[test]
fn a_good_signature_is_believed() {
    let bench = Bench::new();
    bench.put(1, bench.good());
    let ran = bench.run();
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
}

#[test]
fn a_forged_signature_is_refused() {
    let bench = Bench::new();
    // Without compression the last bytes are those of the signature itself.
    let mut forged = uncompressed(&bench.world.key, &bench.release.claim());
    let last = forged.len() - 1;
    forged[last] ^= 1;
    bench.put(1, forged);
    bench.refused("signature");
}

#[test]
fn a_signed_text_that_was_edited_is_refused() {
    let bench = Bench::new();
    let other = Release::generate(&Recipe { version: "4.16.4", ..Recipe::default() }).unwrap();
    let text = String::from_utf8(other.claim()).unwrap();
    let signed = uncompressed(&bench.world.key, text.as_bytes());
    let hex = |release: &Release| release.payload.digest().hex();
    bench.put(1, replaced(&signed, hex(&other).as_bytes(), hex(&bench.release).as_bytes()));
    bench.refused("signature");
}

#[test]
fn a_cut_signature_is_refused() {
    let bench = Bench::new();
    let good = bench.good();
    for length in [good.len() - 1, good.len() / 2, 10, 1] {
        let bench = Bench::new();
        bench.put(1, good[..length].to_vec());
        bench.refused("signature");
    }
}

#[test]
fn a_signature_of_a_foreign_key_is_refused() {
    let bench = Bench::new();
    let foreign = ReleaseKey::generate().unwrap();
    bench.put(1, foreign.sign(&bench.release.claim()).unwrap());
    bench.refused("key");
}

#[test]
fn a_signature_made_after_its_key_had_expired_is_refused() {
    let mut bench = Bench::new();
    bench.world.key = ReleaseKey::expired().unwrap();
    bench.put(1, bench.good());
    bench.refused("expired");
}

#[test]
fn a_good_signature_of_another_release_is_refused() {
    let bench = Bench::new();
    let other = Release::generate(&Recipe { version: "4.16.4", ..Recipe::default() }).unwrap();
    bench.put(1, bench.world.key.sign(&other.claim()).unwrap());
    bench.refused(&other.payload.digest().to_string());
}

#[test]
fn a_release_without_a_signature_is_refused() {
    let bench = Bench::new();
    bench.refused("signature-1");
}

#[test]
fn what_is_not_a_signature_is_refused() {
    for junk in [
        b"not a signature".to_vec(),
        Vec::new(),
        b"<html>Please log in</html>".to_vec(),
        vec![0xff; 5000],
    ] {
        let bench = Bench::new();
        bench.put(1, junk);
        bench.refused("signature");
    }
}

#[test]
fn a_text_that_is_signed_and_names_something_else_is_refused() {
    let bench = Bench::new();
    for text in [b"{}".to_vec(), b"no JSON".to_vec()] {
        bench.put(1, bench.world.key.sign(&text).unwrap());
        bench.refused("signature");
    }
}

#[test]
fn the_second_signature_counts_when_the_first_is_by_an_unknown_key() {
    let bench = Bench::new();
    let foreign = ReleaseKey::generate().unwrap();
    bench.put(1, foreign.sign(&bench.release.claim()).unwrap());
    bench.put(2, bench.good());
    let ran = bench.run();
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
}

#[test]
fn several_keys_may_be_trusted() {
    let bench = Bench::new();
    let other = ReleaseKey::generate().unwrap();
    bench.put(1, other.sign(&bench.release.claim()).unwrap());
    let site = bench.world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    let both = format!("{}\n{}", bench.world.key.public(), other.public());
    site.write("release-key.asc", &both);
    bench.world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
}

#[test]
fn a_store_that_does_not_respond_is_not_an_absent_signature() {
    let bench = Bench::new();
    bench.put(1, bench.good());
    bench.world.signatures.server.fault(Fault::on_any("/signature-").does(Effect::status(503)));
    bench.refused("503");
    bench.world.signatures.server.clear_faults();
    let page = Effect::Status(
        200,
        vec![("content-type".into(), "text/html".into())],
        "<html>Please log in</html>".into(),
    );
    bench.world.signatures.server.fault(Fault::on_any("/signature-").does(page));
    bench.refused("web page");
}

#[test]
fn a_release_by_name_is_verified_too_unless_that_is_refused_by_flag_and_noted() {
    let bench = Bench::new();
    let site = bench.world.site();
    let platform = format!("  platform:\n    release: {}\n", bench.release.reference());
    site.image_set("isc.yaml", &platform);
    let line = format!("-c isc.yaml {PLAIN} --retry-times 0 file://data");
    let ran = bench.world.run(&site, &line);
    assert_eq!(ran.code, 2, "{}\n{}", ran.err, ran.out);

    let ran = bench.world.succeeds(&site, &format!("{line} --ignore-release-signature"));
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains("--ignore-release-signature"), "{warnings}");
    let logs = std::fs::read_dir(site.path("data/working-dir/logs")).unwrap();
    let audits = logs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("audit-"));
    let audited: String = audits.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(audited.contains("not verified"), "{audited}");

    // What is known by its digest only is reported by digest.
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    let line = format!("-c isc.yaml {PLAIN} --ignore-release-signature --from file://data");
    bench.world.succeeds(&site, &format!("{line} docker://{to}"));
    let hex = bench.release.payload.digest().hex();
    let place = format!("docker://{to}/openshift/release-images:{hex}");
    let raw = site.raw(&place, &["--tls-verify=false"]);
    assert_eq!(raw, bench.release.payload.root().bytes);

    // Signed, it is mirrored under its own tag.
    bench.put(1, bench.good());
    let fresh = bench.world.site();
    fresh.image_set("isc.yaml", &platform);
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}");
    bench.world.succeeds(&fresh, &line);
    let place = format!("docker://{to}/openshift/release-images:4.16.3-x86_64");
    assert_eq!(site.raw(&place, &["--tls-verify=false"]), raw);
}

#[test]
fn signatures_of_channels_cannot_be_ignored() {
    let bench = Bench::new();
    let site = bench.world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    let line = format!("-c isc.yaml {PLAIN} --ignore-release-signature file://data");
    let ran = bench.world.run(&site, &line);
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("--ignore-release-signature"), "{}", ran.err);
    assert_eq!(bench.world.quay.requests().count(), 0);
}

#[test]
fn signatures_that_came_along_are_verified_again() {
    let (world, _) = World::with(&["4.16.3"]);
    let site = world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    let other = ReleaseKey::generate().unwrap();
    site.write("release-key.asc", other.public());
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    let ran = world.run(&site, &format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(ran.code, 2, "{}\n{}", ran.err, ran.out);
    assert_eq!(target.requests().of(&http::Method::PUT, "").count(), 0);
}

/// A signed message whose text can be seen.
fn uncompressed(key: &ReleaseKey, text: &[u8]) -> Vec<u8> {
    key.sign_uncompressed(text).unwrap()
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
    [&bytes[..at], new, &bytes[at + old.len()..]].concat()
}

#[test]
fn the_claim_of_the_lab_is_what_real_signatures_say() {
    let Some(folder) = data_tier("release-signatures") else { return };
    let real: serde_json::Value = serde_json::from_str(
        &std::fs::read_to_string(folder.join("cincinnati-scraper/signatures/message.json"))
            .unwrap(),
    )
    .unwrap();
    let ours = claim(&oci::Digest::of(b"x"), "quay.io/a/b:1");
    for key in ["image", "type", "identity"] {
        let keys = |value: &serde_json::Value| match &value["critical"][key] {
            serde_json::Value::Object(map) => map.keys().cloned().collect::<Vec<_>>(),
            other => vec![other.to_string()],
        };
        assert_eq!(keys(&ours), keys(&real), "{key}");
    }
}

#[test]
fn a_signature_that_the_user_put_into_the_workspace_is_read_first() {
    let bench = Bench::new();
    let hex = bench.release.payload.digest().hex();
    let site = bench.world.site();
    site.image_set("isc.yaml", &channel("stable-4.16", ""));
    let folder = site.path("data/working-dir/signatures");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("4.16.3-x86_64-sha256-{hex}"));
    let line = format!("-c isc.yaml {PLAIN} --retry-times 0 file://data");
    // An invalid one is ignored: a request goes to the store, which has none.
    std::fs::write(&file, b"no signature").unwrap();
    assert_eq!(bench.world.run(&site, &line).code, 2);
    bench.world.forget_requests();
    std::fs::write(&file, bench.good()).unwrap();
    bench.world.succeeds(&site, &line);
    assert_eq!(bench.world.signatures.server.requests().count(), 0);
}

#[test]
fn a_good_signature_of_an_older_release_does_not_replace_the_selected_one() {
    let bench = Bench::new();
    bench.put(1, bench.good());
    let graph = lab::update_service::Graph::default().node_in(
        "4.16.9",
        &bench.release.pullspec(),
        &["stable-4.16"],
    );
    bench.world.service.publish("stable-4.16", "amd64", &graph);
    bench.refused("signed as 4.16.3-x86_64, expected 4.16.9 for amd64");
}
