//! cosign's verdict on generated signatures.

use std::fs;
use std::process::{Command, Output};

use lab::images::{Image, SigningKey};
use lab::registry::{LabRegistry, Settings};
use lab::tools::{self, Tool};

#[test]
fn cosign_accepts_signature_and_attestation_with_the_right_key_only() {
    let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let image = Image::tiny("x").unwrap().signed(&key, "quay.io/a/x").unwrap();
    let image = image.attested(&key).unwrap();
    let registry = LabRegistry::start(Settings::default()).unwrap();
    registry.put_image(&image, "a/x", "v1").unwrap();

    let dir = tempfile::tempdir().unwrap();
    let cosign = tools::path(Tool::Cosign).unwrap_or_else(|error| panic!("{error}"));
    let verify = |key: &SigningKey, what: &[&str]| -> Output {
        let public = dir.path().join("key.pub");
        fs::write(&public, key.public_pem()).unwrap();
        Command::new(&cosign)
            .args(what)
            .arg("--key")
            .arg(public)
            .args(["--insecure-ignore-tlog", "--allow-http-registry"])
            .arg(registry.image("a/x", "v1").unwrap().to_string())
            .env("HOME", dir.path())
            .output()
            .unwrap()
    };
    for what in [&["verify"][..], &["verify-attestation", "--type", "slsaprovenance"]] {
        let accepted = verify(&key, what);
        assert!(accepted.status.success(), "{what:?}: {accepted:?}");
        assert!(!verify(&other, what).status.success(), "{what:?} with another key");
    }
}
