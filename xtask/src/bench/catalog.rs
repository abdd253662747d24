//! `cargo xtask bench catalog`: a catalog as large as the largest, read, selected from, packed again.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use lab::catalogs::{self, Shape};
use lab::tools::{self, Cache, Tool};
use serde::Deserialize;

use super::launch::{self, Invocation, Usage};
use super::table::{megabytes, seconds, table};
use crate::program;

/// JSON per second, from the unpacked layer to the selected documents.
const WANTED_RATE: f64 = 500e6;
/// Memory beyond the catalog's own bytes.
const WANTED_MEMORY: u64 = 150_000_000;

#[derive(Args)]
pub(crate) struct Arguments {
    /// How often each case is measured
    #[arg(long, value_name = "N", default_value = "5")]
    runs: NonZeroUsize,
    /// A hundredth of the catalog, one run: shows that the benchmark works, and no more
    #[arg(long)]
    quick: bool,
}

/// What is selected.
struct Case {
    name: &'static str,
    configuration: String,
}

/// What the program prints about a run. Times are seconds since its start of reading.
#[derive(Debug, Clone, Deserialize)]
struct Told {
    bytes: u64,
    bundles: usize,
    result: u64,
    layer: u64,
    digest: String,
    load: f64,
    select: f64,
    pack: f64,
}

pub(crate) fn catalog(arguments: &Arguments) -> Result<()> {
    let (shape, runs) = match arguments.quick {
        true => (Shape::SMALL, 1),
        false => (Shape::WHOLE_INDEX, arguments.runs.get()),
    };
    let rebuild = program::build_example("catalog", "rebuild")?;
    let opm = tools::build(&Cache::of_user()?, Tool::Opm)?;
    let work = tempfile::tempdir().context("making a folder for the catalog")?;
    let folder = work.path().join("configs");
    let length = catalogs::write(shape, &folder)?;
    println!("catalog: {} packages, {} MB of JSON", shape.packages, megabytes(length));
    println!("{}", surroundings(runs));

    let mut lines = Vec::new();
    let mut verdicts = Vec::new();
    for case in cases(shape) {
        let configuration = work.path().join("imageset.yaml");
        fs::write(&configuration, &case.configuration).context("writing the configuration")?;
        let words = [folder.display().to_string(), configuration.display().to_string()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let invocation = Invocation::new(&rebuild, &words);
        let mut samples = Vec::new();
        for _ in 0..runs {
            samples.push(run(&invocation, work.path())?);
        }
        let best = samples.iter().min_by(|a, b| a.1.select.total_cmp(&b.1.select));
        let (usage, told) = best.context("no run was made")?;
        lines.push(line(case.name, usage, told));
        verdicts.extend(judge(case.name, &samples));
    }
    let render =
        Invocation::new(&opm, &["render", "--output", "json", &folder.display().to_string()]);
    let log = work.path().join("rendered");
    let mut rendered: Vec<Usage> = Vec::new();
    for _ in 0..runs.min(3) {
        rendered.push(launch::measure(&render, &log)?);
    }
    let opm = rendered.iter().min_by_key(|usage| usage.wall).context("opm was not run")?;
    let mut cells = vec!["opm render, without any selection".to_owned()];
    cells.extend(std::iter::repeat_n("-".to_owned(), 6));
    cells.extend([seconds(opm.wall), seconds(opm.cpu), megabytes(opm.peak)]);
    lines.push(cells);

    let header = [
        "case",
        "load s",
        "+ select s",
        "+ pack s",
        "bundles",
        "result MB",
        "layer MB",
        "all s",
        "CPU s",
        "MB RSS",
    ];
    println!("\n{}", table(&header, lines));
    println!("{}", table(&["target", "wanted", "measured", ""], verdicts));
    Ok(())
}

/// Twenty packages from version 2 on, and the newest of everything.
fn cases(shape: Shape) -> Vec<Case> {
    let head = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
                operators:\n  - catalog: registry.example.com/index:v1\n";
    let mut some = format!("{head}    packages:\n");
    for number in (0..shape.packages).step_by(7).take(20) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            some,
            "    - name: {}\n      minVersion: 2.0.0",
            catalogs::package_name(number)
        );
    }
    vec![
        Case { name: "20 packages from 2.0.0", configuration: some },
        Case { name: "the newest of every channel", configuration: head.to_owned() },
    ]
}

fn run(invocation: &Invocation, work: &Path) -> Result<(Usage, Told)> {
    let log = work.join("log");
    let usage = launch::measure(invocation, &log)?;
    let text = fs::read_to_string(&log).context("reading what the program printed")?;
    let last = text.lines().last().unwrap_or_default();
    let told = serde_json::from_str(last).with_context(|| format!("reading {last:?}"))?;
    Ok((usage, told))
}

fn line(name: &str, usage: &Usage, told: &Told) -> Vec<String> {
    let second = |time: f64| format!("{time:.3}");
    let megabyte = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    vec![
        name.to_owned(),
        second(told.load),
        second(told.select),
        second(told.pack),
        told.bundles.to_string(),
        megabyte(told.result),
        megabyte(told.layer),
        seconds(usage.wall),
        seconds(usage.cpu),
        megabytes(usage.peak),
    ]
}

fn judge(name: &str, samples: &[(Usage, Told)]) -> Vec<Vec<String>> {
    let rates = samples.iter().map(|(_, told)| told.bytes as f64 / told.select);
    let (mut best, mut worst) = (0.0_f64, f64::INFINITY);
    for rate in rates {
        (best, worst) = (best.max(rate), worst.min(rate));
    }
    let beyond = samples.iter().map(|(usage, told)| usage.peak.saturating_sub(told.bytes)).max();
    let beyond = beyond.unwrap_or_default();
    let same = samples.iter().all(|(_, told)| told.digest == samples[0].1.digest);
    let met = |met: bool| if met { "met" } else { "**not met**" }.to_owned();
    vec![
        vec![
            format!("{name}: JSON to selected documents, one core"),
            "≥ 500 MB/s".to_owned(),
            format!("{:.0} MB/s (worst run {:.0})", best / 1e6, worst / 1e6),
            met(best >= WANTED_RATE),
        ],
        vec![
            format!("{name}: memory beyond the catalog itself"),
            "≤ 150 MB".to_owned(),
            format!("{} MB", megabytes(beyond)),
            met(beyond <= WANTED_MEMORY),
        ],
        vec![
            format!("{name}: digest of the layer"),
            "the same in every run".to_owned(),
            if same { "the same" } else { "differs" }.to_owned(),
            met(same),
        ],
    ]
}

fn surroundings(runs: usize) -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!("runs: {runs} of each case, the best counts; load before the start: {load}")
}
