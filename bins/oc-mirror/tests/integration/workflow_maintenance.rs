//! Workspaces that are checked, repaired and freed of what nothing needs.

use crate::support;

use std::fs;
use std::path::PathBuf;

use http::Method;
use lab::docker_registry::DockerRegistry;
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use oci::Digest;
use support::serving::Serving;
use support::under_way::UnderWay;
use support::{PLAIN, Ran, Site, chunks};

const SIZE: u64 = 300_000;
const SOURCE: &str = "--src-tls-verify=false --retry-times 1 --retry-delay 10ms";

struct Bench {
    registry: LabRegistry,
    site: Site,
    images: Vec<Image>,
}

impl Bench {
    /// A workspace with two images, each with its own layer.
    fn new() -> Self {
        let registry = LabRegistry::start(Settings::default()).unwrap();
        let image = |name: &str| {
            let layer = Layer::generate(name, SIZE, Compression::None).unwrap();
            let platform = "linux/amd64".parse().unwrap();
            let image = Image::new(Format::Oci, platform, &[layer]).unwrap();
            registry.put_image(&image, &format!("org/{name}"), "v1").unwrap();
            image
        };
        let images = vec![image("one"), image("two")];
        let site = Site::new();
        let bench = Self { registry, site, images };
        bench.mirror(&["one", "two"]);
        bench
    }

    fn mirror(&self, names: &[&str]) {
        let images: Vec<_> = names
            .iter()
            .map(|name| self.registry.image(&format!("org/{name}"), "v1").unwrap())
            .collect();
        self.site.images("isc.yaml", &images);
        self.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    }

    fn layer(&self, image: usize) -> Digest {
        let large = self.images[image].blobs.iter().max_by_key(|(_, blob)| blob.size);
        *large.unwrap().0
    }

    fn stored(&self, digest: &Digest) -> PathBuf {
        self.site.path("data/blobs/sha256").join(digest.hex())
    }

    /// Flips one bit in the middle.
    fn damage(&self, digest: &Digest) {
        let path = self.stored(digest);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    /// Runs a command other than mirroring.
    fn run(&self, line: &str) -> Ran {
        Ran::of(self.site.command(line).output().unwrap())
    }
}

#[test]
fn damage_is_found_and_only_it_is_fetched_again() {
    let bench = Bench::new();
    let sound = bench.run("verify file://data");
    assert_eq!(sound.code, 0, "{}{}", sound.out, sound.err);
    assert!(sound.out.contains("no damage found"), "{}", sound.out);

    let (damaged, missing) = (bench.layer(0), bench.layer(1));
    bench.damage(&damaged);
    fs::remove_file(bench.stored(&missing)).unwrap();
    let found = bench.run("verify file://data -o json");
    assert_eq!(found.code, 64, "{}{}", found.out, found.err);
    let report: serde_json::Value = serde_json::from_str(&found.out).unwrap();
    for (digest, name, problem) in
        [(damaged, "org/one", "its content has the digest"), (missing, "org/two", "missing")]
    {
        let entries = report["damaged"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["what"] == format!("blob {digest}")).unwrap();
        assert!(entry["problem"].as_str().unwrap().contains(problem), "{entry}");
        assert!(entry["neededBy"][0].as_str().unwrap().contains(name), "{entry}");
    }

    bench.registry.forget_requests();
    let repaired = bench.run(&format!("repair {SOURCE} file://data"));
    assert_eq!(repaired.code, 0, "{}{}", repaired.out, repaired.err);
    assert!(repaired.out.contains("2 blobs damaged or missing: 2 replaced"), "{}", repaired.out);
    let requests = bench.registry.requests();
    assert_eq!(requests.of(&Method::GET, "/blobs/").count(), 2, "only what was damaged");
    assert_eq!(bench.run("verify file://data").code, 0);
}

#[test]
fn a_damaged_manifest_and_a_damaged_record_are_restored() {
    let bench = Bench::new();
    bench.damage(&bench.images[0].digest());
    let origin = bench.registry.image("org/two", "v1").unwrap();
    let record = walk(&bench.site.path("data/images"))
        .into_iter()
        .find(|path| path.ends_with("image.json") && path.to_string_lossy().contains("org/two"));
    fs::write(record.unwrap(), "{").unwrap();
    let found = bench.run("verify file://data");
    assert_eq!(found.code, 64, "{}", found.out);
    bench.registry.forget_requests();
    let repaired = bench.run(&format!("repair {SOURCE} file://data"));
    assert_eq!(repaired.code, 0, "{}{}", repaired.out, repaired.err);
    assert_eq!(
        bench.registry.requests().of(&Method::GET, "/blobs/").count(),
        0,
        "the blobs of {origin} were there"
    );
    assert_eq!(bench.run("verify file://data").code, 0);
}

#[test]
fn without_a_network_the_damage_stays_known() {
    let bench = Bench::new();
    bench.damage(&bench.layer(0));
    let Bench { registry, site, .. } = bench;
    drop(registry);
    let repair = format!("repair {SOURCE} file://data");
    let ran = Ran::of(site.command(&repair).output().unwrap());
    assert_eq!(ran.code, 64, "{}", ran.out);
    assert!(ran.out.contains("connection refused"), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("check the network"), "{}", ran.err);
    // A run could not do better, so none is started.
    assert!(!ran.err.contains("replaying"), "{}", ran.err);
    let found = Ran::of(site.command("verify file://data").output().unwrap());
    assert_eq!(found.code, 64, "{}", found.out);
}

#[test]
fn archives_are_checked_by_name_and_with_their_workspace() {
    let bench = Bench::new();
    let chunk = chunks(&bench.site.path("data")).remove(0);
    let name = chunk.strip_prefix(bench.site.path("")).unwrap().display().to_string();
    assert_eq!(bench.run(&format!("verify {name}")).code, 0);
    let mut bytes = fs::read(&chunk).unwrap();
    let end = bytes.len() - 100_000;
    bytes[end] ^= 1;
    fs::write(&chunk, bytes).unwrap();
    for what in [name.as_str(), "file://data"] {
        let found = bench.run(&format!("verify {what}"));
        assert_eq!(found.code, 64, "{what}: {}{}", found.out, found.err);
        assert!(found.out.contains("is damaged in"), "{}", found.out);
    }
    let absent = bench.run("verify mirror_000099.tar");
    assert_eq!(absent.code, 1);
    assert!(absent.err.contains("mirror_000099.tar"), "{}", absent.err);
}

#[test]
fn a_registry_is_checked() {
    let bench = Bench::new();
    let target = DockerRegistry::start(&lab::docker_registry::Settings::default()).unwrap();
    let to = format!("docker://{}/ns", target.address());
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data {to}"));
    let verify = format!("verify --dest-tls-verify=false --retry-times 0 {to}");
    let sound = bench.run(&verify);
    assert_eq!(sound.code, 0, "{}{}", sound.out, sound.err);
    assert!(sound.out.contains("2 images checked: no damage found"), "{}", sound.out);
    let empty = bench.run(&format!("{verify}-absent"));
    assert_eq!(empty.code, 1);
    assert!(
        empty.err.contains("no repository of the registry is in this namespace"),
        "{}",
        empty.err
    );
}

#[test]
fn what_a_configuration_dropped_is_freed_and_the_rest_stays() {
    let bench = Bench::new();
    // The text of the configuration was kept for the archive only.
    let first = bench.run("gc file://data");
    assert!(
        first.out.contains("1 blob,") && first.out.contains("of 2 images kept"),
        "{}",
        first.out
    );
    bench.mirror(&["one"]);
    let plan = bench.run("gc file://data --dry-run -o json");
    assert_eq!(plan.code, 0, "{}", plan.err);
    let plan: serde_json::Value = serde_json::from_str(&plan.out).unwrap();
    assert!(plan["images"][0].as_str().unwrap().contains("org/two"), "{plan}");
    assert!(plan["bytes"].as_u64().unwrap() >= SIZE, "{plan}");
    assert!(bench.stored(&bench.layer(1)).exists());
    let freed = bench.run("gc file://data");
    assert_eq!(freed.code, 0, "{}", freed.err);
    assert!(!bench.stored(&bench.layer(1)).exists() && bench.stored(&bench.layer(0)).exists());
    assert_eq!(bench.run("verify file://data").code, 0);
    // What was freed is mirrored again when a configuration selects it again.
    bench.mirror(&["one", "two"]);
    assert!(bench.stored(&bench.layer(1)).exists());
    assert_eq!(bench.run("verify file://data").code, 0);
}

#[test]
fn nothing_is_freed_during_a_run_nor_in_a_directory_that_is_not_a_workspace() {
    let bench = Bench::new();
    fs::create_dir(bench.site.path("other")).unwrap();
    for command in ["gc", "verify", "repair"] {
        let ran = bench.run(&format!("{command} file://other"));
        assert_eq!(ran.code, 1, "{command}");
        assert!(ran.err.contains("is not a workspace"), "{command}: {}", ran.err);
        assert_eq!(fs::read_dir(bench.site.path("other")).unwrap().count(), 0, "{command}");
    }
    let isc = bench.site.read("isc.yaml");
    let later = |hours| {
        let time = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
        time.strftime("%H:00").to_string()
    };
    let table = format!("{}-{} full, else pause", later(2), later(3));
    bench.site.write("paused.yaml", &format!("{isc}timetable: \"{table}\"\ntimezone: UTC\n"));
    let mut run = UnderWay::start(&bench.site, &format!("-c paused.yaml {PLAIN} file://data"));
    let record = bench.site.path("data/working-dir/runs/000002.run.json");
    run.until("the run has the lock", || record.exists());
    let ran = bench.run("gc file://data");
    assert!(ran.err.contains("is in use by process"), "{}", ran.err);
    // Reading is safe meanwhile.
    assert_eq!(bench.run("verify file://data").code, 0);
}

/// All files below a directory.
fn walk(directory: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(walk(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

#[test]
fn a_server_keeps_serving_what_is_kept_while_the_rest_is_freed() {
    let bench = Bench::new();
    let server = Serving::start(&bench.site, "file://data");
    let pull = |name: &str| {
        let reference = format!("docker://{}/org/{name}:v1", server.address);
        bench.site.pull(&reference, &["--src-tls-verify=false"]);
    };
    pull("one");
    pull("two");
    bench.mirror(&["one"]);
    // Readers that started before continue to read what they opened.
    let mut open = fs::File::open(bench.stored(&bench.layer(1))).unwrap();
    assert_eq!(bench.run("gc file://data").code, 0);
    assert!(!bench.stored(&bench.layer(1)).exists());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut open, &mut bytes).unwrap();
    assert_eq!(Digest::of(&bytes), bench.layer(1));
    pull("one");
    assert_eq!(bench.run("verify file://data").code, 0);
    pull("one");
}

#[test]
fn a_collection_that_was_killed_leaves_a_sound_workspace_and_is_finished_by_the_next() {
    let bench = Bench::new();
    bench.mirror(&["one"]);
    // As a kill leaves it: the record is removed, and its content is not.
    let record = walk(&bench.site.path("data/images"))
        .into_iter()
        .find(|path| path.ends_with("image.json") && path.to_string_lossy().contains("org/two"));
    fs::remove_file(record.unwrap()).unwrap();
    assert_eq!(bench.run("verify file://data").code, 0);
    let freed = bench.run("gc file://data");
    assert_eq!(freed.code, 0, "{}", freed.err);
    assert!(!bench.stored(&bench.layer(1)).exists());
    assert!(bench.stored(&bench.layer(0)).exists());
    // A real kill, at any moment: what is kept is complete, and a run restores the rest.
    for round in 0..8 {
        bench.mirror(&["one", "two"]);
        bench.mirror(&["one"]);
        let mut child = bench.site.command("gc file://data").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = bench.run("verify file://data");
        assert_eq!(found.code, 0, "{}{}", found.out, found.err);
        let freed = bench.run("gc file://data");
        assert_eq!(freed.code, 0, "{}", freed.err);
        assert!(!bench.stored(&bench.layer(1)).exists());
    }
}

#[test]
fn a_damaged_blob_of_a_registry_is_listed_with_every_image_that_needs_it() {
    let bench = Bench::new();
    let target = LabRegistry::start(Settings::default()).unwrap();
    for tag in ["v1", "v2"] {
        target.put_image(&bench.images[0], "ns/one", tag).unwrap();
    }
    target.put_image(&bench.images[1], "ns/two", "v1").unwrap();
    let part = format!("/blobs/{}", bench.layer(0));
    target.fault(Fault::on(Method::GET, &part).does(Effect::WrongBytes));
    let to = format!("docker://{}/ns", target.address());
    let found = bench.run(&format!("verify --dest-tls-verify=false --retry-times 0 {to}"));
    assert_eq!(found.code, 64, "{}{}", found.out, found.err);
    for image in ["ns/one:v1", "ns/one:v2"] {
        let needed = format!("needed by {}/{image}", target.address());
        assert!(found.out.contains(&needed), "{needed}: {}", found.out);
    }
    assert!(!found.out.contains("ns/two"), "{}", found.out);
    assert!(found.out.contains("1 problem found"), "{}", found.out);
}

/// `gc` and `repair` are not runs.
#[test]
fn status_names_a_process_that_is_not_a_run() {
    let bench = Bench::new();
    bench.damage(&bench.layer(0));
    let part = format!("/blobs/{}", bench.layer(0));
    let forever = Effect::Delay(std::time::Duration::from_secs(24 * 60 * 60));
    bench.registry.fault(Fault::on(Method::GET, &part).does(forever));
    let mut command = bench.site.command(&format!("repair {SOURCE} file://data"));
    let mut child = command.spawn().unwrap();
    let status = loop {
        let status = bench.run("status file://data");
        let is_held = !status.out.starts_with("No run is in progress");
        if is_held || child.try_wait().unwrap().is_some() {
            break status;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(status.out.starts_with("In use by process "), "{}", status.out);
    assert!(status.out.contains("repair"), "{}", status.out);
}
