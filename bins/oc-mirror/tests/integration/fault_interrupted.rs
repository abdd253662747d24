//! Runs that are interrupted: killed, stopped by a signal, or continued
//! half done. Finished work is not repeated, and no manual cleanup is needed.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use http::Method;
use lab::images::{Blob, Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use oci::Digest;
use rustix::process::Signal;
use support::under_way::UnderWay;
use support::{PLAIN, Site, chunks, copy};

const LARGE: u64 = 2_000_000;
/// A run that ends while this lasts was not waiting for a response.
const FOREVER: Effect = Effect::Delay(Duration::from_secs(24 * 60 * 60));

/// A registry with a small image `quick` and a large one, `slow`.
struct Bench {
    registry: LabRegistry,
    site: Site,
    quick: Image,
    slow: Blob,
}

impl Bench {
    fn new() -> Self {
        let registry = LabRegistry::start(Settings::default()).unwrap();
        let quick = Image::tiny("quick").unwrap();
        let layer = Layer::generate("slow", LARGE, Compression::None).unwrap();
        let slow = layer.blob.clone();
        let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
        registry.put_image(&quick, "org/quick", "v1").unwrap();
        registry.put_image(&image, "org/slow", "v1").unwrap();
        let site = Site::new();
        let images = ["org/quick", "org/slow"].map(|name| registry.image(name, "v1").unwrap());
        site.images("isc.yaml", &images);
        Self { registry, site, quick, slow }
    }

    /// From now on the large layer is sent at a rate that takes half a minute.
    fn slow_down(&self) {
        let part = format!("/blobs/{}", self.slow.digest);
        let slow = Effect::SlowBytesPerSecond(LARGE / 30);
        self.registry.fault(Fault::on(Method::GET, &part).does(slow));
    }

    /// From now on there are no faults, and counting starts again.
    fn recover(&self) {
        self.registry.clear_faults();
        self.registry.forget_requests();
    }

    /// Starts mirroring to disk and waits until the small image is there and
    /// some of the large one.
    fn start_to_disk(&self) -> UnderWay {
        self.slow_down();
        let mut run = UnderWay::start(&self.site, &format!("-c isc.yaml {PLAIN} file://data"));
        let partial = self.site.path("data/blobs/partial").join(self.slow.digest.hex());
        let records = self.site.path("data");
        run.until("half of the work is done", || {
            fs::metadata(&partial).is_ok_and(|file| file.len() > 100_000)
                && tree(&records).iter().any(|path| path.contains("org/quick"))
        });
        run
    }

    /// A new run completes, and requests only what was missing.
    fn finishes(&self) {
        self.recover();
        self.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
        let requests = self.registry.requests();
        for digest in self.quick.blobs.keys() {
            assert_eq!(requests.blob_gets(digest), 0, "finished blobs are kept");
        }
        let part = format!("/blobs/{}", self.slow.digest);
        let sent: u64 = requests.of(&Method::GET, &part).map(|request| request.sent).sum();
        assert!(sent <= LARGE - 100_000, "the part that had come was kept, {sent} bytes came");
        let held = self.site.path("data/blobs/sha256").join(self.slow.digest.hex());
        assert_eq!(fs::read(held).unwrap(), self.slow.bytes().unwrap());
        assert_eq!(chunks(&self.site.path("data")).len(), 1);
    }
}

/// The names of all files below a directory.
fn tree(directory: &std::path::Path) -> Vec<String> {
    let output = Command::new("find").arg(directory).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Every image of `bench` is at `target`, as skopeo sees it.
fn arrived(bench: &Bench, target: &LabRegistry) {
    for name in ["org/quick", "org/slow"] {
        let reference = format!("docker://{}/{name}:v1", target.address());
        bench.site.pull(&reference, &["--src-tls-verify=false"]);
    }
}

/// The blobs whose upload a registry has acknowledged.
fn uploaded(target: &LabRegistry, digests: &[Digest]) -> BTreeSet<Digest> {
    let done = target.requests();
    let done: Vec<_> = done
        .0
        .iter()
        .filter(|r| r.status == 201 && r.path.contains("/blobs/uploads/"))
        .map(|r| r.path.replace("%3A", ":"))
        .collect();
    let is_done = |digest: &&Digest| done.iter().any(|path| path.contains(&digest.to_string()));
    digests.iter().filter(is_done).copied().collect()
}

#[test]
fn a_killed_download_continues_where_it_was() {
    let bench = Bench::new();
    bench.start_to_disk().kill();
    bench.finishes();
}

#[test]
fn a_signal_ends_the_run_and_the_next_one_continues() {
    for signal in [Signal::INT, Signal::TERM] {
        let bench = Bench::new();
        let mut run = bench.start_to_disk();
        run.signal(signal);
        let ran = run.end();
        assert_eq!(ran.code, 130, "{signal:?}: {}", ran.err);
        let report = ran.report();
        assert_eq!(report["ending"], "interrupted");
        assert_eq!(ran.image("org/quick")["outcome"], "copied");
        assert_eq!(ran.image("org/slow")["outcome"], "pending");
        assert!(chunks(&bench.site.path("data")).is_empty(), "no archive of half a run");
        bench.finishes();
    }
}

#[test]
fn a_signal_is_handled_while_a_registry_does_not_respond() {
    let bench = Bench::new();
    bench.registry.fault(Fault::on_any("/manifests/").does(FOREVER));
    let mut run = UnderWay::start(&bench.site, &format!("-c isc.yaml {PLAIN} file://data"));
    run.until("the run has begun", || bench.site.path("data/working-dir/.lock").exists());
    std::thread::sleep(Duration::from_millis(200));
    run.signal(Signal::INT);
    let ran = run.end();
    assert_eq!(ran.code, 130, "{}", ran.err);
    bench.recover();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
}

#[test]
fn a_signal_is_handled_while_a_target_does_not_respond() {
    let bench = Bench::new();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    for part in ["/manifests/", "/blobs/uploads/"] {
        let target = LabRegistry::start(Settings::default()).unwrap();
        let push = format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address());
        target.fault(Fault::on_any(part).does(FOREVER));
        let mut run = UnderWay::start(&bench.site, &push);
        run.until("the target received a request", || target.most_concurrent() > 0);
        // Time to reach the request that gets no response; the test passes without this delay, too.
        std::thread::sleep(Duration::from_millis(300));
        run.signal(Signal::TERM);
        let ran = run.end();
        assert_eq!(ran.code, 130, "{part}: {}", ran.err);
        target.clear_faults();
        bench.site.succeeds(&push);
        arrived(&bench, &target);
    }
}

/// Makes the disk hang where the first chunk is written, as a network disk
/// may: opening a pipe waits for its other end.
fn hang_archive(site: &Site) -> std::path::PathBuf {
    let pipe = site.path("data/.mirror_000001.tar.partial");
    fs::create_dir_all(pipe.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    pipe
}

/// A run that hangs while it writes its archive, and the pipe that it waits for.
fn begin_archive(bench: &Bench) -> (UnderWay, std::path::PathBuf) {
    let pipe = hang_archive(&bench.site);
    let mut run = UnderWay::start(&bench.site, &format!("-c isc.yaml {PLAIN} file://data"));
    let begun = bench.site.path("data/working-dir");
    run.until("the archive is begun", || {
        tree(&begun).iter().any(|path| path.ends_with(".pending.json"))
    });
    (run, pipe)
}

#[test]
fn a_signal_is_heard_while_the_archive_is_written() {
    let bench = Bench::new();
    let (mut run, pipe) = begin_archive(&bench);
    std::thread::sleep(Duration::from_millis(100));
    run.signal(Signal::INT);
    let ran = run.end();
    assert_eq!(ran.code, 130, "{}", ran.err);
    fs::remove_file(pipe).unwrap();
    archives_without_fetching(&bench);
}

#[test]
fn a_run_killed_while_its_archive_is_written_leaves_a_whole_one_next_time() {
    let bench = Bench::new();
    let (run, pipe) = begin_archive(&bench);
    run.kill();
    fs::remove_file(pipe).unwrap();
    // What a kill in the middle of a write leaves.
    fs::write(bench.site.path("data/.mirror_000001.tar.partial"), [7; 5000]).unwrap();
    archives_without_fetching(&bench);
    assert!(!bench.site.path("data/.mirror_000001.tar.partial").exists());
}

/// The next run fetches nothing, makes the archive, and that works alone.
fn archives_without_fetching(bench: &Bench) {
    bench.recover();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(bench.registry.requests().of(&Method::GET, "/blobs/").count(), 0);
    let made = chunks(&bench.site.path("data"));
    assert_eq!(made.len(), 1);
    let carried = bench.site.path("carried");
    fs::create_dir(&carried).unwrap();
    fs::copy(&made[0], carried.join(made[0].file_name().unwrap())).unwrap();
    let target = LabRegistry::start(Settings::default()).unwrap();
    let to = target.address();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} --from file://carried docker://{to}"));
    arrived(bench, &target);
}

/// What is pushed from, an empty target, and the command line of the push.
fn push_from(flag: &str) -> (Bench, LabRegistry, String) {
    let bench = Bench::new();
    let target = LabRegistry::start(Settings::default()).unwrap();
    if flag == "--from" {
        bench.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    }
    let line = format!("-c isc.yaml {PLAIN} {flag} file://data docker://{}", target.address());
    (bench, target, line)
}

#[test]
fn a_killed_push_sends_nothing_twice() {
    for flag in ["--from", "--workspace"] {
        let (bench, target, line) = push_from(flag);
        // Two blobs arrive, then nothing does; no image is finished.
        target.fault(Fault::on(Method::PUT, "/blobs/uploads/").after(2).does(FOREVER));
        target.fault(Fault::on(Method::PUT, "/manifests/").does(FOREVER));
        let mut all: Vec<Digest> = bench.quick.blobs.keys().copied().collect();
        all.push(bench.slow.digest);
        let mut run = UnderWay::start(&bench.site, &line);
        run.until("some blobs have arrived", || !uploaded(&target, &all).is_empty());
        std::thread::sleep(Duration::from_millis(300));
        run.kill();
        let done = uploaded(&target, &all);
        assert!(done.len() < 4, "{done:?}");

        target.clear_faults();
        target.forget_requests();
        bench.site.succeeds(&line);
        for digest in &all {
            let expected = usize::from(!done.contains(digest));
            assert_eq!(target.requests().blob_puts(digest), expected, "{flag} {digest}");
        }
        arrived(&bench, &target);
    }
}

#[test]
fn a_killed_upload_continues_inside_the_blob_where_the_registry_has_it() {
    const KEPT: u64 = 1_500_000;
    for flag in ["--from", "--workspace"] {
        let (bench, target, line) = push_from(flag);
        // The registry keeps a part, and the run is killed before it continues.
        let part = bench.slow.digest.hex();
        target.fault(Fault::on(Method::PUT, &part).times(1).does(Effect::KeepThenCut(KEPT)));
        let mut run = UnderWay::start(&bench.site, &format!("--retry-delay 24h {line}"));
        let logs = bench.site.path("data/working-dir/logs");
        run.until("the upload was cut", || {
            let files = fs::read_dir(&logs).into_iter().flatten().flatten();
            let mut texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
            texts.any(|text| text.contains("retrying in 86400 s"))
        });
        run.kill();

        target.clear_faults();
        target.forget_requests();
        bench.registry.forget_requests();
        bench.site.succeeds(&line);
        let requests = target.requests();
        let rest = requests.of(&Method::PATCH, "/blobs/uploads/").next();
        let rest = rest.unwrap_or_else(|| panic!("{flag}: nothing was continued"));
        let size = bench.slow.size;
        assert_eq!(rest.headers["content-range"], format!("{KEPT}-{}", size - 1), "{flag}");
        assert_eq!(requests.blob_puts(&bench.slow.digest), 1, "one request ends the upload");
        let came: u64 = bench.registry.requests().blob_gets(&bench.slow.digest) as u64;
        assert_eq!(came, 0, "{flag}: what the source sent is kept");
        arrived(&bench, &target);
        let left = bench.site.path("data/working-dir/uploads");
        assert_eq!(fs::read_dir(left).unwrap().count(), 0, "{flag}");
    }
}

#[test]
fn an_interrupted_workspace_is_pushed_only_when_that_is_requested() {
    let bench = Bench::new();
    let mut run = bench.start_to_disk();
    run.signal(Signal::INT);
    assert_eq!(run.end().code, 130);
    copy(&bench.site.path("data"), &bench.site.path("carried"));
    let target = LabRegistry::start(Settings::default()).unwrap();
    let push = format!("-c isc.yaml {PLAIN} --from file://carried docker://{}", target.address());
    let ran = bench.site.run(&push);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.errors().contains("was interrupted"), "{}", ran.errors());
    assert!(ran.errors().contains("--allow-incomplete"), "{}", ran.errors());
    assert_eq!(target.requests().count(), 0, "nothing was pushed");

    let ran = bench.site.run(&format!("--allow-incomplete {push}"));
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert_eq!(ran.image("org/quick")["outcome"], "copied");
    assert_eq!(ran.image("org/slow")["outcome"], "failed");
    let reference = format!("docker://{}/org/quick:v1", target.address());
    bench.site.pull(&reference, &["--src-tls-verify=false"]);
}

#[test]
fn an_archive_beside_an_interrupted_workspace_does_not_hide_that() {
    let bench = Bench::new();
    bench.site.images("first.yaml", &[bench.registry.image("org/quick", "v1").unwrap()]);
    bench.site.succeeds(&format!("-c first.yaml {PLAIN} file://data"));
    let mut run = bench.start_to_disk();
    run.signal(Signal::INT);
    assert_eq!(run.end().code, 130);
    let target = LabRegistry::start(Settings::default()).unwrap();
    let push = format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address());
    let ran = bench.site.run(&push);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.errors().contains("run 2 of this workspace was interrupted"), "{}", ran.errors());
    assert_eq!(target.requests().count(), 0, "nothing was pushed");
}

#[test]
fn a_second_run_gets_the_name_of_the_first_and_touches_nothing() {
    let bench = Bench::new();
    let mut run = bench.start_to_disk();
    for line in [
        format!("-c isc.yaml {PLAIN} file://data"),
        format!("-c isc.yaml {PLAIN} --src-creds me:hush-hush file://data"),
    ] {
        let second = bench.site.run(&line);
        assert_eq!(second.code, 1, "{}", second.err);
        let message = second.errors();
        assert!(message.contains(&format!("process {}", run.pid())), "{message}");
        assert!(message.contains("-c isc.yaml") && message.contains("file://data"), "{message}");
    }
    run.signal(Signal::INT);
    assert_eq!(run.end().code, 130);
    bench.finishes();
}
