//! The cost of a run does not depend on how many runs were before it.

use crate::support;

use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Stdio;

use lab::images::Image;
use lab::registry::{LabRegistry, Settings};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use support::{PLAIN, Site};

/// How many runs there are; `LANDFALL_RUNS=500` for the campaign.
const RUNS: usize = 40;
/// The run that the last one is compared with.
const EARLY: usize = 10;

/// What a run opened below its directory, and what it read in all.
#[derive(Debug, Clone, Copy)]
struct Cost {
    opened: usize,
    read: u64,
}

impl Cost {
    fn is_at_most_half_more_than(self, other: Self) -> bool {
        self.opened * 2 <= other.opened * 3 && self.read * 2 <= other.read * 3
    }
}

/// Runs the program and measures it.
fn measure(site: &Site, line: &str) -> Cost {
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    watch_below(&watch, &site.path("data"));
    let mut command = site.command(line);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    // Its counters are there until its end is taken notice of.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{line}: {status}");
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap();
    let mut buffer = vec![MaybeUninit::uninit(); 1 << 20];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let mut opened = 0;
    while let Ok(event) = events.next() {
        assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "too many events");
        // The directories themselves are listed, not read.
        if event.events().contains(ReadFlags::OPEN) && !event.events().contains(ReadFlags::ISDIR) {
            opened += 1;
        }
    }
    Cost { opened, read }
}

fn watch_below(watch: &rustix::fd::OwnedFd, directory: &Path) {
    inotify::add_watch(watch, directory, WatchFlags::OPEN | WatchFlags::ONLYDIR).unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            watch_below(watch, &entry.path());
        }
    }
}

#[test]
fn the_last_of_many_runs_opens_and_reads_as_little_as_an_early_one_on_both_sides() {
    let runs = std::env::var("LANDFALL_RUNS").map_or(RUNS, |text| text.parse().unwrap());
    let [source, target] = [(); 2].map(|()| LabRegistry::start(Settings::default()).unwrap());
    source.put_image(&Image::tiny("same").unwrap(), "org/same", "v1").unwrap();
    let (connected, far) = (Site::new(), Site::new());
    for site in [&connected, &far] {
        let name = |name: &str| source.image(&format!("org/{name}"), "v1").unwrap();
        site.images("isc.yaml", &["same", "moving"].map(name));
        fs::create_dir_all(site.path("data")).unwrap();
    }
    let push = format!("-c isc.yaml {PLAIN} --from file://data docker://{}", target.address());
    let mut early = None;
    for run in 1..=runs {
        let image = Image::tiny(&format!("content of run {run}")).unwrap();
        source.put_image(&image, "org/moving", "v1").unwrap();
        let filled = measure(&connected, &format!("-c isc.yaml {PLAIN} file://data"));
        let chunk = format!("data/mirror_{run:06}.tar");
        fs::copy(connected.path(&chunk), far.path(&chunk)).unwrap();
        let pushed = measure(&far, &push);
        if run == EARLY {
            early = Some((filled, pushed));
        }
        if run == runs {
            let (filled_early, pushed_early) = early.unwrap();
            println!("run {EARLY}: {filled_early:?} {pushed_early:?}");
            println!("run {run}: {filled:?} {pushed:?}");
            assert!(filled.is_at_most_half_more_than(filled_early), "{filled:?} {filled_early:?}");
            assert!(pushed.is_at_most_half_more_than(pushed_early), "{pushed:?} {pushed_early:?}");
            let held = far.raw(
                &format!("docker://{}/org/moving:v1", target.address()),
                &["--tls-verify=false"],
            );
            assert_eq!(held, image.root().bytes);
        }
    }
}
