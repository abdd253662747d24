//! A dry run shows what a run would do, and changes nothing.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lab::docker_registry::{DockerRegistry, Settings as DockerSettings};
use lab::images::{Format, Image};
use lab::registry::{LabRegistry, Settings};
use oci::Digest;
use serde_json::Value;

use support::{PLAIN, Site};

/// Where scripts expect images of a run to disk: the cache registry of oc-mirror v2.
const CACHE: &str = "docker://localhost:55000/";

/// Every file and directory below one, with content and time. Left out is what
/// a dry run may write, and the time of the directory that is in.
type Listing = BTreeMap<PathBuf, (Option<Digest>, Option<SystemTime>)>;

fn listing(directory: &Path) -> Listing {
    let mut found = Listing::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.ends_with("working-dir/dry-run") {
                continue;
            }
            let about = entry.metadata().unwrap();
            let time = about.modified().unwrap();
            if about.is_dir() {
                let time = (!path.ends_with("working-dir")).then_some(time);
                found.insert(path.clone(), (None, time));
                open.push(path);
            } else if about.is_symlink() {
                let to = fs::read_link(&path).unwrap();
                found.insert(path, (Some(Digest::of(to.as_os_str().as_encoded_bytes())), None));
            } else {
                let content = Digest::of(&fs::read(&path).unwrap());
                found.insert(path, (Some(content), Some(time)));
            }
        }
    }
    found
}

struct Scene {
    site: Site,
    source: LabRegistry,
    list: Image,
    target: DockerRegistry,
    storage: tempfile::TempDir,
}

/// A source with a list and a plain image.
fn scene() -> Scene {
    let source = LabRegistry::start(Settings::default()).unwrap();
    let list = Image::list(Format::Oci, ["x", "y"].map(|name| Image::tiny(name).unwrap())).unwrap();
    source.put_image(&list, "org/list", "v1").unwrap();
    source.put_image(&Image::tiny("plain").unwrap(), "org/plain", "v1").unwrap();
    let site = Site::new();
    site.images(
        "isc.yaml",
        &["list", "plain"].map(|name| source.image(&format!("org/{name}"), "v1").unwrap()),
    );
    let storage = tempfile::tempdir().unwrap();
    let kept = Some(storage.path().to_owned());
    let target =
        DockerRegistry::start(&DockerSettings { storage: kept, ..DockerSettings::default() });
    Scene { site, source, list, target: target.unwrap(), storage }
}

impl Scene {
    fn plan(&self) -> Value {
        serde_json::from_str(&self.site.read("data/working-dir/dry-run/plan.json")).unwrap()
    }

    fn mapping(&self, name: &str) -> Vec<String> {
        let text = self.site.read(&format!("data/working-dir/dry-run/{name}"));
        text.lines().map(str::to_owned).collect()
    }

    fn line(&self, name: &str, target: &str) -> String {
        format!("docker://{}/org/{name}:v1={target}org/{name}:v1", self.source.address())
    }
}

#[test]
fn the_first_dry_run_of_all_writes_its_folder_and_nothing_else() {
    let scene = scene();
    fs::create_dir(scene.site.path("data")).unwrap();
    let ran = scene.site.succeeds(&format!("-c isc.yaml {PLAIN} --dry-run file://data"));
    assert_eq!(ran.report()["ending"], "planned");
    let left: Vec<PathBuf> = listing(&scene.site.path("data")).into_keys().collect();
    assert_eq!(left, [scene.site.path("data/working-dir")]);

    let both = [scene.line("list", CACHE), scene.line("plain", CACHE)];
    assert_eq!(scene.mapping("mapping.txt"), both);
    assert_eq!(scene.mapping("missing.txt"), both);
    let plan = scene.plan();
    assert_eq!(plan["schema"], "oc-mirror/plan");
    assert_eq!(plan["totals"]["imagesToCopy"], 2);
    let plain = Image::tiny("plain").unwrap();
    let blobs: BTreeMap<&Digest, u64> = [&scene.list, &plain]
        .into_iter()
        .flat_map(|image| image.blobs.values())
        .map(|blob| (&blob.digest, blob.size))
        .collect();
    assert_eq!(plan["totals"]["blobs"], blobs.len());
    assert_eq!(plan["totals"]["bytesToMove"], blobs.values().sum::<u64>());
    let fetched = scene.source.requests().0;
    assert!(fetched.iter().all(|request| !request.path.contains("/blobs/")));
}

#[test]
fn manifest_lists_get_a_line_for_each_manifest_on_request() {
    let scene = scene();
    scene.site.succeeds(&format!("-c isc.yaml {PLAIN} --dry-run-manifest-lists file://data"));
    let from = scene.source.address();
    let child = |at: usize| {
        let digest = scene.list.manifests[at].digest;
        format!("docker://{from}/org/list:v1@{digest}={CACHE}org/list@{digest}")
    };
    let expected = [scene.line("list", CACHE), child(1), child(2), scene.line("plain", CACHE)];
    assert_eq!(scene.mapping("mapping.txt"), expected);
}

#[test]
fn a_dry_run_to_disk_leaves_workspace_and_archives_as_they_are() {
    let scene = scene();
    let line = format!("-c isc.yaml {PLAIN} file://data");
    scene.site.succeeds(&line);
    // Two archives, so that one may be removed.
    scene.source.put_image(&Image::tiny("new").unwrap(), "org/plain", "v1").unwrap();
    scene.site.succeeds(&line);
    scene.source.put_image(&Image::tiny("newer").unwrap(), "org/plain", "v1").unwrap();
    let before = listing(&scene.site.path("data"));
    let ran = scene.site.succeeds(&format!("--dry-run {line} --remove-archives-before 2"));
    assert_eq!(listing(&scene.site.path("data")), before);
    assert_eq!(scene.mapping("missing.txt"), [scene.line("plain", CACHE)]);
    assert_eq!(ran.image("org/list")["outcome"], "present");
    assert_eq!(ran.image("org/plain")["outcome"], "pending");

    // With nothing to do there is nothing missing, and no file of an earlier dry run.
    scene.site.succeeds(&line);
    scene.site.succeeds(&format!("--dry-run {line}"));
    assert!(!scene.site.path("data/working-dir/dry-run/missing.txt").exists());
}

#[test]
fn a_dry_run_from_disk_changes_neither_workspace_nor_target() {
    let scene = scene();
    scene.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let to = scene.target.address();
    let before = [listing(&scene.site.path("data")), listing(scene.storage.path())];
    let line = format!("-c isc.yaml {PLAIN} --from file://data docker://{to}/ocp");
    let ran = scene.site.succeeds(&format!("{line} --dry-run"));
    assert_eq!([listing(&scene.site.path("data")), listing(scene.storage.path())], before);
    assert_eq!(ran.report()["ending"], "planned");
    let target = format!("docker://{to}/ocp/");
    assert_eq!(
        scene.mapping("mapping.txt"),
        [scene.line("list", &target), scene.line("plain", &target)]
    );

    // The resources it shows are those a run makes, but for the time.
    let printed = scene.site.read("data/working-dir/dry-run/cluster-resources/itms-oc-mirror.yaml");
    scene.site.succeeds(&line);
    let made = scene.site.read("data/working-dir/cluster-resources/itms-oc-mirror.yaml");
    let timeless = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("createdAt"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(timeless(&printed), timeless(&made));
}

#[test]
fn a_dry_run_between_registries_changes_neither_workspace_nor_target() {
    let scene = scene();
    let to = scene.target.address();
    let line = format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}");
    scene.site.succeeds(&line);
    scene.source.put_image(&Image::tiny("newer").unwrap(), "org/plain", "v1").unwrap();
    let before = [listing(&scene.site.path("data")), listing(scene.storage.path())];
    scene.site.succeeds(&format!("{line} --dry-run"));
    assert_eq!([listing(&scene.site.path("data")), listing(scene.storage.path())], before);
    let target = format!("docker://{to}/");
    assert_eq!(scene.mapping("missing.txt"), [scene.line("plain", &target)]);
    let printed = scene.plan();
    let actions = printed["images"].as_array().unwrap().iter().map(|image| &image["action"]);
    assert_eq!(actions.collect::<Vec<_>>(), ["present", "copy"]);
}

#[test]
fn an_additional_image_that_is_missing_fails_a_dry_run_only_where_that_is_requested() {
    let site = Site::new();
    let registry = LabRegistry::start(Settings::default()).unwrap();
    let at = registry.address();
    registry.put_image(&Image::tiny("there").unwrap(), "org/there", "v1").unwrap();
    site.images("isc.yaml", &[format!("{at}/org/there:v1"), format!("{at}/org/missing:v1")]);
    let line = format!("-c isc.yaml {PLAIN} --dry-run");
    for (flag, code) in [("", 0), ("--strict-dry-run", 8)] {
        let ran = site.run(&format!("{line} {flag} file://data"));
        assert_eq!(ran.code, code, "{flag}: {}", ran.err);
        // It is reported in both cases.
        assert_eq!(ran.image("org/missing")["outcome"], "failed", "{flag}");
    }
}

#[test]
fn images_that_cannot_be_read_are_listed_too() {
    let scene = scene();
    let names = ["plain", "gone"].map(|name| scene.source.image(&format!("org/{name}"), "v1"));
    scene.site.images("isc.yaml", &names.map(Result::unwrap));
    let ran = scene.site.run(&format!("-c isc.yaml {PLAIN} --dry-run file://data"));
    assert_eq!(ran.image("org/gone")["outcome"], "failed");
    let both = [scene.line("plain", CACHE), scene.line("gone", CACHE)];
    assert_eq!(scene.mapping("mapping.txt"), both);
    assert_eq!(scene.mapping("missing.txt"), both);
    let table = scene.site.read("data/working-dir/dry-run/plan.txt");
    assert!(table.contains("1 images could not be read: their sizes are unknown"), "{table}");
}
