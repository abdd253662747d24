//! The report of a run, for people: what arrived, what did not and why, and
//! what to do next.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mirror::{ArchiveLine, BrokenBundle, Ending, ImageLine, Outcome, Remedy, Report};
use mirror_plan::{Exit, Kind};

use crate::quantity;

/// What the report does not know itself.
#[derive(Debug)]
pub(crate) struct ReportContext<'a> {
    /// The log of the run, where there is one.
    pub(crate) log: Option<&'a Path>,
    /// Sizes of the archive's chunks, as far as they are known.
    pub(crate) chunk_sizes: &'a BTreeMap<PathBuf, u64>,
    /// The configuration the run was given, for the command on the other side.
    pub(crate) config: &'a Path,
    /// Where the archives of the run were stored, besides the workspace.
    pub(crate) stored_in: Option<String>,
}

/// The kinds as users count them.
const GROUPS: [(Exit, &str); 4] = [
    (Exit::RELEASE, "release"),
    (Exit::OPERATOR, "operator"),
    (Exit::ADDITIONAL, "additional"),
    (Exit::HELM, "helm"),
];

/// Renders the report.
pub(crate) fn render(report: &Report, context: &ReportContext<'_>) -> String {
    let mut text = String::from("=== Results ===\n");
    match report.ending {
        Ending::Planned => planned(&mut text, report),
        _ => groups(&mut text, report),
    }
    errors(&mut text, report);
    broken_bundles(&mut text, report);
    list(&mut text, "Notes", &notes(report));
    list(&mut text, "Notes", &report.notes);
    list(&mut text, "Warnings", &report.warnings);
    if let Some(archive) = &report.archive {
        self::archive(&mut text, report, archive, context);
    }
    files(&mut text, report, context.log);
    ending(&mut text, report);
    text
}

// Writing to a String cannot fail, so the results of write! are dropped below.

fn planned(text: &mut String, report: &Report) {
    for (exit, name) in GROUPS {
        let images = of_group(report, exit);
        if !images.is_empty() {
            let present = count(&images, |outcome| *outcome == Outcome::Present);
            let pending = count(&images, |outcome| *outcome == Outcome::Pending);
            let _ = writeln!(
                text,
                "{} selected: {pending} to copy, {present} already there",
                quantity::count(images.len(), &format!("{name} image"))
            );
            failures(text, &images);
        }
    }
}

fn groups(text: &mut String, report: &Report) {
    for (exit, name) in GROUPS {
        let images = of_group(report, exit);
        if images.is_empty() {
            continue;
        }
        let arrived =
            count(&images, |outcome| matches!(outcome, Outcome::Copied | Outcome::Present));
        let failed = count(&images, |outcome| matches!(outcome, Outcome::Failed { .. }));
        let pending = count(&images, |outcome| *outcome == Outcome::Pending);
        let _ = write!(text, "{arrived} / {} {name} images mirrored", images.len());
        // Scripts search for the words of oc-mirror v2: `mirrored successfully`, and
        // `Some … images failed to be mirrored - please check the logs`.
        let some = format!("Some {name} images failed to be mirrored - please check the logs");
        let _ = match (failed, pending) {
            (0, 0) => writeln!(text, " successfully"),
            (failed, 0) => writeln!(text, ": {some} ({failed} failed)"),
            (0, pending) => writeln!(text, ": {pending} not reached"),
            (failed, pending) => {
                writeln!(text, ": {some} ({failed} failed, {pending} not reached)")
            }
        };
        failures(text, &images);
    }
}

fn of_group(report: &Report, exit: Exit) -> Vec<&ImageLine> {
    report.images.iter().filter(|image| Kind::exit(image.kind) == exit).collect()
}

fn count(images: &[&ImageLine], is: impl Fn(&Outcome) -> bool) -> usize {
    images.iter().filter(|image| is(&image.outcome)).count()
}

fn failures(text: &mut String, images: &[&ImageLine]) {
    for image in images {
        if let Outcome::Failed { error } = &image.outcome {
            let _ = writeln!(text, "  failed: {}: {}", image.origin, indented(&error.text));
            if let [first, others @ ..] = &image.needed_by[..] {
                let more = match others.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let _ = writeln!(text, "    needed by {}{more}", first.bundle);
            }
        }
    }
}

fn errors(text: &mut String, report: &Report) {
    for error in &report.errors {
        let _ = writeln!(text, "error: {}", indented(&error.message));
        if let Some(hint) = &error.hint {
            let _ = writeln!(text, "  hint: {}", indented(hint));
        }
    }
    let failed_for = |remedy: Remedy| {
        report.images.iter().any(|image| match &image.outcome {
            Outcome::Failed { error } => error.remedy == remedy,
            _ => false,
        })
    };
    if failed_for(Remedy::RunAgain) {
        text.push_str(
            "hint: if the cause is temporary, run the same command again; images that have \
             arrived are not copied twice\n",
        );
    }
    if failed_for(Remedy::CheckConnection) {
        text.push_str(
            "hint: check the name of the registry, the proxy (HTTPS_PROXY, NO_PROXY) and the \
             network; then run the same command again\n",
        );
    }
    if failed_for(Remedy::CheckName) {
        text.push_str(
            "hint: remove an image that no longer exists from the configuration, \
             or list it in blockedImages\n",
        );
    }
}

/// The bundles that cannot work, each with what it lacks.
fn broken_bundles(text: &mut String, report: &Report) {
    let of = |left_out: bool| {
        let bundles =
            report.broken_bundles.iter().filter(move |bundle| bundle.left_out == left_out);
        let line = |bundle: &BrokenBundle| {
            let BrokenBundle { catalog, name, missing, .. } = bundle;
            format!("{} of {catalog} lacks {}", name.bundle, missing.join(", "))
        };
        bundles.map(line).collect::<Vec<_>>()
    };
    list(text, "Bundles left out of their catalogs", &of(true));
    let broken = of(false);
    list(text, "Bundles that cannot be installed", &broken);
    if !broken.is_empty() {
        text.push_str("hint: --skip-broken-bundles leaves them out of the mirrored catalogs\n");
    }
}

fn notes(report: &Report) -> Vec<String> {
    let of = |image: &ImageLine| {
        let origin = image.origin.to_string();
        image.notes.iter().map(move |note| format!("{origin}: {note}")).collect::<Vec<_>>()
    };
    report.images.iter().flat_map(of).collect()
}

fn list(text: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        let _ = writeln!(text, "{title}:");
        for line in lines {
            let _ = writeln!(text, "  {}", indented(line));
        }
    }
}

fn archive(text: &mut String, report: &Report, archive: &ArchiveLine, context: &ReportContext<'_>) {
    let missing = match report.ending {
        Ending::Partial => "; it lacks the images that failed, and its index lists them",
        Ending::Paused => "; it holds what has arrived so far: push it with --allow-incomplete",
        _ => "",
    };
    let base = match archive.base {
        Some(base) => format!(", builds on run {base}"),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "Archive of run {}{base}: {}, {}{missing}",
        archive.run,
        quantity::count(archive.chunks.len(), "chunk"),
        quantity::bytes(archive.bytes)
    );
    for chunk in &archive.chunks {
        let _ = match context.chunk_sizes.get(chunk) {
            Some(size) => writeln!(text, "  {}  {}", chunk.display(), quantity::bytes(*size)),
            None => writeln!(text, "  {}", chunk.display()),
        };
    }
    if archive.chunks.is_empty() {
        text.push_str("  nothing is new since that run, so there is nothing to transfer\n");
        return;
    }
    let also = match archive.base {
        Some(base) => {
            format!(" and, unless they are there, those of run {base} and what it builds on")
        }
        None => String::new(),
    };
    let from = match &context.stored_in {
        Some(place) => {
            let _ = writeln!(text, "They are in {place}. On the other side, run:");
            place.as_str()
        }
        None => {
            let _ = writeln!(text, "Transfer these chunks to the other side{also}. There, run:");
            "file://DIRECTORY"
        }
    };
    let config = context.config.display();
    let _ = writeln!(text, "  oc-mirror -c {config} --from {from} docker://REGISTRY");
}

fn files(text: &mut String, report: &Report, log: Option<&Path>) {
    let holds = |path: &Path, name: &str| path.components().any(|part| part.as_os_str() == name);
    let (resources, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        report.files.iter().partition(|path| holds(path, "cluster-resources"));
    if let Some(dir) = resources.first().and_then(|path| path.parent()) {
        let _ = writeln!(text, "Cluster resources:");
        for path in &resources {
            let _ = writeln!(text, "  {}", path.display());
        }
        if report.ending != Ending::Planned {
            let _ = writeln!(text, "Apply them to the cluster:\n  oc apply -f {}", dir.display());
        }
    }
    let is_errors = |path: &Path| {
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("mirroring_errors_"))
    };
    let (errors, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        others.into_iter().filter(|path| Some(path.as_path()) != log).partition(|p| is_errors(p));
    if !others.is_empty() {
        let _ = writeln!(text, "Files written:");
        for path in others {
            let _ = writeln!(text, "  {}", path.display());
        }
    }
    for path in errors {
        let _ = writeln!(text, "Errors: {}", path.display());
    }
    if let Some(log) = log {
        let _ = writeln!(text, "Log: {}", log.display());
    }
}

fn ending(text: &mut String, report: &Report) {
    let totals = &report.totals;
    let ended = match report.ending {
        Ending::Complete => "complete",
        Ending::Partial => "partial",
        Ending::Interrupted => "interrupted: run the same command again to continue",
        Ending::Paused => {
            "paused at the time that --until names: run the same command again to continue"
        }
        Ending::Failed => "failed",
        Ending::Planned => "dry run: nothing was mirrored",
    };
    let _ = write!(text, "{}", report.mode);
    if let Some(run) = report.run {
        let _ = write!(text, " run {run}");
    }
    let _ = writeln!(text, " {ended}");
    let seconds = Duration::try_from_secs_f64(totals.seconds).unwrap_or_default();
    let moved = totals.blobs > 0 || totals.blobs_mounted > 0;
    if moved {
        let mounted = match totals.blobs_mounted {
            0 => String::new(),
            mounted => format!(", {mounted} mounted"),
        };
        let _ = writeln!(
            text,
            "{} in {} blobs{mounted}, {}, {}",
            quantity::bytes(totals.bytes),
            totals.blobs,
            quantity::time(seconds),
            quantity::rate(totals.bytes, totals.seconds),
        );
    } else if matches!(report.ending, Ending::Complete | Ending::Partial) {
        let _ = writeln!(text, "nothing was transferred, {}", quantity::time(seconds));
    }
}

/// Indents further lines of a message, and replaces control characters: text of registries must
/// not control the terminal.
fn indented(message: &str) -> String {
    let clean: String = message
        .trim_end()
        .chars()
        .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
        .collect();
    clean.replace('\n', "\n    ")
}

#[cfg(test)]
mod tests;
