//! Disks that are full, read-only, or hold what is not ours: the error names
//! the path and the remedy, and nothing that was there is lost.

use crate::support;

use std::fs;

use http::Method;
use lab::images::{Blob, Compression, Format, Image, Layer};
use lab::registry::{LabRegistry, Settings};
use support::faulty_disk::{FaultyDisk, Kind, Operation};
use support::mounted::Mounted;
use support::{PLAIN, Site, chunks};

const LAYER: u64 = 1 << 20;

/// A registry with three images of a mebibyte each.
struct Bench {
    registry: LabRegistry,
    site: Site,
    layers: Vec<Blob>,
}

impl Bench {
    fn new() -> Self {
        let registry = LabRegistry::start(Settings::default()).unwrap();
        let mut layers = Vec::new();
        let mut images = Vec::new();
        for name in ["org/one", "org/two", "org/three"] {
            let layer = Layer::generate(name, LAYER, Compression::None).unwrap();
            layers.push(layer.blob.clone());
            let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
            registry.put_image(&image, name, "v1").unwrap();
            images.push(registry.image(name, "v1").unwrap());
        }
        let site = Site::new();
        site.images("isc.yaml", &images);
        Self { registry, site, layers }
    }

    fn line(&self) -> String {
        format!("-c isc.yaml {PLAIN} --parallel-images 1 --parallel-layers 1 file://data")
    }

    /// What the registry sent of the layers.
    fn layer_bytes(&self) -> u64 {
        let requests = self.registry.requests();
        let sent = self.layers.iter().map(|layer| {
            let part = format!("/blobs/{}", layer.digest);
            requests.of(&Method::GET, &part).map(|request| request.sent).sum::<u64>()
        });
        sent.sum()
    }

    /// The archive in the workspace can be transferred and pushed.
    fn is_complete(&self) {
        let target = LabRegistry::start(Settings::default()).unwrap();
        let to = target.address();
        let carried = self.site.path("carried");
        fs::create_dir(&carried).unwrap();
        for chunk in chunks(&self.site.path("data")) {
            fs::copy(&chunk, carried.join(chunk.file_name().unwrap())).unwrap();
        }
        self.site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://carried docker://{to}"));
        for name in ["org/one", "org/two", "org/three"] {
            self.site.pull(&format!("docker://{to}/{name}:v1"), &["--src-tls-verify=false"]);
        }
    }
}

#[test]
fn a_disk_that_fills_while_fetching_keeps_what_arrived() {
    let bench = Bench::new();
    let disk = Mounted::new(&bench.site.path("data"), 2_300);
    let ran = bench.site.run(&bench.line());
    assert_ne!(ran.code, 0, "{}", ran.out);
    assert_ne!(ran.code, 130, "{}", ran.out);
    let message = format!("{}{}", ran.out, ran.err);
    assert!(message.contains("data/blobs/"), "the path is named: {message}");
    assert!(message.contains("free some space and run again"), "{message}");
    let before = bench.layer_bytes();

    disk.resize(20_000);
    bench.site.succeeds(&bench.line());
    let again = bench.layer_bytes() - before;
    assert!(again <= 2 * LAYER, "what had arrived is kept; {again} bytes came again");
    bench.is_complete();
}

#[test]
fn a_disk_too_small_for_the_archive_keeps_the_images() {
    let bench = Bench::new();
    let disk = Mounted::new(&bench.site.path("data"), 5_000);
    let ran = bench.site.run(&bench.line());
    assert_eq!(ran.code, 1, "{}", ran.out);
    let message = ran.errors();
    assert!(
        message.contains("writing the archive") && message.contains("mirror_000001.tar"),
        "{message}"
    );
    assert!(message.contains("free some space"), "{message}");
    assert!(chunks(&bench.site.path("data")).is_empty());

    disk.resize(20_000);
    bench.registry.forget_requests();
    bench.site.succeeds(&bench.line());
    assert_eq!(bench.layer_bytes(), 0, "the images were there");
    assert_eq!(chunks(&bench.site.path("data")).len(), 1);
    bench.is_complete();
}

#[test]
fn a_disk_without_any_space_is_reported_and_recovers() {
    let bench = Bench::new();
    let disk = Mounted::new(&bench.site.path("data"), 4);
    let filler = bench.site.path("data/filler");
    fs::write(&filler, vec![0; 4096]).unwrap();
    let ran = bench.site.command(&bench.line()).output().unwrap();
    let message = String::from_utf8(ran.stderr).unwrap() + &String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{message}");
    assert!(message.contains("data/working-dir"), "{message}");
    assert!(message.contains("No space left"), "{message}");
    disk.resize(20_000);
    bench.site.succeeds(&bench.line());
    assert_eq!(fs::read(&filler).unwrap().len(), 4096);
    bench.is_complete();
}

#[test]
fn a_read_only_directory_is_named_with_what_to_check() {
    let bench = Bench::new();
    let disk = Mounted::new(&bench.site.path("data"), 20_000);
    disk.make_read_only();
    for line in
        [bench.line(), format!("-c isc.yaml {PLAIN} --workspace file://data docker://127.0.0.1:1")]
    {
        let output = bench.site.command(&line).output().unwrap();
        let message =
            String::from_utf8(output.stderr).unwrap() + &String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("data/working-dir"), "{message}");
        assert!(message.contains("Read-only file system"), "{message}");
    }
    assert_eq!(bench.registry.requests().count(), 0, "found before anything was fetched");

    // It turns read-only after a first run, as disks with errors do.
    disk.make_writable();
    bench.site.succeeds(&bench.line());
    disk.make_read_only();
    let output = bench.site.command(&bench.line()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    disk.make_writable();
    bench.site.succeeds(&bench.line());
}

#[test]
fn what_blocks_a_path_is_named_and_left_alone() {
    for name in ["data", "data/working-dir", "data/blobs", "data/working-dir/logs"] {
        let bench = Bench::new();
        let path = bench.site.write(name, "theirs");
        let output = bench.site.command(&bench.line()).output().unwrap();
        let message =
            String::from_utf8(output.stderr).unwrap() + &String::from_utf8(output.stdout).unwrap();
        assert!(matches!(output.status.code(), Some(1..=9)), "{name}: {message}");
        assert!(message.contains(name), "{name}: {message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs", "{name}");
        fs::remove_file(path).unwrap();
        bench.site.succeeds(&bench.line());
    }
}

#[test]
fn files_named_like_archives_are_neither_replaced_nor_taken_for_ours() {
    let bench = Bench::new();
    let theirs = bench.site.write("data/mirror_000001.tar", "a file of the user");
    fs::create_dir(bench.site.path("data/mirror_000002.tar")).unwrap();
    let ran = bench.site.succeeds(&bench.line());
    let made = ran.report()["archive"]["chunks"].to_string();
    assert!(made.contains("mirror_000003.tar"), "{made}");
    assert_eq!(fs::read_to_string(theirs).unwrap(), "a file of the user");
    assert!(bench.site.path("data/mirror_000002.tar").is_dir());
}

#[test]
fn a_disk_that_cannot_be_written_in_the_middle_of_a_run_keeps_what_arrived() {
    for read_only in [true, false] {
        let bench = Bench::new();
        let disk = FaultyDisk::mount(&bench.site.path("data"), Kind::Posix);
        // After about one and a half of the three layers.
        match read_only {
            true => disk.turn_read_only(LAYER + LAYER / 2),
            false => disk.fail(Operation::Write, "blobs/", LAYER + LAYER / 2),
        }
        let output = bench.site.command(&bench.line()).output().unwrap();
        let message =
            String::from_utf8(output.stderr).unwrap() + &String::from_utf8(output.stdout).unwrap();
        assert!(matches!(output.status.code(), Some(1 | 8 | 9)), "{message}");
        let why = if read_only { "Read-only file system" } else { "Input/output error" };
        assert!(message.contains(why) && message.contains("data/blobs/"), "{message}");
        disk.heal();
        bench.registry.forget_requests();
        bench.site.succeeds(&bench.line());
        let requests = bench.registry.requests();
        let kept = bench.layers.iter().filter(|layer| requests.blob_gets(&layer.digest) == 0);
        assert_eq!(kept.count(), 1, "what had arrived is kept");
        bench.is_complete();
    }
}

#[test]
fn a_disk_that_cannot_be_read_is_named_by_verify_and_repaired_once_it_can() {
    let bench = Bench::new();
    let disk = FaultyDisk::mount(&bench.site.path("data"), Kind::Posix);
    bench.site.succeeds(&bench.line());
    let unreadable = bench.layers[1].digest;
    disk.fail(Operation::Read, &unreadable.hex(), 0);
    let verified = bench.site.command("verify file://data").output().unwrap();
    let message = String::from_utf8(verified.stdout).unwrap();
    assert_eq!(verified.status.code(), Some(64), "{message}");
    assert!(
        message.contains(&format!("blob {unreadable}: not readable: Input/output error")),
        "{message}"
    );
    assert!(message.contains("needed by") && message.contains("org/two"), "{message}");
    assert!(!message.contains("org/one") && !message.contains("org/three"), "{message}");
    // An archive of everything, which has to read it.
    fs::remove_file(chunks(&bench.site.path("data")).remove(0)).unwrap();
    let ran = bench.site.run(&format!("--since 2000-01-01 {}", bench.line()));
    assert_ne!(ran.code, 0, "{}", ran.out);
    let message = format!("{}{}", ran.out, ran.err);
    assert!(message.contains(&unreadable.hex()), "{message}");
    disk.heal();
    bench.site.succeeds(&format!("--since 2000-01-01 {}", bench.line()));
    bench.is_complete();
}

/// No links of any kind, no sockets, no modes, a clock with steps of two seconds.
#[test]
fn a_workspace_on_a_filesystem_that_can_do_little_works_like_any_other() {
    let bench = Bench::new();
    let _disk = FaultyDisk::mount(&bench.site.path("data"), Kind::Fat);
    bench.site.succeeds(&bench.line());
    bench.registry.forget_requests();
    bench.site.succeeds(&bench.line());
    assert_eq!(bench.layer_bytes(), 0, "nothing is fetched twice");
    for command in ["verify file://data", "status file://data", "gc file://data --dry-run"] {
        let output = bench.site.command(command).output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
    bench.site.images("isc.yaml", &[bench.registry.image("org/one", "v1").unwrap()]);
    bench.site.succeeds(&bench.line());
    let freed = bench.site.command("gc file://data").output().unwrap();
    let message = String::from_utf8(freed.stdout).unwrap();
    assert!(freed.status.success() && message.contains("org/two"), "{message}");
    let verified = bench.site.command("verify file://data").output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    bench.site.pull(&format!("docker://{to}/org/one:v1"), &["--src-tls-verify=false"]);
}

#[test]
fn room_is_compared_on_every_filesystem_that_is_written() {
    let bench = Bench::new();
    let disk = Mounted::new(&bench.site.path("data/blobs"), 2_000);
    let warnings = bench.site.run(&bench.line()).report()["warnings"].to_string();
    assert!(warnings.contains("data/blobs has 2 MiB free"), "{warnings}");
    assert!(warnings.contains("this run needs 4 MiB for content:"), "{warnings}");
    disk.resize(20_000);
    let warnings = bench.site.succeeds(&bench.line()).report()["warnings"].to_string();
    assert!(!warnings.contains("MiB free"), "{warnings}");
}

#[test]
fn content_that_is_here_and_in_no_archive_counts_as_room_for_the_archive() {
    let bench = Bench::new();
    let _disk = Mounted::new(&bench.site.path("data"), 5_000);
    bench.site.succeeds(&format!("{} --no-archive", bench.line()));
    let ran = bench.site.run(&bench.line());
    let warnings = ran.report()["warnings"].to_string();
    assert!(warnings.contains("this run needs 4 MiB for the archive:"), "{warnings}");
}
