//! Pulls by an independent client.
use crate::fixture;

use std::fs;
use std::path::Path;
use std::process::Command;

use fixture::{Format, RunningServer, TestContent};
use oci::{Digest, MediaType, Tag};
use serve::{Options, Tls};

fn skopeo(arguments: &[&str]) -> String {
    let output = Command::new("skopeo")
        .args(arguments)
        .output()
        .expect("skopeo is needed for this test: apt-get install skopeo");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "skopeo {arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Copies an image with all it lists to a new directory and compares the manifest.
fn pull(server: &RunningServer, name: &str, expected: Digest) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    let from = format!("docker://{}/{name}", server.address);
    let target = format!("dir:{}", to.path().display());
    skopeo(&["copy", "--all", "--preserve-digests", "--src-tls-verify=false", &from, &target]);
    let manifest = fs::read(to.path().join("manifest.json")).unwrap();
    assert_eq!(Digest::of(&manifest), expected, "{name}");
    to
}

fn has_blob(directory: &Path, bytes: &[u8]) -> bool {
    fs::read(directory.join(Digest::of(bytes).hex())).is_ok_and(|found| found == bytes)
}

#[test]
fn skopeo_pulls_every_format_with_its_digest_unchanged() {
    let mut content = TestContent::new();
    let docker = content.image(Format::Docker, "amd64", b"docker layer");
    let oci = content.image(Format::Oci, "amd64", b"oci layer");
    let arm = content.image(Format::Oci, "arm64", b"arm layer");
    let index = content.index(Format::Oci, &[("amd64", &oci), ("arm64", &arm)]);
    let list = content.index(Format::Docker, &[("amd64", &docker)]);
    let signature = content.signature(&index);
    let (signature_tag, signed) = (signature.tag.clone().unwrap(), signature.manifests[0].digest);
    let by_digest = format!("apps/oci:{}", Tag::of_digest(&oci.digest));
    content.add_image("apps/docker:v1", vec![docker.clone()], vec![]);
    content.add_image(&by_digest, vec![oci.clone()], vec![]);
    let tree = vec![index.clone(), oci.clone(), arm.clone()];
    content.add_image("apps/index:v1", tree, vec![signature]);
    content.add_image("apps/list:v1", vec![list.clone(), docker.clone()], vec![]);
    let server = content.serve();

    assert!(has_blob(pull(&server, "apps/docker:v1", docker.digest).path(), b"docker layer"));
    assert!(has_blob(pull(&server, &by_digest, oci.digest).path(), b"oci layer"));
    let all = pull(&server, "apps/index:v1", index.digest);
    assert!(has_blob(all.path(), b"oci layer") && has_blob(all.path(), b"arm layer"));
    pull(&server, "apps/list:v1", list.digest);
    pull(&server, &format!("apps/index@{}", arm.digest), arm.digest);
    pull(&server, &format!("apps/index:{signature_tag}"), signed);

    let name = format!("docker://{}/apps/docker:v1", server.address);
    let seen: serde_json::Value =
        serde_json::from_str(&skopeo(&["inspect", "--tls-verify=false", &name])).unwrap();
    assert_eq!(seen["Digest"], docker.digest.to_string());
    assert_eq!(seen["Architecture"], "amd64");
    let name = format!("docker://{}/apps/index", server.address);
    let tags: serde_json::Value =
        serde_json::from_str(&skopeo(&["list-tags", "--tls-verify=false", &name])).unwrap();
    assert_eq!(tags["Tags"], serde_json::json!([signature_tag, "v1"]));
}

#[test]
fn skopeo_cannot_push() {
    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", b"layer");
    content.add_image("apps/a:v1", vec![image.clone()], vec![]);
    let server = content.serve();
    let from = pull(&server, "apps/a:v1", image.digest);
    let output = Command::new("skopeo")
        .args(["copy", "--dest-tls-verify=false"])
        .arg(format!("dir:{}", from.path().display()))
        .arg(format!("docker://{}/apps/b:v1", server.address))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("read-only view"), "{stderr}");
}

#[test]
fn skopeo_pulls_over_tls_and_trusts_only_the_given_authority() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let (certificate, key) = (files.path().join("ca.crt"), files.path().join("server.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let trusted = tempfile::tempdir().unwrap();
    fs::copy(&certificate, trusted.path().join("ca.crt")).unwrap();

    let mut content = TestContent::new();
    let image = content.image(Format::Oci, "amd64", b"layer");
    content.add_image("apps/a:v1", vec![image], vec![]);
    let tls = Some(Tls::open(&certificate, &key).unwrap());
    let server = content.serve_with(Options { tls, ..Options::default() });
    let name = format!("docker://{}/apps/a:v1", server.address);
    let raw = skopeo(&["inspect", "--raw", "--cert-dir", trusted.path().to_str().unwrap(), &name]);
    assert!(raw.contains(MediaType::OCI_MANIFEST));
    let refused = Command::new("skopeo").args(["inspect", &name]).output().unwrap();
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && stderr.contains("x509"), "{stderr}");
}
