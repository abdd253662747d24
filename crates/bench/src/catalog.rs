//! `cargo xtask bench catalog`: reads a catalog as large as the largest, selects from it and packs the
//! result.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use lab::catalogs::{self, Shape};
use lab::tools::{self, Tool};
use serde::Deserialize;

use crate::launch::{self, Invocation, Usage};
use crate::table::{megabytes, seconds, table};

/// Bytes of JSON per second, from the unpacked layer to the selected documents.
const WANTED_RATE: f64 = 500e6;
/// Memory in addition to the bytes of the catalog.
const WANTED_MEMORY: u64 = 150_000_000;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Measure each case N times
    #[arg(long, value_name = "N", default_value = "5")]
    runs: NonZeroUsize,
    /// Use a hundredth of the catalog and one run; only shows that the benchmark works
    #[arg(long, alias = "quick")]
    short: bool,
    /// Measure this program, the example `rebuild` of the crate `catalog`
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
}

/// The first case without oc-mirror: render the catalog, then filter it.
const BY_HAND: &str =
    r#""$0" render --output json "$1" | jq --compact-output --argjson wanted "$2" "$3""#;
const EDIT: &str = r#"
    def from_2: capture("[.]v(?<major>[0-9]+)[.]").major | tonumber >= 2;
    select((if .schema == "olm.package" then .name else .package end) as $package | $wanted | index($package))
    | if .schema == "olm.bundle" then select(.name | from_2)
      elif .schema == "olm.channel" then .entries |= map(select(.name | from_2))
      else . end"#;

/// What is selected.
struct Case {
    name: &'static str,
    configuration: String,
}

/// What the program prints about a run. Times are seconds since it started to read.
#[derive(Debug, Clone, Deserialize)]
struct RunFigures {
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
    let (shape, runs) = match arguments.short {
        true => (Shape::SMALL, 1),
        false => (Shape::WHOLE_INDEX, arguments.runs.get()),
    };
    let rebuild = &arguments.program;
    let opm = tools::path(Tool::Opm)?;
    let work = tempfile::tempdir().context("creating a folder for the catalog")?;
    let folder = work.path().join("configs");
    let length = catalogs::write(shape, &folder)?;
    println!("catalog: {} packages, {} MB of JSON", shape.packages, megabytes(length));
    println!("{}", environment(runs));

    let mut lines = Vec::new();
    let mut verdicts = Vec::new();
    for case in cases(shape) {
        let configuration = work.path().join("imageset.yaml");
        fs::write(&configuration, &case.configuration).context("writing the configuration")?;
        let words = [folder.display().to_string(), configuration.display().to_string()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let invocation = Invocation::new(rebuild, &words);
        let mut samples = Vec::new();
        for _ in 0..runs {
            samples.push(run(&invocation, work.path())?);
        }
        let best = samples.iter().min_by(|a, b| a.1.select.total_cmp(&b.1.select));
        let (usage, figures) = best.context("no run was measured")?;
        lines.push(line(case.name, usage, figures));
        verdicts.extend(judge(case.name, &samples));
    }
    lines.push(by_hand(&opm, &folder, shape, runs.min(3), work.path())?);

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

/// The first case with opm and jq, timed; jq is from the distribution.
fn by_hand(
    opm: &Path,
    folder: &Path,
    shape: Shape,
    runs: usize,
    work: &Path,
) -> Result<Vec<String>> {
    let packages: Vec<String> = chosen(shape).collect();
    let wanted = serde_json::to_string(&packages).context("writing the packages")?;
    let (opm, folder) = (opm.display().to_string(), folder.display().to_string());
    let by_hand = Invocation::new("/bin/sh", &["-c", BY_HAND, &opm, &folder, &wanted, EDIT]);
    let log = work.join("by-hand");
    let mut samples: Vec<Usage> = Vec::new();
    for _ in 0..runs {
        samples.push(launch::measure(&by_hand, &log)?);
    }
    let best = samples.iter().min_by_key(|usage| usage.wall).context("no run was measured")?;
    let text = fs::read_to_string(&log).context("reading the output of jq")?;
    let bundles = text.matches(r#""schema":"olm.bundle""#).count();
    ensure!(bundles > 0, "opm and jq selected nothing; `apt-get install jq` installs jq:\n{text}");
    let mut cells = vec!["the first case by hand: opm render, jq".to_owned()];
    cells.extend(std::iter::repeat_n("-".to_owned(), 3));
    cells.extend([bundles.to_string(), format!("{:.1}", text.len() as f64 / 1e6), "-".to_owned()]);
    cells.extend([seconds(best.wall), seconds(best.cpu), megabytes(best.peak)]);
    Ok(cells)
}

/// The packages of the first case.
fn chosen(shape: Shape) -> impl Iterator<Item = String> {
    (0..shape.packages).step_by(7).take(20).map(catalogs::package_name)
}

/// Twenty packages from version 2 on, and the newest of everything.
fn cases(shape: Shape) -> Vec<Case> {
    let head = "kind: ImageSetConfiguration\napiVersion: mirror.openshift.io/v2alpha1\nmirror:\n  \
                operators:\n  - catalog: registry.example.com/index:v1\n";
    let mut some = format!("{head}    packages:\n");
    for package in chosen(shape) {
        // Writing to a String cannot fail.
        let _ = writeln!(some, "    - name: {package}\n      minVersion: 2.0.0");
    }
    vec![
        Case { name: "20 packages from 2.0.0", configuration: some },
        Case { name: "the newest of every channel", configuration: head.to_owned() },
    ]
}

fn run(invocation: &Invocation, work: &Path) -> Result<(Usage, RunFigures)> {
    let log = work.join("log");
    let usage = launch::measure(invocation, &log)?;
    let text = fs::read_to_string(&log).context("reading the output of the program")?;
    let last = text.lines().last().unwrap_or_default();
    let figures = serde_json::from_str(last).with_context(|| format!("reading {last:?}"))?;
    Ok((usage, figures))
}

fn line(name: &str, usage: &Usage, figures: &RunFigures) -> Vec<String> {
    let second = |time: f64| format!("{time:.3}");
    let megabyte = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    vec![
        name.to_owned(),
        second(figures.load),
        second(figures.select),
        second(figures.pack),
        figures.bundles.to_string(),
        megabyte(figures.result),
        megabyte(figures.layer),
        seconds(usage.wall),
        seconds(usage.cpu),
        megabytes(usage.peak),
    ]
}

fn judge(name: &str, samples: &[(Usage, RunFigures)]) -> Vec<Vec<String>> {
    let rates = samples.iter().map(|(_, figures)| figures.bytes as f64 / figures.select);
    let (mut best, mut worst) = (0.0_f64, f64::INFINITY);
    for rate in rates {
        (best, worst) = (best.max(rate), worst.min(rate));
    }
    let beyond =
        samples.iter().map(|(usage, figures)| usage.peak.saturating_sub(figures.bytes)).max();
    let beyond = beyond.unwrap_or_default();
    let same = samples.iter().all(|(_, figures)| figures.digest == samples[0].1.digest);
    let met = |met: bool| if met { "met" } else { "**not met**" }.to_owned();
    vec![
        vec![
            format!("{name}: JSON to selected documents, one core"),
            "≥ 500 MB/s".to_owned(),
            format!("{:.0} MB/s (worst run {:.0})", best / 1e6, worst / 1e6),
            met(best >= WANTED_RATE),
        ],
        vec![
            format!("{name}: memory in addition to the catalog"),
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

fn environment(runs: usize) -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!("runs: {runs} of each case, the best counts; load before the start: {load}")
}
