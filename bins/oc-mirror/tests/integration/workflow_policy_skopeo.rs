//! Signatures of GPG keys, transparency logs and certificates are verified as skopeo verifies them.

use crate::support;

use std::fs;

use base64::Engine as _;
use lab::images::Image;
use lab::registry::{LabRegistry, Settings};
use lab::releases::{ReleaseKey, claim};
use lab::signature_store::SignatureStore;
use lab::sigstore::{CodeAuthority, RECORDED, Signed, TransparencyLog};
use oci::Digest;
use serde_json::{Value, json};

use crate::workflow_policy::{POLICY, Source, accept, layers, outcome, reason};
use support::forky_skopeo::ForkySkopeo;
use support::{PLAIN, Site, chunks};

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
                let message = reason(&ran, name);
                assert!(
                    message.contains("is rejected by policy") && message.contains(why),
                    "{name}: {message}"
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
fn a_lookaside_server_that_does_not_respond_is_not_a_permission() {
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

    // Without signatures in the archive, the disconnected side rejects, and sends no request.
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

/// Images whose signatures name an entry of a transparency log or a certificate, and the verdict
/// that is expected.
struct Logged {
    source: Source,
    site: Site,
    cases: [(&'static str, &'static str); 12],
}

impl Logged {
    fn new() -> Self {
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
        let names = cases.map(|(name, _)| format!("{}:v1", source.name(name)));
        site.images("isc.yaml", &names);
        Self { source, site, cases }
    }

    /// Whether skopeo in another root directory accepts an image.
    fn skopeo_accepts(&self, name: &str) -> bool {
        let skopeo = ForkySkopeo::new();
        let policy = skopeo.write("policy.json", &self.site.read("policy.json"));
        let attachments = "default-docker:\n  use-sigstore-attachments: true\n";
        let registries = skopeo.write("registries.d/x.yaml", attachments);
        let registries = registries.rsplit_once('/').unwrap().0;
        let source = format!("docker://{}:v1", self.source.name(name));
        let target = format!("dir:{}", skopeo.inside("out"));
        let general = ["--policy", &policy, "--registries.d", registries];
        let copy = ["copy", "--remove-signatures", "--src-tls-verify=false", &source, &target];
        skopeo.run(&[&general[..], &copy].concat()).status.success()
    }
}

#[test]
fn logs_and_certificates_are_judged_by_the_policy() {
    let logged = Logged::new();
    let ran = logged.site.run(&format!("-c isc.yaml {PLAIN} {POLICY} file://data"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    for (name, why) in logged.cases {
        match why {
            "" => assert_eq!(outcome(&ran, name), "copied", "{name}: {}", ran.out),
            why => {
                let message = reason(&ran, name);
                assert!(
                    message.contains("is rejected by policy") && message.contains(why),
                    "{name}: {message}"
                );
            }
        }
    }
}

/// Debian forky's skopeo 1.22 (containers/image 5.39) on the same images and policies; Debian 12's
/// supports neither Rekor nor Fulcio.
#[test]
fn skopeo_1_22_judges_logs_and_certificates_in_the_same_way() {
    let logged = Logged::new();
    for (name, why) in logged.cases {
        assert_eq!(logged.skopeo_accepts(name), why.is_empty(), "skopeo on {name}");
    }
}
