//! `cargo xtask bench helm`: finds the images of every chart of the data tier, with oc-mirror and with
//! Helm.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use lab::tools::{self, Tool};

use crate::launch::{self, Invocation, Usage};
use crate::table::{megabytes, seconds, table};

/// How much faster than `helm template` all charts together must be.
const WANTED_RATIO: f64 = 5.0;
/// The version that charts are rendered for, as oc-mirror does. A Helm that is built from its module
/// assumes another version, which many charts do not support.
const KUBE_VERSION: &str = "v1.34.0";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Measure each chart N times
    #[arg(long, value_name = "N", default_value = "3")]
    runs: NonZeroUsize,
    /// Use three charts and one run; only shows that the benchmark works
    #[arg(long, alias = "quick")]
    short: bool,
    /// Measure this oc-mirror
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
}

/// What one program used for all charts: the best run of each.
#[derive(Debug, Default)]
struct Sum {
    wall: Duration,
    cpu: Duration,
    peak: u64,
}

impl Sum {
    fn add(&mut self, usage: &Usage) {
        self.wall += usage.wall;
        self.cpu += usage.cpu;
        self.peak = self.peak.max(usage.peak);
    }

    fn line(&self, name: &str) -> Vec<String> {
        vec![name.to_owned(), seconds(self.wall), seconds(self.cpu), megabytes(self.peak)]
    }
}

pub(crate) fn helm(arguments: &Arguments) -> Result<()> {
    let Some(folder) = lab::data_tier("helm-charts") else { return Ok(()) };
    let helm = tools::path(Tool::Helm)?;
    let mut charts = charts(&folder)?;
    let runs = if arguments.short { 1 } else { arguments.runs.get() };
    if arguments.short {
        charts.truncate(3);
    }
    let work = tempfile::tempdir().context("creating a folder for the log")?;
    let log = work.path().join("log");
    let (mut ours, mut theirs) = (Sum::default(), Sum::default());
    let (mut measured, mut refused) = (0, 0);
    for chart in &charts {
        let chart = chart.display().to_string();
        // oc-mirror does not check the schema of values, either.
        let template = ["template", "release-name", &chart, "--include-crds"];
        let more = ["--skip-schema-validation", "--kube-version", KUBE_VERSION];
        let template = Invocation::new(&helm, &[&template[..], &more].concat());
        // A chart may require values.
        if launch::measure(&template, &log).is_err() {
            refused += 1;
            continue;
        }
        let list = Invocation::new(&arguments.program, &["list", "images", "--chart", &chart]);
        theirs.add(&best(&template, &log, runs)?);
        ours.add(&best(&list, &log, runs)?);
        measured += 1;
    }
    ensure!(measured > 0, "no chart of {} can be rendered", folder.display());
    println!("charts: {measured}; refused by Helm: {refused}; runs: {runs}, the best counts\n");
    let lines =
        vec![ours.line("oc-mirror list images, two sets of APIs"), theirs.line("helm template")];
    println!("{}", table(&["all charts", "all s", "CPU s", "MB RSS"], lines));
    let ratio = theirs.wall.as_secs_f64() / ours.wall.as_secs_f64();
    let met = if ratio >= WANTED_RATIO { "met" } else { "**not met**" };
    let verdict = vec![
        "as fast as `helm template`".to_owned(),
        format!("≥ {WANTED_RATIO} ×"),
        format!("{ratio:.1} ×"),
        met.to_owned(),
    ];
    println!("{}", table(&["target", "wanted", "measured", ""], vec![verdict]));
    Ok(())
}

fn best(invocation: &Invocation, log: &Path, runs: usize) -> Result<Usage> {
    let mut samples = Vec::new();
    for _ in 0..runs {
        samples.push(launch::measure(invocation, log)?);
    }
    samples.into_iter().min_by_key(|usage| usage.wall).context("no run was measured")
}

/// Folders and archives of charts, in the order of their names.
fn charts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut charts = Vec::new();
    for part in ["charts", "packages"] {
        let part = folder.join(part);
        for entry in fs::read_dir(&part).with_context(|| format!("reading {}", part.display()))? {
            let path = entry?.path();
            let is_packed = path.extension().is_some_and(|extension| extension == "tgz");
            if is_packed || path.join("Chart.yaml").is_file() {
                charts.push(path);
            }
        }
    }
    charts.sort();
    Ok(charts)
}
