//! What all stages of a run share: settings, the workspace, who watches, what was counted.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use mirror_plan::{Destination, Exit, Plan, PlannedImage, Wanted};
use tokio_util::sync::CancellationToken;
use workspace::{
    AuditEvent, AuditedImage, AuditedOutcome, DiskError, Lock, Mode, Run, RunRecord, RunStart,
    RunStatus, Workspace,
};

use crate::error_chain::chain;
use crate::progress::{Event, Observer};
use crate::report::{Ending, Failure, ImageLine, Outcome, Report};
use crate::results::Results;
use crate::settings::{DryRun, Settings};
use crate::transfer::execute::Moment;

/// A run under way.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) cancel: CancellationToken,
    pub(crate) workspace: Workspace,
    pub(crate) started: Timestamp,
    /// The last push from this workspace did not bring everything: a target may
    /// hold blobs that no image there names yet.
    pub(crate) after_unfinished_push: bool,
    clock: Instant,
    /// None in a dry run, which leaves no trace.
    writing: Option<(Run, Lock)>,
    counted: Counted,
    warnings: Mutex<Vec<String>>,
}

#[derive(Debug, Default)]
struct Counted {
    blobs: AtomicU64,
    bytes: AtomicU64,
    mounted: AtomicU64,
}

impl Context {
    /// Opens the workspace; unless this is a dry run, takes its lock and a run number.
    pub(crate) fn open(
        settings: Settings,
        observer: Arc<dyn Observer>,
        cancel: CancellationToken,
    ) -> Result<Self, Failure> {
        let fail =
            |error: &(dyn std::error::Error + 'static)| Failure::new(Exit::GENERIC, chain(error));
        let workspace = Workspace::open(settings.mode.directory());
        let started = Timestamp::now();
        let runs = workspace.runs().map_err(|e| fail(&e))?;
        let pushes =
            |run: &&RunRecord| matches!(run.mode, Mode::DiskToMirror | Mode::MirrorToMirror);
        let after_unfinished_push =
            runs.iter().rev().find(pushes).is_some_and(|run| run.status != RunStatus::Complete);
        let mut warnings = Vec::new();
        let writing = match settings.dry_run {
            DryRun::Plan | DryRun::PlanWithLists => None,
            DryRun::No => {
                let lock = workspace.lock(&settings.arguments).map_err(|e| fail(&e))?;
                let name = settings.configuration.path.display().to_string();
                let start = RunStart {
                    mode: settings.mode.recorded(),
                    started,
                    program: &format!("oc-mirror {}", settings.version),
                    arguments: &settings.arguments,
                    configuration: Some((&name, &settings.configuration.text)),
                };
                let run = workspace.begin_run(&lock, &start).map_err(|e| fail(&e))?;
                if let Some(trust) = &settings.trust {
                    let (file, digest) = (trust.path.display(), trust.digest);
                    let text = format!("every image must pass the trust policy {file} ({digest})");
                    run.audit().write(&AuditEvent::Note { text }).map_err(|e| fail(&e))?;
                }
                if let Some(recovery) = run.recovery() {
                    warnings.push(format!(
                        "the machine lost power during an earlier run: {} blobs checked, {} were damaged and are fetched again",
                        recovery.checked,
                        recovery.blobs_removed.len(),
                    ));
                }
                Some((run, lock))
            }
        };
        Ok(Self {
            settings,
            observer,
            cancel,
            workspace,
            started,
            after_unfinished_push,
            clock: Instant::now(),
            writing,
            counted: Counted::default(),
            warnings: Mutex::new(warnings),
        })
    }

    pub(crate) fn run(&self) -> Option<&Run> {
        self.writing.as_ref().map(|(run, _)| run)
    }

    /// The run and its lock; none in a dry run.
    pub(crate) fn writing(&self) -> Option<(&Run, &Lock)> {
        self.writing.as_ref().map(|(run, lock)| (run, lock))
    }

    pub(crate) fn stage(&self, name: &'static str) {
        self.observer.notice(Event::Stage { name });
    }

    /// Tells how much there is to do.
    pub(crate) fn planned(&self, plan: &Plan) {
        let totals = &plan.totals;
        self.observer.notice(Event::Planned {
            images: totals.images,
            present: totals.images - totals.images_to_copy,
            blobs: totals.blobs_to_move as u64,
            bytes: totals.bytes_to_move,
        });
    }

    /// Tells of an image; gives its outcome once that is known.
    pub(crate) fn tell(
        &self,
        image: &PlannedImage,
        destination: impl Fn() -> String,
        moment: Moment<'_>,
    ) -> Option<Outcome> {
        let (kind, origin) = (image.kind, image.origin.clone());
        let outcome = match moment {
            Moment::Began => {
                self.observer.notice(Event::ImageStarted { kind, origin });
                return None;
            }
            Moment::Finished => Outcome::Copied,
            Moment::Failed(error) => Outcome::Failed { error: error.to_string() },
        };
        let (destination, told) = (destination(), outcome.clone());
        self.observer.notice(Event::ImageDone { kind, origin, destination, outcome: told });
        Some(outcome)
    }

    /// Tells of something that a person should know and that stops nothing.
    pub(crate) fn warn(&self, message: String) {
        self.observer.notice(Event::Warning { message: message.clone() });
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    pub(crate) fn count(&self, blobs: u64, bytes: u64, mounted: u64) {
        self.counted.blobs.fetch_add(blobs, Ordering::Relaxed);
        self.counted.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counted.mounted.fetch_add(mounted, Ordering::Relaxed);
    }

    /// Where an image that could not be read would be now.
    fn place(&self, wanted: &Wanted, name: &Destination) -> String {
        match &self.settings.mode {
            crate::settings::Mode::MirrorToDisk { .. } => {
                self.workspace.layout_of(&wanted.origin).display().to_string()
            }
            crate::settings::Mode::DiskToMirror { target, .. }
            | crate::settings::Mode::MirrorToMirror { target, .. } => {
                name.at(&target.registry).to_string()
            }
        }
    }

    /// Tells of an image that failed without a transfer.
    pub(crate) fn failed(&self, image: &PlannedImage, destination: String, error: &str) {
        let outcome = Outcome::Failed { error: error.to_owned() };
        let (kind, origin) = (image.kind, image.origin.clone());
        self.observer.notice(Event::ImageDone { kind, origin, destination, outcome });
    }

    /// Tells of images that the configuration blocks.
    pub(crate) fn blocked(&self, blocked: &[(Wanted, Destination)]) {
        let Some(run) = self.run() else { return };
        for (wanted, name) in blocked {
            let image = AuditedImage {
                source: wanted.origin.to_string(),
                destination: Some(self.place(wanted, name)),
                digest: None,
                bytes: 0,
                outcome: AuditedOutcome::Blocked,
                error: None,
            };
            if let Err(error) = run.audit().write(&AuditEvent::Image(image)) {
                self.warn(format!("the audit log could not be written: {}", chain(&error)));
                return;
            }
        }
    }

    /// Writes the outcome of images to the audit log.
    pub(crate) fn audit(&self, lines: &[ImageLine]) {
        let Some(run) = self.run() else { return };
        for line in lines {
            let (outcome, error) = match &line.outcome {
                Outcome::Copied => (AuditedOutcome::Copied, None),
                Outcome::Present => (AuditedOutcome::Present, None),
                Outcome::Failed { error } => (AuditedOutcome::Failed, Some(error.clone())),
                Outcome::Pending => (AuditedOutcome::NotReached, None),
            };
            let image = AuditedImage {
                source: line.origin.to_string(),
                destination: Some(line.destination.clone()),
                digest: line.digest,
                bytes: line.bytes,
                outcome,
                error,
            };
            if let Err(error) = run.audit().write(&AuditEvent::Image(image)) {
                self.warn(format!("the audit log could not be written: {}", chain(&error)));
                return;
            }
        }
    }

    /// Ends the run: assembles the report, writes the error file and the records.
    pub(crate) fn close(self, results: Results) -> Report {
        let mut report = Report::new(self.settings.mode.name());
        report.images = results.images;
        for (wanted, name, error) in results.issues.lost {
            let place = self.place(&wanted, &name);
            report.images.push(ImageLine::lost(wanted, place, error));
        }
        report.images.sort_by(|a, b| (a.kind, &a.origin).cmp(&(b.kind, &b.origin)));
        report.notes = results.issues.notes;
        report.errors = results.issues.failures;
        report.archive = results.archive;
        report.files = results.files;
        report.count_images();
        report.totals.blobs = self.counted.blobs.load(Ordering::Relaxed);
        report.totals.bytes = self.counted.bytes.load(Ordering::Relaxed);
        report.totals.blobs_mounted = self.counted.mounted.load(Ordering::Relaxed);
        report.totals.source_requests = results.requests.source;
        report.totals.destination_requests = results.requests.destination;
        report.totals.retries = results.requests.retries;
        report.totals.seconds = self.clock.elapsed().as_secs_f64();
        if results.is_interrupted {
            report.ending = match self.settings.is_past_deadline() {
                true => Ending::Paused,
                false => Ending::Interrupted,
            };
        }
        report.settle(self.settings.dry_run);
        report.broken_bundles = results.needs.blame(&mut report.images);
        self.audit(&report.images);
        report.run = self.run().map(Run::number);
        match self.write_errors(&report) {
            Ok(Some(path)) => report.files.push(path),
            Ok(None) => {}
            Err(error) => self.warn(format!("the error file: {}", chain(&error))),
        }
        report.warnings = self.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Some((run, _lock)) = self.writing else { return report };
        let failures = report.failed_images();
        let status = match report.ending {
            Ending::Complete | Ending::Planned => RunStatus::Complete,
            Ending::Partial => RunStatus::Partial,
            Ending::Interrupted => RunStatus::Interrupted,
            Ending::Paused => RunStatus::Paused,
            Ending::Failed => RunStatus::Failed,
        };
        if let Err(error) = run.end(status, failures) {
            report.errors.push(Failure::new(Exit::GENERIC, chain(&error)));
        }
        report
    }

    /// `mirroring_errors_<time>.txt`: one line per image that failed.
    fn write_errors(&self, report: &Report) -> Result<Option<PathBuf>, DiskError> {
        let mut text = String::new();
        for line in &report.images {
            if let Outcome::Failed { error } = &line.outcome {
                let bundles = needed_by(line);
                text.push_str(&format!(
                    "error mirroring image {}{bundles} error: {error}\n",
                    line.origin
                ));
            }
        }
        if text.is_empty() || self.writing.is_none() {
            return Ok(None);
        }
        let path = self.workspace.errors_file(self.started);
        workspace::atomic_file::write(
            &path,
            text.as_bytes(),
            workspace::atomic_file::Durability::Later,
        )?;
        Ok(Some(path))
    }
}

/// The bundles that need an image, in the form that scripts read.
fn needed_by(line: &ImageLine) -> String {
    if line.needed_by.is_empty() {
        return String::new();
    }
    let bundles: Vec<&str> = line.needed_by.iter().map(|name| name.bundle.as_str()).collect();
    let mut packages: Vec<&str> = line.needed_by.iter().map(|name| name.package.as_str()).collect();
    packages.dedup();
    format!(" (Operator bundles: [{}] - Operators: [{}])", bundles.join(" "), packages.join(" "))
}
