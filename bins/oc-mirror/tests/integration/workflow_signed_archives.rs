//! Archives that are signed with a key of cosign, and pushed only if they are.

use crate::support;

use std::fs;
use std::process::Command;

use lab::images::Image;
use lab::registry::{LabRegistry, Settings};
use test_tools::Tool;

use support::{PLAIN, Ran, Site, chunks};

fn cosign(site: &Site, args: &[&str]) -> bool {
    let program = test_tools::path(Tool::Cosign).unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(program);
    command.args(args).current_dir(site.path("")).env("HOME", site.path("home"));
    command.env("COSIGN_PASSWORD", "secret").output().unwrap().status.success()
}

fn signed(site: &Site, line: &str, password: &str) -> Ran {
    let mut command = site.command(&format!("--output=json {line}"));
    Ran::of(command.env("COSIGN_PASSWORD", password).output().unwrap())
}

#[test]
fn only_archives_that_are_signed_with_the_right_key_are_pushed() {
    let source = LabRegistry::start(Settings::default()).unwrap();
    let site = Site::new();
    source.put_image(&Image::tiny("one").unwrap(), "org/one", "v1").unwrap();
    site.images("isc.yaml", &[format!("{}/org/one:v1", source.address())]);
    for name in ["good", "other"] {
        assert!(cosign(&site, &["generate-key-pair", "--output-key-prefix", name]), "{name}");
    }
    let line = format!("-c isc.yaml {PLAIN} --sign-archive good.key file://data");
    let ran = signed(&site, &line, "wrong");
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("COSIGN_PASSWORD"), "{}", ran.err);
    assert_eq!(source.requests().count(), 0, "a key that cannot be used is noticed first");
    let ran = signed(&site, &line, "secret");
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);

    // cosign verifies the same signature.
    let archive = chunks(&site.path("data")).remove(0);
    let index = site.judge("tar", &["-xOf", archive.to_str().unwrap(), "--wildcards", "index/*"]);
    fs::write(site.path("index.json"), index).unwrap();
    let signature = format!("{}.sig", archive.display());
    let verify = |key: &str| {
        cosign(
            &site,
            &[
                "verify-blob",
                "--insecure-ignore-tlog",
                "--key",
                key,
                "--signature",
                &signature,
                "index.json",
            ],
        )
    };
    assert!(verify("good.pub") && !verify("other.pub"));

    fs::create_dir(site.path("carried")).unwrap();
    let carried = site.path("carried").join(archive.file_name().unwrap());
    fs::copy(&archive, &carried).unwrap();
    let push = |key: &str| {
        let target = LabRegistry::start(Settings::default()).unwrap();
        let to = target.address();
        let ran = site.run(&format!(
            "-c isc.yaml {PLAIN} --verify-archive {key} --from file://carried docker://{to}"
        ));
        (ran, target)
    };
    // Without the signature, and with that of another key.
    let (ran, target) = push("good.pub");
    assert_eq!((ran.code, target.requests().count()), (1, 0));
    assert!(ran.errors().contains("is not signed with good.pub"), "{}", ran.errors());
    fs::copy(&signature, format!("{}.sig", carried.display())).unwrap();
    let (ran, target) = push("other.pub");
    assert_eq!((ran.code, target.requests().count()), (1, 0));
    assert!(ran.errors().contains("is not signed with other.pub"), "{}", ran.errors());
    let (ran, _) = push("good.key");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("--verify-archive good.key"), "{}", ran.err);
    let (ran, _target) = push("good.pub");
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);

    // The workspace itself is not signed.
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    let ran = site.run(&format!(
        "-c isc.yaml {PLAIN} --verify-archive good.pub --from file://data docker://{to}"
    ));
    assert_eq!((ran.code, target.requests().count()), (1, 0));
    assert!(ran.errors().contains("has a workspace, which is not signed"), "{}", ran.errors());
}
