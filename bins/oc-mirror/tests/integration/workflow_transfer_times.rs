//! Limits on the rate, timetables, and runs that stop at a time.

use crate::support;

use std::time::{Duration, Instant};

use http::Method;
use jiff::{Timestamp, ToSpan as _};
use lab::images::{Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use rustix::process::Signal;
use support::under_way::UnderWay;
use support::{PLAIN, Ran, Site, chunks};

const LARGE: u64 = 600_000;

struct Bench {
    registry: LabRegistry,
    site: Site,
}

impl Bench {
    /// A registry with a small image and a large one.
    fn new() -> Self {
        let registry = LabRegistry::start(Settings::default()).unwrap();
        let layer = Layer::generate("large", LARGE, Compression::None).unwrap();
        let large = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
        registry.put_image(&large, "org/large", "v1").unwrap();
        registry.put_image(&Image::tiny("small").unwrap(), "org/small", "v1").unwrap();
        let site = Site::new();
        let images = ["org/large", "org/small"].map(|name| registry.image(name, "v1").unwrap());
        site.images("isc.yaml", &images);
        Self { registry, site }
    }

    /// Mirrors to disk until two seconds from now, from a registry that takes far longer.
    fn pause(&self, options: &str) -> Ran {
        let slow = Effect::SlowBytesPerSecond(LARGE / 30);
        self.registry.fault(Fault::on(Method::GET, "/org/large/blobs/").does(slow));
        let until = (Timestamp::now() + 3.seconds()).strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let flags = format!("--until {until} --timezone UTC {options}");
        let ran = self.site.run(&format!("-c isc.yaml {PLAIN} {flags} file://data"));
        self.registry.clear_faults();
        ran
    }
}

#[test]
fn a_run_stops_at_its_time_and_the_next_one_continues() {
    let bench = Bench::new();
    let ran = bench.pause("");
    assert_eq!(ran.code, 32, "{}", ran.err);
    assert_eq!(ran.report()["ending"], "paused");
    assert!(chunks(&bench.site.path("data")).is_empty(), "a paused run writes no archive");
    let status = bench.site.command("status file://data").output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("Run 1 was paused by --until, with "), "{status}");
    assert!(status.contains("Not reached by run 1:") && status.contains("org/large"), "{status}");
    let sent = |bench: &Bench| -> u64 {
        let requests = bench.registry.requests();
        requests.of(&Method::GET, "/org/large/blobs/").map(|request| request.sent).sum()
    };
    let first = sent(&bench);
    bench.registry.forget_requests();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert!(first > 0 && sent(&bench) < LARGE, "{first} and {}", sent(&bench));
    assert_eq!(bench.registry.requests().of(&Method::GET, "/org/small/blobs/").count(), 0);
    assert_eq!(chunks(&bench.site.path("data")).len(), 1);
}

#[test]
fn the_archive_of_a_paused_run_is_pushed_only_on_request() {
    let bench = Bench::new();
    let ran = bench.pause("--archive-partial");
    assert_eq!(ran.code, 32, "{}", ran.err);
    let written = chunks(&bench.site.path("data"));
    assert_eq!(written.len(), 1, "{}", ran.err);
    std::fs::create_dir(bench.site.path("carried")).unwrap();
    for chunk in written {
        let name = chunk.file_name().unwrap().to_owned();
        std::fs::copy(&chunk, bench.site.path("carried").join(name)).unwrap();
    }
    let target = LabRegistry::start(Settings::default()).unwrap();
    let push = format!("-c isc.yaml {PLAIN} --from file://carried docker://{}", target.address());
    let ran = bench.site.run(&push);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(
        ran.errors().contains("the run was paused before it reached 1 image"),
        "{}",
        ran.errors()
    );
    assert!(target.content().is_empty());
    let ran = bench.site.run(&format!("--allow-incomplete {push}"));
    assert_eq!(ran.image("org/small")["outcome"], "copied", "{}", ran.out);
    assert_eq!(ran.image("org/large")["outcome"], "failed", "{}", ran.out);
    // The archive of the run that continues it completes the first.
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    for chunk in chunks(&bench.site.path("data")) {
        let name = chunk.file_name().unwrap().to_owned();
        std::fs::copy(&chunk, bench.site.path("carried").join(name)).unwrap();
    }
    bench.site.succeeds(&push);
    assert!(target.content().iter().any(|line| line.contains("org/large")));
}

#[test]
fn a_limit_holds_for_all_transfers_together() {
    let bench = Bench::new();
    let start = Instant::now();
    bench.site.succeeds(&format!("-c isc.yaml {PLAIN} --limit-rate 250kB file://data"));
    // A limit is a lower bound on the time: 2.4 s, less a tenth of a second at the start, and the
    // last piece, which is not waited for. A busy machine reads large ones, of up to 256 KiB.
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    let ran = bench.site.run("-c isc.yaml --limit-rate 0 file://data");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("expected a rate above 0"), "{}", ran.err);
}

/// The hour after next is the only one with transfers, so this run waits.
#[test]
fn a_run_outside_its_timetable_sends_nothing_and_can_be_stopped() {
    let bench = Bench::new();
    let later =
        |hours| (Timestamp::now() + jiff::SignedDuration::from_hours(hours)).strftime("%H:00");
    let table = format!("{}-{} full, else pause", later(2), later(3));
    let isc = bench.site.read("isc.yaml");
    bench.site.write("timed.yaml", &format!("{isc}timetable: \"{table}\"\ntimezone: UTC\n"));
    let mut run = UnderWay::start(&bench.site, &format!("-c timed.yaml {PLAIN} file://data"));
    let logs = bench.site.path("data/working-dir/logs");
    run.until("the pause is announced", || {
        let entries = std::fs::read_dir(&logs).into_iter().flatten().flatten();
        let mut texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
        texts.any(|text| text.contains("transfers are paused by the timetable until"))
    });
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(bench.registry.requests().count(), 0);
    let status = bench.site.command("status file://data").output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("transfers are paused by the timetable until"), "{status}");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 130);
    let strict = bench.site.run("-c timed.yaml --strict-compat file://data");
    assert!(
        strict.err.contains("timetable of the configuration is an extension"),
        "{}",
        strict.err
    );
}

#[test]
fn a_malformed_timetable_is_reported_with_its_column() {
    let bench = Bench::new();
    let isc = bench.site.read("isc.yaml");
    bench.site.write("bad.yaml", &format!("{isc}timetable: 00:00-25:00 full\n"));
    let ran = bench.site.run("-c bad.yaml file://data");
    assert_eq!(ran.code, 1);
    let expected = "timetable: column 7: expected a time from 00:00 to 24:00, found \"25:00\"";
    assert!(ran.err.contains(expected), "{}", ran.err);
}
