//! From a registry to a disk, and only the archive of it into a registry elsewhere.

use crate::support;

use std::fs;
use std::sync::Arc;

use lab::certificates::Authority;
use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::{Compression, Format, Image, Layer};
use lab::netns::Isolated;
use lab::registry::{Credentials, LabRegistry};
use oci::Platform;

use support::{PLAIN, Ran, Site, chunks};

/// An image of each format, each packing and each depth.
fn one_of_each() -> Vec<(&'static str, Image)> {
    let amd64 = || Platform::new("linux", "amd64");
    let layer = |name: &str, packing| Layer::generate(name, 20_000, packing).unwrap();
    let base = layer("base", Compression::Gzip);
    let list = |name: &str, format| {
        let of = |architecture: &str| {
            let own = layer(&format!("{name} {architecture}"), Compression::Gzip);
            let platform = Platform::new("linux", architecture);
            Image::new(format, platform, &[base.clone(), own]).unwrap()
        };
        Image::list(format, ["amd64", "arm64", "s390x"].map(of)).unwrap()
    };
    let own = layer("docker", Compression::Gzip);
    let packed = [Compression::None, Compression::Gzip, Compression::Zstd]
        .map(|packing| layer(&format!("{packing:?}"), packing));
    vec![
        ("docker", Image::new(Format::Docker, amd64(), &[base.clone(), own]).unwrap()),
        ("packed", Image::new(Format::Oci, amd64(), &packed).unwrap()),
        ("list", list("list", Format::Docker)),
        ("index", list("index", Format::Oci)),
        ("by-digest", Image::tiny("by digest").unwrap()),
        ("by-both", Image::tiny("by tag and digest").unwrap()),
        ("renamed", Image::tiny("renamed").unwrap()),
        ("blocked", Image::tiny("blocked").unwrap()),
    ]
}

fn secured(authority: &Arc<Authority>, credentials: &Credentials) -> DockerRegistry {
    let tls = Some(Arc::clone(authority));
    let credentials = Some(credentials.clone());
    DockerRegistry::start(&Settings { tls, credentials, ..Settings::default() }).unwrap()
}

#[test]
fn every_image_arrives_as_it_was_behind_other_certificates_and_credentials() {
    let authorities = [(); 2].map(|()| Arc::new(Authority::generate().unwrap()));
    let users = [Credentials::new("puller", "pull:me"), Credentials::new("pusher", "p@ss/word")];
    let source = secured(&authorities[0], &users[0]);
    let images = one_of_each();
    for (name, image) in &images {
        source.put_image(image, &format!("org/{name}"), "v1").unwrap();
    }
    let digest = |name: &str| images.iter().find(|(n, _)| *n == name).unwrap().1.digest();
    let from = source.address();

    // The connected side trusts its registry by flag, the other one by certs.d.
    let connected = Site::new();
    authorities[0].write_certs_dir(&connected.path("certs"), None).unwrap();
    connected.trust(from, &authorities[0]);
    connected.log_in("auth.json", from, &users[0]);
    let configuration = format!(
        "  additionalImages:
  - name: {from}/org/docker:v1
  - name: docker://{from}/org/packed:v1
  - name: {from}/org/list:v1
  - name: {from}/org/index:v1
  - name: {from}/org/by-digest@{}
  - name: {from}/org/by-both:any@{}
  - name: {from}/org/renamed:v1
    targetRepo: other/name
    targetTag: stable
  - name: {from}/org/blocked:v1
  blockedImages:
  - name: org/bloc.ed
",
        digest("by-digest"),
        digest("by-both"),
    );
    connected.image_set("isc.yaml", &configuration);
    let ran =
        connected.succeeds("-c isc.yaml --authfile auth.json --src-cert-dir certs file://data");
    assert_eq!((ran.total("images"), ran.total("copied"), ran.total("failed")), (7, 7, 0));
    let archive = chunks(&connected.path("data"));
    assert_eq!(archive.len(), 1);
    let listed = connected.judge("tar", &["-tf", archive[0].to_str().unwrap()]);
    assert!(!listed.is_empty(), "GNU tar reads the archive");
    drop(source);

    let target = secured(&authorities[1], &users[1]);
    let to = target.address();
    let disconnected = Site::new();
    disconnected.trust(to, &authorities[1]);
    disconnected.log_in("auth.json", to, &users[1]);
    disconnected.image_set("isc.yaml", &configuration);
    fs::create_dir(disconnected.path("data")).unwrap();
    fs::copy(&archive[0], disconnected.path("data").join(archive[0].file_name().unwrap())).unwrap();
    let ran = disconnected.succeeds(&format!(
        "-c isc.yaml --authfile auth.json --from file://data docker://{to}/ocp"
    ));
    assert_eq!((ran.total("images"), ran.total("copied"), ran.total("failed")), (7, 7, 0));

    let auth = disconnected.path("auth.json").display().to_string();
    let certs = disconnected.path(&format!("home/.config/containers/certs.d/{to}"));
    let options = ["--authfile", &auth, "--cert-dir", &certs.display().to_string()];
    let src_options = ["--src-authfile", &auth, "--src-cert-dir", &certs.display().to_string()];
    for (name, place) in [
        ("docker", "org/docker:v1".to_owned()),
        ("packed", "org/packed:v1".into()),
        ("list", "org/list:v1".into()),
        ("index", "org/index:v1".into()),
        ("by-digest", format!("org/by-digest:sha256-{}", digest("by-digest").hex())),
        ("by-both", "org/by-both:any".into()),
        ("renamed", "other/name:stable".into()),
    ] {
        let image = &images.iter().find(|(n, _)| *n == name).unwrap().1;
        let reference = format!("docker://{to}/ocp/{place}");
        assert_eq!(disconnected.raw(&reference, &options), image.root().bytes, "{reference}");
        disconnected.pull(&reference, &src_options);
    }
    let refused = disconnected.try_judge(
        "skopeo",
        &[&["inspect"], &options[..], &[&format!("docker://{to}/ocp/org/blocked:v1")]].concat(),
    );
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unknown"), "{refused:?}");
}

#[test]
fn the_disconnected_side_needs_no_route_but_to_its_registry() {
    let source = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let images = one_of_each();
    let names: Vec<String> = images
        .iter()
        .map(|(name, image)| {
            source.put_image(image, &format!("org/{name}"), "v1").unwrap();
            format!("{}/org/{name}:v1", source.address())
        })
        .collect();
    let site = Site::new();
    site.images("isc.yaml", &names);
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));

    // Inside, nothing but the target responds, not even for names. The source
    // is up all the time, and unreachable.
    let inside = Isolated::new().unwrap();
    let target = DockerRegistry::start_in(&inside, &Settings::default()).unwrap();
    let to = target.address();
    for line in [
        format!("-c isc.yaml {PLAIN} --dry-run --from file://data docker://{to}"),
        format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"),
    ] {
        source.forget_requests();
        let mut command = site.command_in(&inside, &format!("--output=json {line}"));
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
        assert_eq!(ran.total("retries"), 0, "no other server was requested in vain");
        assert_eq!(ran.report()["warnings"], serde_json::json!([]));
        assert_eq!(source.requests().count(), 0);
    }
    for (name, image) in &images {
        let reference = format!("docker://{to}/org/{name}:v1");
        let output = inside
            .command("skopeo")
            .args(["inspect", "--raw", "--tls-verify=false", &reference])
            .output()
            .unwrap();
        assert_eq!(output.stdout, image.root().bytes, "{reference}");
    }
}
