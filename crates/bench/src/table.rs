//! Results as Markdown, which is readable on a terminal, too.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use crate::launch::Usage;
use crate::results::{Job, Results, Row, State};
use crate::targets::verdicts;
use crate::test_bed::TestBed;

/// What the figures depend on.
pub(crate) fn environment(test_bed: &TestBed, runs: usize) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "corpus: {} images, {} blobs, {:.2} GB unique, {:.2} GB as the images count it\n\
         machine: {cores} × {model}; load before the start: {load}\n\
         runs: {runs} of each case, the disk synced before each. The source's content is in the page \
         cache; so is what a disk → registry case reads, as it was just written.",
        test_bed.corpus.entries.len(),
        test_bed.corpus.blobs().len(),
        test_bed.corpus.unique_bytes() as f64 / 1e9,
        test_bed.corpus.referenced_bytes() as f64 / 1e9,
    )
}

/// All measurements, then the targets.
pub(crate) fn render(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail, so the results of writeln! are dropped here.
    for job in Job::ALL {
        for state in State::ALL {
            let rows: Vec<&Row> = results.case(job, state).collect();
            if !rows.is_empty() {
                let _ = writeln!(text, "### {job}, {state}\n\n{}", case(&rows));
            }
        }
    }
    if let Some(floor) = &results.floor {
        let _ = writeln!(text, "### hashing + copying, no network\n\n{}", usages(floor));
    }
    if !results.link.is_empty() {
        let runs: Vec<Usage> = results.link.iter().map(|sample| sample.usage).collect();
        let _ = writeln!(text, "### registry → disk over a slow link\n\n{}", usages(&runs));
    }
    let judged = verdicts(results).into_iter().map(|verdict| {
        let met = if verdict.met { "met" } else { "**not met**" };
        vec![verdict.about, verdict.wanted, verdict.measured, met.into()]
    });
    let header = ["target", "wanted", "measured", ""];
    let _ = write!(text, "### Targets\n\n{}", table(&header, judged.collect()));
    text
}

fn case(rows: &[&Row]) -> String {
    let header = [
        "program",
        "best s",
        "median s",
        "on disk s",
        "CPU s",
        "registries' CPU s",
        "limit s",
        "MB RSS",
        "source: requests",
        "MB",
        "twice",
        "destination: requests",
        "uploads",
        "MB",
        "twice",
        "mounts",
    ];
    let line = |row: &&Row| {
        // Counts differ little from run to run; the last run's are shown.
        let last = row.samples.last();
        let (source, destination) =
            last.map(|sample| (sample.source, sample.destination)).unwrap_or_default();
        let runs = row.samples.len();
        let once = if runs == 1 { " (1 run)" } else { "" };
        let mut cells = vec![
            format!("{}{once}", row.contender),
            seconds(row.best()),
            seconds(row.median()),
            seconds(row.on_disk()),
            seconds(row.cpu()),
            seconds(source.cpu + destination.cpu),
            // All processors busy all the time: no client with this much to do can be faster.
            seconds((row.cpu() + source.cpu + destination.cpu) / processors()),
            megabytes(row.peak()),
        ];
        cells.extend([source.requests.to_string(), megabytes(source.blob_bytes)]);
        cells.push(megabytes(source.blob_bytes_again));
        cells.extend([destination.requests.to_string(), destination.uploads.to_string()]);
        cells.push(megabytes(destination.upload_bytes));
        cells.extend([destination.uploads_again.to_string(), destination.mounts.to_string()]);
        cells
    };
    table(&header, rows.iter().map(line).collect())
}

fn processors() -> u32 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(count).unwrap_or(1)
}

fn usages(runs: &[Usage]) -> String {
    let line = |usage: &Usage| vec![seconds(usage.wall), seconds(usage.cpu), megabytes(usage.peak)];
    table(&["s", "CPU s", "MB RSS"], runs.iter().map(line).collect())
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64())
}

pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / 1e6)
}

/// A Markdown table with aligned columns.
pub(crate) fn table(header: &[&str], lines: Vec<Vec<String>>) -> String {
    let length = |text: &str| text.chars().count();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let cells = lines.iter().filter_map(|line| line.get(column)).map(|cell| length(cell));
            cells.chain([length(header[column]), 3]).max().unwrap_or_default()
        })
        .collect();
    let join = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let padded = |cells: Vec<String>| {
        join(cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect())
    };
    let mut text = padded(header.iter().map(ToString::to_string).collect());
    text += &join(widths.iter().map(|width| "-".repeat(*width)).collect());
    text.extend(lines.into_iter().map(padded));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = vec![vec!["a".to_owned(), "long cell".to_owned()]];
        let expected = "| name | x         |\n| ---- | --------- |\n| a    | long cell |\n";
        assert_eq!(table(&["name", "x"], lines), expected);
    }
}
