//! `oc-mirror list charts` and `oc-mirror list images --chart`: what is in chart repositories, and which
//! images a chart uses.

use std::path::PathBuf;

use clap::Args;
use drawing::columns;
use helm::repository::{ChartVersion, Index};
use mirror::{ChartImages, ChartLookup, ChartSearch, OriginLine};
use serde::Serialize;

use crate::list_format::{ListFormat, ListOptions, rendered};
use crate::lookup_arguments::wait;
use crate::request::ProcessEnvironment;

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("place").args(["repository", "from"]).required(true)))]
pub(crate) struct ListCharts {
    /// The repository: https://…, http://… or oci://…
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
    /// List the versions of this chart; required for a registry (oci://)
    #[arg(long, value_name = "NAME", requires = "repository")]
    chart: Option<String>,
    #[command(flatten)]
    list: ListOptions,
}

/// The arguments of `list images` for a chart.
#[derive(Debug, Args)]
pub(crate) struct ChartArguments {
    /// A chart: a folder, a .tgz file, the URL of one, oci://REGISTRY/CHART[:VERSION], or a name with --repository
    #[arg(long, value_name = "CHART")]
    pub(crate) chart: Option<String>,
    /// The repository that has the chart
    #[arg(long, value_name = "URL", requires = "chart")]
    repository: Option<String>,
    /// Version or range of the chart [default: the newest]
    #[arg(long, value_name = "VERSION", requires = "chart")]
    version: Option<String>,
    /// Values to render the chart with; later files take precedence; may be repeated
    #[arg(long, value_name = "FILE", requires = "chart")]
    values: Vec<PathBuf>,
    /// Kubernetes JSONPath of images outside of pod specs
    #[arg(long, value_name = "JSONPATH", requires = "chart")]
    image_path: Vec<String>,
    /// An environment variable of containers whose value is an image
    #[arg(long, value_name = "NAME", requires = "chart")]
    environment_variable: Vec<String>,
    /// Also render the chart with this Helm program, and report images that only one of the two finds
    #[arg(long, value_name = "PATH", requires = "chart")]
    helm_binary: Option<PathBuf>,
}

#[derive(Serialize)]
struct ChartEntry<'a> {
    name: &'a str,
    version: &'a str,
    #[serde(rename = "appVersion", skip_serializing_if = "str::is_empty")]
    app_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    /// How many versions of the chart there are.
    versions: usize,
}

#[derive(Serialize)]
struct Carried {
    name: String,
    version: String,
}

/// The text of the list of charts.
pub(crate) fn charts(
    arguments: &ListCharts,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    let output = arguments.list.output;
    let Some(repository) = &arguments.repository else {
        let directory = arguments.list.carried_directory()?;
        let carried = ChartLookup::carried(&directory)?.into_iter();
        let carried: Vec<Carried> =
            carried.map(|(name, version)| Carried { name, version }).collect();
        anyhow::ensure!(!carried.is_empty(), "no charts were transferred");
        return rendered(output, &carried, || {
            let rows: Vec<[String; 2]> =
                carried.iter().map(|chart| [chart.name.clone(), chart.version.clone()]).collect();
            columns(["NAME", "VERSION"], &rows)
        });
    };
    let lookup = arguments.list.charts(process)?;
    let chart = arguments.chart.as_deref();
    let index = wait(async { Ok(lookup.index(repository, chart).await?) })?;
    for skipped in &index.skipped {
        tracing::warn!("an entry of {} is skipped: {}", skipped.chart, skipped.reason);
    }
    match chart {
        Some(name) => versions(&index, name, output),
        None => newest(&index, output),
    }
}

fn entry(version: &ChartVersion, versions: usize) -> ChartEntry<'_> {
    ChartEntry {
        name: &version.metadata.name,
        version: &version.metadata.version,
        app_version: &version.metadata.app_version,
        description: &version.metadata.description,
        versions,
    }
}

/// Every chart with its newest version.
fn newest(index: &Index, output: ListFormat) -> anyhow::Result<String> {
    let charts = index.charts().filter_map(|(name, versions)| {
        let newest = index.select(name, None).ok().or_else(|| versions.first())?;
        Some(entry(newest, versions.len()))
    });
    let charts: Vec<ChartEntry<'_>> = charts.collect();
    rendered(output, &charts, || {
        let row = |chart: &ChartEntry<'_>| {
            [
                chart.name.to_owned(),
                chart.version.to_owned(),
                chart.versions.to_string(),
                one_line(chart.description),
            ]
        };
        let rows: Vec<_> = charts.iter().map(row).collect();
        columns(["NAME", "NEWEST", "VERSIONS", "DESCRIPTION"], &rows)
    })
}

/// Every version of one chart.
fn versions(index: &Index, name: &str, output: ListFormat) -> anyhow::Result<String> {
    let found = index.charts().find(|(known, _)| *known == name).map(|(_, versions)| versions);
    let found = found.unwrap_or_default();
    if found.is_empty() {
        // Fails with the nearest names.
        index.select(name, None)?;
    }
    let entries: Vec<ChartEntry<'_>> = found.iter().map(|v| entry(v, found.len())).collect();
    rendered(output, &entries, || {
        let row = |chart: &ChartEntry<'_>| {
            [chart.name.to_owned(), chart.version.to_owned(), one_line(chart.app_version)]
        };
        let rows: Vec<_> = entries.iter().map(row).collect();
        columns(["NAME", "VERSION", "APP VERSION"], &rows)
    })
}

/// The text of the list of a chart's images.
pub(crate) fn images(
    chart: &str,
    arguments: &ChartArguments,
    list: &ListOptions,
    process: &ProcessEnvironment,
) -> anyhow::Result<String> {
    anyhow::ensure!(list.from.is_none(), "--from cannot be combined with --chart");
    let lookup = list.charts(process)?;
    let search = ChartSearch {
        repository: arguments.repository.clone(),
        version: arguments.version.clone(),
        values_files: arguments.values.clone(),
        image_paths: arguments.image_path.clone(),
        environment: arguments.environment_variable.clone(),
        helm_program: arguments.helm_binary.clone(),
    };
    let found = wait(async { Ok(lookup.images(chart, &search).await?) })?;
    for problem in &found.problems {
        tracing::warn!("{problem}");
    }
    rendered(list.output, &found, || images_table(&found))
}

fn images_table(found: &ChartImages) -> String {
    let mut rows = Vec::new();
    for line in &found.images {
        for origin in &line.origins {
            rows.push([
                line.image.to_string(),
                place(origin),
                one_line(&origin.object),
                one_line(&origin.values.join(", ")),
            ]);
        }
    }
    let head = format!("Chart: {} {}\n\n", one_line(&found.chart), one_line(&found.version));
    let mut text = head + &columns(["IMAGE", "TEMPLATE", "OBJECT", "VALUES"], &rows);
    if !found.candidates.is_empty() {
        let rows: Vec<_> = found
            .candidates
            .iter()
            .map(|found| [found.image.to_string(), one_line(&found.values.join(", "))])
            .collect();
        text.push_str("\nOnly in values, mirrored with `guessImages: true`:\n\n");
        text.push_str(&columns(["IMAGE", "VALUES"], &rows));
    }
    text
}

fn place(origin: &OriginLine) -> String {
    let file = one_line(&origin.file);
    origin.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"))
}

/// Text of a chart, on one line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
