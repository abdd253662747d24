//! Workspaces and archives of the first version are continued, incrementally.
//!
//! The fixture was made by that version (971bce8): a workspace after two runs to disk, and what the
//! disconnected side had after it pushed the first archive. To make it again:
//!
//! ```text
//! LANDFALL_FIRST_VERSION=oc-mirror cargo test -p oc-mirror --test integration -- --ignored make_the_fixture
//! ```

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};

use support::{PLAIN, Site, chunks};

/// The registry of the images, wherever it listens.
const HOST: &str = "first-version.example";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/first-version.tar.gz")
}

/// An image on a base that all of them share.
fn image(name: &str) -> Image {
    let layer = |name: &str| Layer::generate(name, 2_000, Compression::Gzip).unwrap();
    Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer("base"), layer(name)]).unwrap()
}

/// A registry after so many runs: `b` changes with each.
fn source(run: usize) -> LabRegistry {
    let source = LabRegistry::start(Settings::default()).unwrap();
    source.put_image(&image("a"), "org/a", "v1").unwrap();
    source.put_image(&image(&format!("b{run}")), "org/b", "v1").unwrap();
    source
}

/// Makes a machine find the images at `source`, and nowhere else.
fn redirect(site: &Site, source: &LabRegistry) {
    let _ = fs::remove_file(site.path("home/.config/containers/registries.conf"));
    site.redirect(HOST, source.address());
}

fn site(source: &LabRegistry) -> Site {
    let site = Site::new();
    redirect(&site, source);
    site.images("isc.yaml", &["a", "b"].map(|name| format!("{HOST}/org/{name}:v1")));
    site
}

fn tar(arguments: &[&str], directory: &Path) {
    let status = Command::new("tar").args(arguments).current_dir(directory).status().unwrap();
    assert!(status.success(), "tar {arguments:?}");
}

#[test]
#[ignore = "makes the fixture, with the program that LANDFALL_FIRST_VERSION names"]
fn make_the_fixture() {
    let program = std::env::var("LANDFALL_FIRST_VERSION").unwrap();
    let run = |site: &Site, line: &str| {
        let described = site.command(line);
        let mut command = Command::new(&program);
        command.args(described.get_args()).env_clear().current_dir(site.path(""));
        for (name, value) in described.get_envs() {
            value.map(|value| command.env(name, value));
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let connected = site(&source(1));
    let mut origin = source(1);
    for number in 1..=2 {
        origin = source(number);
        redirect(&connected, &origin);
        run(&connected, &format!("-c isc.yaml {PLAIN} file://data"));
    }
    let far = site(&origin);
    fs::create_dir(far.path("data")).unwrap();
    fs::copy(connected.path("data/mirror_000001.tar"), far.path("data/mirror_000001.tar")).unwrap();
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    run(&far, &format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    run(&connected, &format!("-c isc.yaml {PLAIN} --workspace file://direct docker://{to}/direct"));
    let made = tempfile::tempdir().unwrap();
    for (from, to) in [
        (connected.path("data"), "connected"),
        (far.path("data"), "far"),
        (connected.path("direct"), "direct"),
    ] {
        support::copy(&from, &made.path().join(to));
    }
    fs::create_dir_all(fixture().parent().unwrap()).unwrap();
    tar(&["-czf", fixture().to_str().unwrap(), "connected", "far", "direct"], made.path());
}

/// Puts one folder of the fixture in place of the data of a machine.
fn unpack(folder: &str, site: &Site) {
    tar(&["-xzf", fixture().to_str().unwrap(), folder], &site.path(""));
    fs::rename(site.path(folder), site.path("data")).unwrap();
}

#[test]
fn a_workspace_and_archives_of_the_first_version_are_continued() {
    // Nothing changed since: nothing is fetched and nothing archived.
    let unchanged = source(2);
    let connected = site(&unchanged);
    unpack("connected", &connected);
    let ran = connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!((ran.report()["run"].as_u64(), ran.total("present")), (Some(3), 2));
    assert_eq!(chunks(&connected.path("data")).len(), 2);
    assert!(unchanged.requests().0.iter().all(|request| !request.path.contains("/blobs/")));

    // One image changed: the archive has its new layer, and builds on that of the first version.
    let changed = source(3);
    redirect(&connected, &changed);
    let ran = connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let report = ran.report();
    assert_eq!((report["archive"]["run"].as_u64(), report["archive"]["base"].as_u64()), (Some(4), Some(2)));
    let base = Layer::generate("base", 2_000, Compression::Gzip).unwrap().blob.digest;
    assert!(
        changed.requests().0.iter().all(|request| !request.path.contains(&base.to_string())),
        "the base layer was fetched again"
    );

    // The disconnected side goes on with the archives of both versions.
    let far = site(&changed);
    unpack("far", &far);
    for chunk in chunks(&connected.path("data")) {
        fs::copy(&chunk, far.path("data").join(chunk.file_name().unwrap())).unwrap();
    }
    let target = LabRegistry::start(Settings::default()).unwrap();
    let push = format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address());
    far.succeeds(&push);
    for (name, content) in [("a", "a"), ("b", "b3")] {
        let reference = format!("docker://{}/org/{name}:v1", target.address());
        assert_eq!(far.raw(&reference, &["--tls-verify=false"]), image(content).root().bytes);
        far.pull(&reference, &["--src-tls-verify=false"]);
    }
    let ran = far.succeeds(&push);
    assert_eq!(ran.total("present"), 2);
    for program in ["status file://data", "verify file://data"] {
        let output = connected.command(program).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_workspace_of_mirror_to_mirror_of_the_first_version_is_continued() {
    let origin = source(3);
    let site = site(&origin);
    unpack("direct", &site);
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}/ns");
    let ran = site.succeeds(&line);
    assert_eq!((ran.report()["run"].as_u64(), ran.total("copied")), (Some(2), 2));
    assert_eq!(site.succeeds(&line).total("present"), 2);
}
