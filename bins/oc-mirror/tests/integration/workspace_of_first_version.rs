//! Workspaces and archives of the first version (commit 971bce8) are continued, incrementally.
//! `tests/fixtures/first-version/README.md` describes the fixture.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};

use support::{PLAIN, Site, chunks};

/// The registry that the images are named by, whatever address it has.
const HOST: &str = "first-version.example";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/first-version/workspaces.tar.gz")
}

/// An image on a base that all of them share.
fn image(name: &str) -> Image {
    let layer = |name: &str| Layer::generate(name, 2_000, Compression::Gzip).unwrap();
    Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer("base"), layer(name)]).unwrap()
}

/// The registry before the run with this number: `b` is another image in each.
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
#[ignore = "writes the fixture, with the program that LANDFALL_FIRST_VERSION names"]
fn write_the_fixture() {
    let program = std::env::var("LANDFALL_FIRST_VERSION").unwrap();
    let run = |site: &Site, line: &str| {
        let current = site.command(line);
        let mut command = Command::new(&program);
        command.args(current.get_args()).env_clear().current_dir(site.path(""));
        command.envs(current.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let connected = site(&source(1));
    for number in 1..=2 {
        let origin = source(number);
        redirect(&connected, &origin);
        run(&connected, &format!("-c isc.yaml {PLAIN} file://data"));
    }
    let origin = source(2);
    let disconnected = site(&origin);
    fs::create_dir(disconnected.path("data")).unwrap();
    let chunk = "data/mirror_000001.tar";
    fs::copy(connected.path(chunk), disconnected.path(chunk)).unwrap();
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    run(&disconnected, &format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    redirect(&connected, &origin);
    run(&connected, &format!("-c isc.yaml {PLAIN} --workspace file://direct docker://{to}/direct"));
    let written = tempfile::tempdir().unwrap();
    for (from, to) in [
        (connected.path("data"), "connected"),
        (disconnected.path("data"), "disconnected"),
        (connected.path("direct"), "direct"),
    ] {
        support::copy(&from, &written.path().join(to));
    }
    let file = fixture();
    let arguments = ["--sort=name", "--owner=0", "--group=0", "-czf", file.to_str().unwrap()];
    tar(&[&arguments[..], &["connected", "disconnected", "direct"]].concat(), written.path());
}

/// Replaces the data of a machine by one folder of the fixture.
fn unpack(folder: &str, site: &Site) {
    tar(&["-xzf", fixture().to_str().unwrap(), folder], &site.path(""));
    fs::rename(site.path(folder), site.path("data")).unwrap();
}

fn copy_chunk(chunk: &Path, to: &Site) {
    fs::copy(chunk, to.path("data").join(chunk.file_name().unwrap())).unwrap();
}

/// skopeo reads both images at the target, with the content of `b` that is expected.
fn has_arrived(site: &Site, target: &LabRegistry, b: &str) {
    for (name, content) in [("a", "a"), ("b", b)] {
        let reference = format!("docker://{}/org/{name}:v1", target.address());
        assert_eq!(site.raw(&reference, &["--tls-verify=false"]), image(content).root().bytes);
        site.pull(&reference, &["--src-tls-verify=false"]);
    }
}

fn blob_requests(registry: &LabRegistry) -> Vec<String> {
    let requests = registry.requests().0.into_iter().map(|request| request.path);
    requests.filter(|path| path.contains("/blobs/")).collect()
}

#[test]
fn a_workspace_and_archives_of_the_first_version_are_continued() {
    let to_disk = format!("-c isc.yaml {PLAIN} file://data");
    // Nothing changed since: nothing is fetched and nothing archived.
    let unchanged = source(2);
    let connected = site(&unchanged);
    unpack("connected", &connected);
    let ran = connected.succeeds(&to_disk);
    assert_eq!((ran.report()["run"].as_u64(), ran.total("present")), (Some(3), 2));
    assert_eq!(chunks(&connected.path("data")).len(), 2);
    assert_eq!(blob_requests(&unchanged), Vec::<String>::new());

    // One image changed: the archive has its new layer, and builds on that of the first version.
    let changed = source(3);
    redirect(&connected, &changed);
    let report = connected.succeeds(&to_disk).report();
    let archive = &report["archive"];
    assert_eq!((archive["run"].as_u64(), archive["base"].as_u64()), (Some(4), Some(2)));
    let base = Layer::generate("base", 2_000, Compression::Gzip).unwrap().blob.digest.to_string();
    let fetched = blob_requests(&changed);
    assert!(!fetched.is_empty() && !fetched.iter().any(|path| path.contains(&base)), "{fetched:?}");

    // The disconnected side continues with the archives of both versions.
    let disconnected = site(&changed);
    unpack("disconnected", &disconnected);
    let made = chunks(&connected.path("data"));
    assert_eq!(made.len(), 3);
    made.iter().for_each(|chunk| copy_chunk(chunk, &disconnected));
    let target = LabRegistry::start(Settings::default()).unwrap();
    let push = format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address());
    disconnected.succeeds(&push);
    has_arrived(&disconnected, &target, "b3");
    assert_eq!(disconnected.succeeds(&push).total("present"), 2);

    // The archive after it is enough: what it builds on is at the target.
    let later = source(4);
    redirect(&connected, &later);
    let report = connected.succeeds(&to_disk).report();
    assert_eq!(report["archive"]["base"].as_u64(), Some(4));
    made.iter().for_each(|chunk| {
        fs::remove_file(disconnected.path("data").join(chunk.file_name().unwrap())).unwrap();
    });
    copy_chunk(chunks(&connected.path("data")).last().unwrap(), &disconnected);
    disconnected.succeeds(&push);
    has_arrived(&disconnected, &target, "b4");

    for command in ["status file://data", "verify file://data"] {
        let output = connected.command(command).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_workspace_of_mirror_to_mirror_of_the_first_version_is_continued() {
    let origin = source(3);
    let site = site(&origin);
    unpack("direct", &site);
    let target = LabRegistry::start(Settings::default()).unwrap();
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{}", target.address());
    let ran = site.succeeds(&line);
    assert_eq!((ran.report()["run"].as_u64(), ran.total("copied")), (Some(2), 2));
    has_arrived(&site, &target, "b3");
    assert_eq!(site.succeeds(&line).total("present"), 2);
}
