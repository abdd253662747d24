//! What all stages of a run share: settings, the workspace, and the observer. Nothing here carries
//! results from one stage to another.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mirror_plan::{Action, BlobRef, Destination, Exit, Origin, Plan, PlannedImage, Wanted};
use oci::Digest;
use tokio_util::sync::CancellationToken;
use workspace::distribution::Cache;
use workspace::{
    AuditedImage, AuditedOutcome, BlobError, BlobStore, ControlSocket, Controlled, DiskError,
    DocumentError, JournalEvent, Lock, LockError, Run, RunStart, Workspace,
};

use crate::collect::charts;
use crate::collect::sections::Sections;
use crate::control::RunControl;
use crate::error_chain::chain;
use crate::gather::Turns;
use crate::plan::stored_plan::{self, StoredText};
use crate::progress::{Event, ImageDone, Observer};
use crate::recorder::Recorder;
use crate::report::{Ending, Failure, ImageLine, Outcome, Report};
use crate::results::{Issues, Lost, Results};
use crate::settings::{DryRun, Settings};
use crate::transfer::execute::Moment;

/// How often a run that waits for the workspace tries again.
const LOCK_INTERVAL: Duration = Duration::from_millis(500);

/// A run in progress.
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) cancel: CancellationToken,
    pub(crate) workspace: Workspace,
    /// The cache of oc-mirror v2 that content is taken from.
    pub(crate) cache: Option<Cache>,
    pub(crate) started: Timestamp,
    /// The last push from this workspace did not copy everything: a target may
    /// hold blobs that no image there names yet.
    pub(crate) after_unfinished_push: bool,
    pub(crate) control: Arc<RunControl>,
    /// Who fetches which blob while images are collected.
    pub(crate) turns: Arc<Turns>,
    /// Content that this program builds, and documents; none where nothing is kept.
    built: Option<BlobStore>,
    clock: Instant,
    /// None in a dry run, which leaves no trace.
    writing: Option<Writing>,
    warnings: Sender<String>,
}

/// What only a run has that changes something. Fields are dropped in this order: the socket must
/// be removed before another process can have the lock.
struct Writing {
    _socket: Option<ControlSocket>,
    recorder: Arc<Recorder>,
    run: Run,
    lock: Lock,
}

/// What a run warned of, for its report. No stage has it.
#[derive(Debug)]
pub(crate) struct Warnings(Receiver<String>);

impl Context {
    /// Opens the workspace; unless this is a dry run, takes its lock and a run number.
    pub(crate) fn open(
        mut settings: Settings,
        mut observer: Arc<dyn Observer>,
        cancel: CancellationToken,
    ) -> Result<(Self, Warnings), Failure> {
        let fail =
            |error: &(dyn std::error::Error + 'static)| Failure::new(Exit::GENERIC, chain(error));
        let mut workspace = Workspace::open(settings.workflow.directory());
        let started = Timestamp::now();
        let (warnings, received) = channel();
        let cache = match &settings.cache {
            Some(choice) => {
                let mut notes = Vec::new();
                let opened = choice.open(&mut notes)?;
                notes.into_iter().for_each(|note| _ = warnings.send(note));
                opened
            }
            None => None,
        };
        if let Some(cache) = &cache {
            workspace = workspace.with_cache(cache.clone());
        }
        let mut control = Arc::new(RunControl::new(cancel.clone(), None));
        let (writing, history) = match settings.dry_run {
            DryRun::Plan | DryRun::PlanWithLists => {
                (None, workspace.run_history().map_err(|e| fail(&e))?)
            }
            DryRun::No => {
                let lock = lock(&settings, &workspace, &*observer, &cancel);
                let lock = lock.map_err(|e| fail(&e))?;
                if let Some(claim) = &settings.claim {
                    claim.begin().map_err(|message| Failure::new(Exit::GENERIC, message))?;
                }
                let name = settings.configuration.path.display().to_string();
                let target = settings.workflow.target().map(ToString::to_string);
                let start = RunStart {
                    mode: settings.workflow.mode(),
                    started,
                    program: &format!("oc-mirror {}", settings.version),
                    arguments: &settings.arguments,
                    configuration: Some((&name, &settings.configuration.text)),
                    target: target.as_deref(),
                };
                let run = workspace.begin_run(&lock, &start).map_err(|e| fail(&e))?;
                if let Some(trust) = &settings.trust {
                    let (file, digest) = (trust.path.display(), trust.digest);
                    let text = format!("every image must pass the trust policy {file} ({digest})");
                    run.journal().append(JournalEvent::Note { text }).map_err(|e| fail(&e))?;
                }
                if let Some(recovery) = run.recovery() {
                    let _ = warnings.send(format!(
                        "the machine lost power during an earlier run: {} blobs checked, {} were damaged and are fetched again",
                        recovery.checked,
                        recovery.blobs_removed.len(),
                    ));
                }
                let recorder = Arc::new(Recorder::new(observer, &run));
                observer = Arc::clone(&recorder) as Arc<dyn Observer>;
                let journal = Some(Arc::clone(run.journal()));
                control = Arc::new(RunControl::new(cancel.clone(), journal));
                // Not every file system has sockets; the run can do without.
                let socket = workspace.open_control(Arc::clone(&control) as Arc<dyn Controlled>);
                let socket = socket.inspect_err(|error| {
                    tracing::debug!("the run cannot be controlled: {}", chain(error));
                });
                let history = run.history();
                (Some(Writing { _socket: socket.ok(), recorder, run, lock }), history)
            }
        };
        let built = writing.is_some().then(|| workspace.blobs().clone());
        for side in [&mut settings.source, &mut settings.destination] {
            side.limits.push(control.limiter());
        }
        let context = Self {
            built,
            settings,
            observer,
            cancel,
            workspace,
            cache,
            started,
            after_unfinished_push: history.push_unfinished,
            control,
            turns: Arc::default(),
            clock: Instant::now(),
            writing,
            warnings,
        };
        Ok((context, Warnings(received)))
    }

    /// Makes a dry run keep what it builds, so that its plan can be executed.
    pub(crate) fn keep_dry_run_content(&mut self) -> Result<(), DiskError> {
        if self.writing.is_none() {
            self.built = Some(self.workspace.new_dry_run_content()?);
        }
        Ok(())
    }

    /// Keeps content that this program built.
    pub(crate) fn keep(&self, digest: &Digest, bytes: &[u8]) -> Result<(), BlobError> {
        match &self.built {
            Some(store) => store.put(digest, bytes),
            None => Ok(()),
        }
    }

    /// Keeps a document by which images are selected; none where nothing is kept.
    pub(crate) fn keep_document(
        &self,
        name: &str,
        bytes: &[u8],
    ) -> Result<Option<BlobRef>, DocumentError> {
        let Some(store) = &self.built else { return Ok(None) };
        if self.writing.is_some() {
            return self.workspace.save_document(name, bytes).map(Some);
        }
        let blob = BlobRef { digest: Digest::of(bytes), size: bytes.len() as u64 };
        let kept = store.put(&blob.digest, bytes);
        kept.map_err(|source| DocumentError::Store { name: name.to_owned(), source })?;
        Ok(Some(blob))
    }

    /// Whether content that is built is kept.
    pub(crate) fn keeps_content(&self) -> bool {
        self.built.is_some()
    }

    pub(crate) fn run(&self) -> Option<&Run> {
        self.writing.as_ref().map(|writing| &writing.run)
    }

    /// The run and its lock; none in a dry run.
    pub(crate) fn writing(&self) -> Option<(&Run, &Lock)> {
        self.writing.as_ref().map(|Writing { run, lock, .. }| (run, lock))
    }

    pub(crate) fn stage(&self, name: &'static str) {
        self.observer.notice(Event::Stage { name });
    }

    /// Tells how much there is to do; stores the plan, and records the images that need no transfer
    /// or cannot have one. A dry run stores nothing and gets the text.
    pub(crate) fn planned(
        &self,
        plan: &Plan,
        sections: &Sections,
        issues: &Issues,
    ) -> Option<StoredText> {
        let totals = &plan.totals;
        self.observer.notice(Event::Planned {
            images: totals.images,
            present: totals.images - totals.images_to_copy,
            blobs: totals.blobs_to_move as u64,
            bytes: totals.bytes_to_move,
        });
        charts::warn_of_whole_repositories(self, plan);
        let Some(writing) = &self.writing else {
            let text = stored_plan::text(self, plan, sections, issues);
            let warn = |error| {
                self.warn(format!("the plan could not be written: {}", chain(&error)));
            };
            return text.map_err(warn).ok();
        };
        let write = |out: &mut dyn Write| stored_plan::write(self, plan, sections, issues, out);
        if let Err(error) = writing.run.keep_plan(write) {
            self.warn(format!("the plan could not be stored: {}", chain(&error)));
        }
        for image in plan.images.iter().filter(|image| image.action == Action::Present) {
            writing.recorder.image(AuditedImage {
                source: image.origin.to_string(),
                destination: Some(self.place(&image.origin, &image.destination)),
                digest: Some(image.tree.manifests[0].digest),
                bytes: plan.size(image),
                outcome: AuditedOutcome::Present,
                error: None,
            });
        }
        self.record_lost(&issues.lost);
        None
    }

    /// Records images that cannot be mirrored.
    pub(crate) fn record_lost(&self, lost: &[Lost]) {
        for (wanted, name, error) in lost {
            self.record(wanted, name, AuditedOutcome::Failed, Some(error.text.clone()));
        }
    }

    /// Records images that the configuration blocks.
    pub(crate) fn record_blocked(&self, blocked: &[(Wanted, Destination)]) {
        for (wanted, name) in blocked {
            self.record(wanted, name, AuditedOutcome::Blocked, None);
        }
    }

    fn record(
        &self,
        wanted: &Wanted,
        name: &Destination,
        outcome: AuditedOutcome,
        error: Option<String>,
    ) {
        let Some(writing) = &self.writing else { return };
        writing.recorder.image(AuditedImage {
            source: wanted.origin.to_string(),
            destination: Some(self.place(&wanted.origin, name)),
            digest: None,
            bytes: 0,
            outcome,
            error,
        });
    }

    /// Tells of an image of a plan; returns its outcome once that is known.
    pub(crate) fn tell(
        &self,
        plan: &Plan,
        image: &PlannedImage,
        moment: Moment<'_>,
    ) -> Option<Outcome> {
        let Some(outcome) = moment.outcome() else {
            let (kind, origin) = (image.kind, image.origin.clone());
            self.observer.notice(Event::ImageStarted { kind, origin });
            return None;
        };
        self.done(plan, image, outcome.clone());
        Some(outcome)
    }

    /// Tells how an image of a plan ended.
    pub(crate) fn done(&self, plan: &Plan, image: &PlannedImage, outcome: Outcome) {
        self.observer.notice(Event::ImageDone(ImageDone {
            kind: image.kind,
            origin: image.origin.clone(),
            destination: self.place(&image.origin, &image.destination),
            digest: Some(image.tree.manifests[0].digest),
            bytes: plan.size(image),
            outcome,
        }));
    }

    /// Where an image is, or would be: a reference at the target, or its folder in the workspace.
    pub(crate) fn place(&self, origin: &Origin, name: &Destination) -> String {
        match self.settings.workflow.target() {
            None => self.workspace.layout_of(origin).display().to_string(),
            Some(target) => name.at(&target.registry).to_string(),
        }
    }

    /// Reports a warning.
    pub(crate) fn warn(&self, message: String) {
        self.observer.notice(Event::Warning { message: message.clone() });
        // There is no receiver where there is no report.
        let _ = self.warnings.send(message);
    }

    /// Ends the run: assembles the report, writes the error file and the records.
    pub(crate) fn close(self, results: Results, warnings: &Warnings) -> Report {
        let mut report = Report::new(self.settings.workflow.name());
        report.images = results.images;
        for (wanted, name, error) in results.issues.lost {
            let place = self.place(&wanted.origin, &name);
            report.images.push(ImageLine::lost(wanted, place, error));
        }
        report.images.sort_by(|a, b| (a.kind, &a.origin).cmp(&(b.kind, &b.origin)));
        report.notes = results.issues.notes;
        report.errors = results.issues.failures;
        report.archive = results.archive;
        report.files = results.files;
        report.count_images();
        report.totals.blobs = results.moved.blobs;
        report.totals.bytes = results.moved.bytes;
        report.totals.blobs_mounted = results.moved.mounted;
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
        if results.is_handed_over && report.ending == Ending::Complete {
            report.ending = Ending::Planned;
        }
        report.broken_bundles = results.needs.blame(&mut report.images);
        self.record_unreached(&report);
        report.run = self.run().map(Run::number);
        match self.write_errors(&report) {
            Ok(Some(path)) => report.files.push(path),
            Ok(None) => {}
            Err(error) => self.warn(format!("the error file: {}", chain(&error))),
        }
        report.warnings = warnings.0.try_iter().collect();
        let Some(Writing { run, lock: _lock, .. }) = self.writing else { return report };
        let failures = report.failed_images();
        if let Err(error) = run.end(report.ending.recorded(), failures) {
            report.errors.push(Failure::new(Exit::GENERIC, chain(&error)));
        }
        report
    }

    /// Records images that the run ended before.
    fn record_unreached(&self, report: &Report) {
        let Some(writing) = &self.writing else { return };
        for line in report.images.iter().filter(|line| line.outcome == Outcome::Pending) {
            writing.recorder.image(AuditedImage {
                source: line.origin.to_string(),
                destination: Some(line.destination.clone()),
                digest: line.digest,
                bytes: line.bytes,
                outcome: AuditedOutcome::NotReached,
                error: None,
            });
        }
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

/// Takes the lock of the workspace; waits for it if that is requested.
fn lock(
    settings: &Settings,
    workspace: &Workspace,
    observer: &dyn Observer,
    cancel: &CancellationToken,
) -> Result<Lock, LockError> {
    if !settings.wait_for_workspace {
        return workspace.lock(&settings.arguments);
    }
    let mut is_told = false;
    workspace.lock_waiting(&settings.arguments, |error| {
        if !std::mem::replace(&mut is_told, true) {
            let message = match error {
                LockError::Held { holder, .. } => format!(
                    "waiting for process {} on {}, which uses the workspace since {}",
                    holder.pid, holder.host, holder.started
                ),
                _ => "waiting for another process that uses the workspace".to_owned(),
            };
            observer.notice(Event::Warning { message });
        }
        std::thread::sleep(LOCK_INTERVAL);
        !cancel.is_cancelled()
    })
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
