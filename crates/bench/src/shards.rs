//! `cargo xtask bench shards`: one mirror with 1, 2, 4 and 8 workers, each behind its own slow link;
//! and how long it takes to plan and split a very large one.
//!
//! Workers are processes that do what the pods of a Job do (`oc-mirror shard`). Each has a
//! `registries.conf` that redirects the source to its own link.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{self, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use lab::link::{Link, SlowLink};

use crate::large_plan::{self, Size, Split};
use crate::launch::{self, Invocation, Usage};
use crate::table::{megabytes, seconds, table};
use crate::test_bed::{Destination, TestBed};
use crate::traffic::{Traffic, Watch};

/// The link of each worker.
const LINK: Link =
    Link { round_trip: Duration::from_millis(40), per_connection: 8_000_000, total: 8_000_000 };
const WORKERS: [u32; 4] = [1, 2, 4, 8];
/// The required share of a linear speedup.
const WANTED_SHARE: f64 = 0.9;
/// The largest allowed use of all processors, so that the links are the bottleneck.
const MOST_BUSY: f64 = 0.8;
/// Limits for the large plan.
const MOST_SECONDS: u64 = 60;
const MOST_BYTES: u64 = 1_000_000_000;
/// The whole corpus would take too long over these links.
const SHRINK: u64 = 2;
const TLS: [&str; 2] = ["--src-tls-verify=false", "--dest-tls-verify=false"];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Use a hundredth of the corpus and of the large plan, with 1 and 2 workers; only shows that the benchmark works
    #[arg(long, alias = "quick")]
    short: bool,
    /// Measure this oc-mirror
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
}

/// A mirror with this many workers.
struct Case {
    workers: u32,
    /// From the start of the command until the plan is stored.
    planned: Duration,
    /// From the start of the first worker to the end of the last.
    transferred: Duration,
    published: Duration,
    /// The used share of all processors, while content was transferred.
    busy: f64,
    /// The longest processor time and the largest memory of a worker.
    worker: Usage,
    source: Traffic,
    destination: Traffic,
}

pub(crate) fn shards(arguments: &Arguments) -> Result<()> {
    let program = path::absolute(&arguments.program)
        .with_context(|| format!("finding {}", arguments.program.display()))?;
    let (shrink, workers, part) = match arguments.short {
        true => (100, &WORKERS[..2], 100),
        false => (SHRINK, &WORKERS[..], 1),
    };
    let large = Size {
        images: 100_000 / part,
        blobs: 1_000_000 / part,
        shards: NonZeroU32::new(16).context("expected at least one shard")?,
    };
    let (split, usage) = measure_split(large)?;
    let test_bed = TestBed::prepare(shrink)?;
    let bytes = test_bed.corpus.unique_bytes();
    println!(
        "{} blobs, {:.2} GB; each worker behind {} ms and {} MB/s",
        test_bed.corpus.blobs().len(),
        bytes as f64 / 1e9,
        LINK.round_trip.as_millis(),
        LINK.total / 1_000_000
    );
    let mut cases = Vec::new();
    for count in workers {
        println!("{count} worker{}", if *count == 1 { "" } else { "s" });
        cases.push(measure(&test_bed, &program, *count)?);
    }
    println!("\n{}", render(&cases));
    println!("{}", verdicts(&cases, bytes, &large, (&split, &usage)));
    Ok(())
}

fn measure(test_bed: &TestBed, program: &Path, workers: u32) -> Result<Case> {
    let source = test_bed.source_host()?.to_string();
    let Destination { registry, .. } = &test_bed.destination()?;
    let target = format!("docker://{}/bench", registry.host()?);
    let work = test_bed.folder()?;
    let write = |name: &str, text: &str| -> Result<PathBuf> {
        let path = work.path().join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    };
    let configuration = write("isc.yaml", &test_bed.corpus.image_set(&test_bed.source_host()?))?;
    let workspace = |name: &str| format!("file://{}", work.path().join(name).display());
    let (configuration, out) = (configuration.display().to_string(), work.path().join("job"));
    let (out_text, count) = (out.display().to_string(), workers.to_string());
    let data = workspace("data");
    let plan = ["job", "-c", &configuration, "--workspace", &data, "--shards", &count];
    let more = ["--image", "oc-mirror", "--out", &out_text, TLS[0], TLS[1], &target];
    let plan = Invocation::new(program, &[&plan[..], &more].concat());
    let planned = launch::measure(&plan, &work.path().join("plan.log"))?.wall;
    let run = stored_run(&out)?;

    let mut links = Vec::new();
    let mut shards = Vec::new();
    for index in 0..workers {
        let link = SlowLink::start(test_bed.source.address(), LINK)?;
        let conf = format!(
            "[[registry]]\nprefix = \"{source}\"\nlocation = \"{}\"\ninsecure = true\n",
            link.address()
        );
        write(&format!("home-{index}/containers/registries.conf"), &conf)?;
        links.push(link);
        let (index_text, own) = (index.to_string(), workspace(&format!("shard-{index}")));
        let shard = ["shard", "--run", &run, "--index", &index_text, "--workspace", &own];
        let mut shard = Invocation::new(program, &[&shard[..], &TLS].concat());
        let home = work.path().join(format!("home-{index}"));
        shard.environment = BTreeMap::from([("XDG_CONFIG_HOME".to_owned(), home)]);
        shards.push((shard, work.path().join(format!("shard-{index}.log"))));
    }
    test_bed.settle();
    let watches = (Watch::start(&test_bed.source)?, Watch::start(registry)?);
    let (before, start) = (Processors::now()?, Instant::now());
    let ended: Vec<Result<Usage>> = thread::scope(|scope| {
        let started: Vec<_> = shards
            .iter()
            .map(|(shard, log)| scope.spawn(move || launch::measure(shard, log)))
            .collect();
        let panicked = || Err(anyhow::anyhow!("a worker could not be measured"));
        started.into_iter().map(|shard| shard.join().unwrap_or_else(|_| panicked())).collect()
    });
    let (transferred, after) = (start.elapsed(), Processors::now()?);
    let used = ended.into_iter().collect::<Result<Vec<_>>>()?;
    let sizes = test_bed.corpus.blobs();
    let (source, destination) = (watches.0.traffic(&sizes)?, watches.1.traffic(&sizes)?);
    let own = workspace("publish");
    let publish = ["shard", "--run", &run, "--publish", "--workspace", &own, TLS[0], TLS[1]];
    let publish = Invocation::new(program, &[&publish[..], &[&target]].concat());
    let published = launch::measure(&publish, &work.path().join("publish.log"))?.wall;
    let most = |of: fn(&Usage) -> Duration| used.iter().map(of).max().unwrap_or_default();
    let worker = Usage {
        wall: most(|usage| usage.wall),
        sync: Duration::ZERO,
        cpu: most(|usage| usage.cpu),
        peak: used.iter().map(|usage| usage.peak).max().unwrap_or_default(),
    };
    let busy = after.busy_since(&before);
    Ok(Case { workers, planned, transferred, published, busy, worker, source, destination })
}

/// The run that the manifests of Jobs refer to.
fn stored_run(out: &Path) -> Result<String> {
    let path = out.join("1-blobs.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut words = text.split(|c: char| c.is_whitespace() || c == '"' || c == '\'');
    let run = words.find(|word| word.starts_with("docker://") && word.contains("@sha256:"));
    run.map(str::to_owned).with_context(|| format!("{} does not name a run", path.display()))
}

/// Time of all processors since this machine started, in ticks.
struct Processors {
    idle: u64,
    all: u64,
}

impl Processors {
    fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        Self::parse(&text).context("/proc/stat has no line of all processors")
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; guests are part of the first two.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some(Self { idle, all: ticks.iter().sum() })
    }

    /// The share of all processors that was used, by this benchmark and by everything else.
    fn busy_since(&self, before: &Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        1.0 - self.idle.saturating_sub(before.idle) as f64 / all as f64
    }
}

fn measure_split(size: Size) -> Result<(Split, Usage)> {
    println!("planning {} images", size.images);
    let folder = tempfile::tempdir().context("creating a folder for the large plan")?;
    let result = folder.path().join("split.json");
    let words = [size.images.to_string(), size.blobs.to_string(), size.shards.to_string()];
    let result_text = result.display().to_string();
    let arguments = ["split-plan", &words[0], &words[1], &words[2], &result_text];
    let usage =
        launch::measure(&Invocation::of_this_program(&arguments)?, &folder.path().join("log"))?;
    let text = fs::read(&result).context("reading the result of the large plan")?;
    let split = serde_json::from_slice(&text).context("reading the result of the large plan")?;
    Ok((split, usage))
}

/// The process that is measured.
pub(crate) fn split_plan(size: Size, result: &Path) -> Result<()> {
    let split = large_plan::split_large_plan(size)?;
    let text = serde_json::to_vec(&split).context("writing the result")?;
    fs::write(result, text).with_context(|| format!("writing {}", result.display()))
}

fn render(cases: &[Case]) -> String {
    let header = [
        "workers",
        "plan s",
        "transfer s",
        "publish s",
        "of linear",
        "with plan and publish",
        "all CPUs busy",
        "worker: CPU s",
        "MB RSS",
        "source: MB",
        "twice",
        "destination: uploads",
        "twice",
    ];
    let line = |case: &Case| {
        vec![
            case.workers.to_string(),
            seconds(case.planned),
            seconds(case.transferred),
            seconds(case.published),
            share(cases, case, |case| case.transferred)
                .map_or("-".to_owned(), |s| format!("{s:.2}")),
            share(cases, case, Case::total).map_or("-".to_owned(), |s| format!("{s:.2}")),
            format!("{:.0} %", case.busy * 100.0),
            seconds(case.worker.cpu),
            megabytes(case.worker.peak),
            megabytes(case.source.blob_bytes),
            megabytes(case.source.blob_bytes_again),
            case.destination.uploads.to_string(),
            case.destination.uploads_again.to_string(),
        ]
    };
    table(&header, cases.iter().map(line).collect())
}

impl Case {
    fn total(&self) -> Duration {
        self.planned + self.transferred + self.published
    }
}

/// The speed of a case as a share of a linear speedup: 1 if each worker is as fast as one alone.
fn share(cases: &[Case], case: &Case, time: fn(&Case) -> Duration) -> Option<f64> {
    let one = cases.iter().find(|case| case.workers == 1)?;
    let ratio = time(one).as_secs_f64() / time(case).as_secs_f64();
    Some(ratio / f64::from(case.workers))
}

fn verdicts(cases: &[Case], bytes: u64, size: &Size, (split, usage): (&Split, &Usage)) -> String {
    let met = |is_met: bool| if is_met { "met" } else { "**not met**" }.to_owned();
    let mut lines = Vec::new();
    for case in cases.iter().filter(|case| case.workers > 1) {
        let Some(share) = share(cases, case, |case| case.transferred) else { continue };
        lines.push(vec![
            format!("{} workers against one: transfer", case.workers),
            format!("≥ {WANTED_SHARE} × linear"),
            format!("{share:.2} × linear"),
            met(share >= WANTED_SHARE),
        ]);
    }
    let busiest = cases.iter().map(|case| case.busy).fold(0.0, f64::max);
    lines.push(vec![
        "processors while content is transferred".to_owned(),
        format!("< {:.0} %", MOST_BUSY * 100.0),
        format!("{:.0} %", busiest * 100.0),
        met(busiest < MOST_BUSY),
    ]);
    let is_once = |case: &Case| {
        (case.source.blob_bytes, case.source.blob_bytes_again, case.destination.uploads_again)
            == (bytes, 0, 0)
    };
    lines.push(vec![
        "bytes from the source, uploads of an existing blob".to_owned(),
        format!("{} MB each time, 0", megabytes(bytes)),
        match cases.iter().find(|case| !is_once(case)) {
            None => "the same".to_owned(),
            Some(case) => format!(
                "{} workers: {} MB, {} MB twice, {}",
                case.workers,
                megabytes(case.source.blob_bytes),
                megabytes(case.source.blob_bytes_again),
                case.destination.uploads_again
            ),
        },
        met(cases.iter().all(is_once)),
    ]);
    let is_fast = usage.wall <= Duration::from_secs(MOST_SECONDS) && usage.peak <= MOST_BYTES;
    lines.push(vec![
        format!(
            "{} images, {} blobs planned, split among {}, {} MB of parts written",
            split.images,
            split.blobs,
            size.shards,
            megabytes(split.written as u64)
        ),
        format!("≤ {MOST_SECONDS} s, ≤ {} MB", megabytes(MOST_BYTES)),
        format!(
            "{} s, {} MB; shards of {} to {} MB",
            seconds(usage.wall),
            megabytes(usage.peak),
            megabytes(split.least),
            megabytes(split.most)
        ),
        met(is_fast),
    ]);
    table(&["target", "wanted", "measured", ""], lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_waits_for_a_disk_is_idle_time() {
        let before = Processors::parse("cpu  10 0 10 100 0 0 0 0 0 0\ncpu0 1 1").unwrap();
        let after = Processors::parse("cpu  30 0 40 130 20 0 0 0 0 0\ncpu0 1 1").unwrap();
        assert!((after.busy_since(&before) - 0.5).abs() < 1e-9);
        assert!(Processors::parse("cpu0 1 2 3 4 5 6 7 8").is_none());
    }

    #[test]
    fn the_run_is_found_in_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let text = "args:\n- shard\n- --run\n- docker://127.0.0.1:5/b/oc-mirror-runs@sha256:00\n- --workspace\n";
        fs::write(folder.path().join("1-blobs.yaml"), text).unwrap();
        assert_eq!(
            stored_run(folder.path()).unwrap(),
            "docker://127.0.0.1:5/b/oc-mirror-runs@sha256:00"
        );
    }
}
