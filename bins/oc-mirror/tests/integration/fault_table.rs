//! Every fault of the lab's registry, and of disks, in every mode: what the user sees, and that
//! nothing is lost.
//! The result is the document `docs/faults.md`.

use crate::support;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lab::images::{Blob, Compression, Format, Image, Layer};
use lab::registry::{Effect, Fault, LabRegistry, Settings};
use support::faulty_disk::{FaultyDisk, Kind, Operation};
use support::mounted::Mounted;
use support::{PLAIN, Ran, Site};

const PATIENT: &str = "--retry-times 3 --retry-delay 10ms --stall-timeout 1s";
const SIZE: u64 = 300_000;

/// In which mode, and which side misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    ToDisk,
    FromDisk,
    DirectSource,
    DirectTarget,
}

const CASES: [(Case, &str); 4] = [
    (Case::ToDisk, "mirror to disk"),
    (Case::FromDisk, "disk to mirror"),
    (Case::DirectSource, "mirror to mirror, source"),
    (Case::DirectTarget, "mirror to mirror, target"),
];

/// What misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    /// Requests that carry the layer.
    Layer,
    /// Requests for or with manifests.
    Manifest,
}

fn effects() -> Vec<(&'static str, Effect)> {
    vec![
        ("400 Bad Request", Effect::status(400)),
        ("403 Forbidden", Effect::status(403)),
        ("404 Not Found", Effect::status(404)),
        ("429 with Retry-After", Effect::too_many_requests(0)),
        ("500 Internal Server Error", Effect::status(500)),
        ("503 Service Unavailable", Effect::status(503)),
        ("connection closed without a response", Effect::DropConnection),
        ("connection closed while sending", Effect::CutAfter(100)),
        ("connection closed while receiving", Effect::CutRequestAfter(100)),
        ("connection closed, and a part of the upload kept", Effect::KeepThenCut(100_000)),
        ("silence after some bytes", Effect::StallAfter(100)),
        ("a response after 300 ms", Effect::Delay(Duration::from_millis(300))),
        ("redirected to a host that refuses connections", Effect::RedirectTo(closed_host())),
        ("tokens expire", Effect::ExpireTokensNow),
        ("wrong bytes", Effect::WrongBytes),
        ("more bytes than announced", Effect::ExtraBytes(7)),
        ("another digest in the header", Effect::WrongDigestHeader),
        ("another content type", Effect::WrongContentType("text/plain".into())),
        ("ranges ignored", Effect::IgnoreRange),
        ("slow", Effect::SlowBytesPerSecond(1_000_000)),
    ]
}

/// An address at which nothing listens.
fn closed_host() -> String {
    "http://127.0.0.1:1".to_owned()
}

struct Bench {
    source: LabRegistry,
    target: LabRegistry,
    site: Site,
    layer: Blob,
}

impl Bench {
    fn new(case: Case) -> Self {
        let bench = Self::on_empty_disk();
        bench.prepare(case);
        bench
    }

    fn on_empty_disk() -> Self {
        let source = LabRegistry::start(Settings::default()).unwrap();
        let target = LabRegistry::start(Settings::default()).unwrap();
        let layer = Layer::generate("layer", SIZE, Compression::None).unwrap();
        let blob = layer.blob.clone();
        let image = Image::new(Format::Oci, "linux/amd64".parse().unwrap(), &[layer]).unwrap();
        source.put_image(&image, "org/one", "v1").unwrap();
        let site = Site::new();
        site.images("isc.yaml", &[source.image("org/one", "v1").unwrap()]);
        Self { source, target, site, layer: blob }
    }

    /// Mirrors to disk what is to be pushed from there.
    fn prepare(&self, case: Case) {
        if case == Case::FromDisk {
            self.site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
        }
    }

    fn run(&self, case: Case) -> Ran {
        let to = self.target.address();
        let mode = match case {
            Case::ToDisk => "file://data".to_owned(),
            Case::FromDisk => format!("--from file://data docker://{to}"),
            Case::DirectSource | Case::DirectTarget => {
                format!("--workspace file://data docker://{to}")
            }
        };
        self.site.run(&format!("-c isc.yaml {PLAIN} {PATIENT} {mode}"))
    }

    /// Without the fault, the image arrives.
    fn completes(&self, case: Case, code: i32, about: &str) {
        if code != 0 {
            let again = self.run(case);
            assert_eq!(again.code, 0, "{about}: nothing is lost: {}", again.err);
        }
        if case == Case::ToDisk {
            let verified = self.site.command("verify file://data").output().unwrap();
            assert!(verified.status.success(), "{about}: {verified:?}");
        } else {
            let to = self.target.address();
            self.site.pull(&format!("docker://{to}/org/one:v1"), &["--src-tls-verify=false"]);
        }
    }

    fn faulty(&self, case: Case) -> &LabRegistry {
        match case {
            Case::ToDisk | Case::DirectSource => &self.source,
            Case::FromDisk | Case::DirectTarget => &self.target,
        }
    }

    /// A cell of the table: how a run ended.
    fn seen(&self, ran: &Ran) -> String {
        match ran.code {
            0 => "succeeds".to_owned(),
            code => format!("exit code {code}: {}", self.message(ran)),
        }
    }

    /// What the user reads, without what differs from run to run.
    fn message(&self, ran: &Ran) -> String {
        let message = match serde_json::from_str::<serde_json::Value>(&ran.out) {
            Ok(report) => match report["images"][0]["error"].as_str() {
                Some(error) => error.to_owned(),
                None => ran.errors(),
            },
            // A run that could not start has no report.
            Err(_) => {
                let lines = ran.err.lines().filter_map(|line| line.split_once("[ERROR]  : "));
                let message = lines.map(|(_, message)| without_time(message));
                message.collect::<Vec<_>>().join(" ")
            }
        };
        let message = message
            .replace(&self.source.address().to_string(), "SOURCE")
            .replace(&self.target.address().to_string(), "TARGET");
        let message = message.replace(&self.site.path("home").display().to_string(), "HOME");
        let message = message.replace(&self.site.path("data").display().to_string(), "DATA");
        let message = without_causes(&message);
        let mut text = String::new();
        let mut rest = message.as_str();
        while let Some((before, after)) = rest.split_once("sha256:") {
            let hex = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
            text.push_str(before);
            text.push_str("sha256:…");
            rest = &after[hex..];
        }
        text.push_str(rest);
        // An upload has its own address.
        let words = text.split(' ').map(|word| match word.split_once("/blobs/uploads/") {
            Some((before, id)) => {
                let colon = if id.ends_with(':') { ":" } else { "" };
                format!("{before}/blobs/uploads/…{colon}")
            }
            None => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ").replace('\n', " ").replace('|', "\\|")
    }
}

/// The name of a log has the time in it.
fn without_time(text: &str) -> String {
    const LOG: &str = "/oc-mirror-";
    match text.split_once(LOG) {
        Some((before, after)) => {
            let end = after.find(".log").unwrap_or(0);
            format!("{before}{LOG}…{}", &after[end..])
        }
        None => text.to_owned(),
    }
}

/// How a connection breaks depends on which side notices first.
fn without_causes(text: &str) -> String {
    const BROKE: &str = "the connection broke: ";
    let Some((before, after)) = text.split_once(BROKE) else { return text.to_owned() };
    let end = after.find(" (after").unwrap_or(after.len());
    format!("{before}{BROKE}…{}", without_causes(&after[end..]))
}

/// One cell: the result of a run while the fault lasts. Afterwards everything must arrive.
fn cell(case: Case, on: On, effect: &Effect, times: Option<usize>) -> String {
    let bench = Bench::new(case);
    let part = match on {
        On::Layer => bench.layer.digest.hex(),
        On::Manifest => "/manifests/".to_owned(),
    };
    let fault = Fault::on_any(&part);
    let fault = match times {
        Some(times) => fault.times(times),
        None => fault,
    };
    bench.faulty(case).fault(fault.does(effect.clone()));
    let ran = bench.run(case);
    let seen = bench.seen(&ran);
    bench.faulty(case).clear_faults();
    bench.completes(case, ran.code, &format!("{case:?} {on:?} {effect:?} {times:?}"));
    seen
}

/// Writes the head of a table with a column for each case.
fn head(text: &mut String, cases: &[(Case, &str)]) {
    let heads: Vec<&str> = cases.iter().map(|(_, head)| *head).collect();
    let _ = writeln!(text, "| Fault | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---{}|", "|---".repeat(heads.len()));
}

/// Writes a row; its cells are made at the same time.
fn row(
    text: &mut String,
    name: &str,
    cases: &[(Case, &str)],
    cell: impl Fn(Case) -> String + Sync,
) {
    let cells: Vec<String> = thread::scope(|scope| {
        let cell = &cell;
        let run = |(case, _): &(Case, &str)| {
            let case = *case;
            scope.spawn(move || cell(case))
        };
        let running: Vec<_> = cases.iter().map(run).collect();
        running.into_iter().map(|cell| cell.join().unwrap()).collect()
    });
    let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
}

fn table(text: &mut String, on: On, times: Option<usize>) {
    head(text, &CASES);
    for (name, effect) in effects() {
        row(text, name, &CASES, |case| cell(case, on, &effect, times));
    }
}

/// How the disk of the workspace fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskFault {
    /// Less room than the layer needs.
    Full,
    ReadOnly,
    /// Read-only after some bytes of the run, as the kernel does after errors.
    TurnsReadOnly,
    WriteError,
    ReadError,
}

const DISK_FAULTS: [(DiskFault, &str); 5] = [
    (DiskFault::Full, "full: 200 KiB left"),
    (DiskFault::ReadOnly, "read-only"),
    (DiskFault::TurnsReadOnly, "read-only after 100 KB of a layer"),
    (DiskFault::WriteError, "input/output error after 100 KB of a layer"),
    (DiskFault::ReadError, "input/output error for layers and archives that are read"),
];

const DISK_CASES: [(Case, &str); 3] = [
    (Case::ToDisk, "mirror to disk"),
    (Case::FromDisk, "disk to mirror"),
    (Case::DirectTarget, "mirror to mirror"),
];

fn disk_cell(case: Case, fault: DiskFault) -> String {
    let bench = Bench::on_empty_disk();
    let data = bench.site.path("data");
    let about = format!("{case:?} {fault:?}");
    if matches!(fault, DiskFault::Full | DiskFault::ReadOnly) {
        let disk = Mounted::new(&data, 20_000);
        bench.prepare(case);
        let filler = data.join("filler");
        match fault {
            DiskFault::Full => {
                let free = rustix::fs::statvfs(&data).unwrap();
                let left = free.f_bavail * free.f_frsize - 200 * 1024;
                fs::write(&filler, vec![0; usize::try_from(left).unwrap()]).unwrap();
            }
            _ => disk.make_read_only(),
        }
        let ran = bench.run(case);
        match fault {
            DiskFault::Full => fs::remove_file(&filler).unwrap(),
            _ => disk.make_writable(),
        }
        bench.completes(case, ran.code, &about);
        return bench.seen(&ran);
    }
    let disk = FaultyDisk::mount(&data, Kind::Posix);
    bench.prepare(case);
    // Which file is written first differs from run to run, so only those of the layer fail.
    let layer = bench.layer.digest.hex();
    match fault {
        DiskFault::TurnsReadOnly => disk.refuse_writing(&layer, 100_000),
        DiskFault::WriteError => disk.fail(Operation::Write, &layer, 100_000),
        _ => {
            disk.fail(Operation::Read, &layer, 0);
            disk.fail(Operation::Read, "mirror_", 0);
        }
    }
    let ran = bench.run(case);
    disk.heal();
    bench.completes(case, ran.code, &about);
    bench.seen(&ran)
}

fn disk_table(text: &mut String) {
    head(text, &DISK_CASES);
    for (fault, name) in DISK_FAULTS {
        row(text, name, &DISK_CASES, |case| disk_cell(case, fault));
    }
}

#[test]
fn the_table_of_faults_is_as_documented() {
    let mut text = String::from(
        "# What the user sees when a registry or a disk fails\n\n\
         Generated by a test (`fault_table`). Each cell is the result of one run with `--retry-times 3` and \
         `--stall-timeout 1s` while the fault lasts.\nAfter each run that failed, the fault was removed and the same command run again: it succeeded \
         every time, and the\nimage was complete. Nothing is lost.\n",
    );
    for (title, on, times) in [
        ("Requests with a layer fail twice", On::Layer, Some(2)),
        ("Requests with a layer always fail", On::Layer, None),
        ("Requests with manifests always fail", On::Manifest, None),
    ] {
        let _ = write!(text, "\n## {title}\n\n");
        table(&mut text, on, times);
    }
    text.push_str("\n## The disk of the workspace fails\n\n");
    disk_table(&mut text);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.md");
    fs::write(&made, &text).unwrap();
    assert!(
        fs::read_to_string(&committed).unwrap_or_default() == text,
        "docs/faults.md is out of date: check {} and copy it there",
        made.display()
    );
}
