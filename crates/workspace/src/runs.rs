//! Runs: numbered, recorded while they last, audited.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use jiff::Timestamp;
use mirror_plan::{Mode, Origin};
use oci::Digest;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::archive::Hashing;
use crate::atomic_file::{self, Durability, draft_in};
use crate::audit::{self, AuditLog};
use crate::disk_error::{At, DiskError, unless_absent};
use crate::durability::{Boot, Recovery};
use crate::journal::{Journal, JournalEvent, RunOrigin};
use crate::lock::Lock;
use crate::redact::{redact_arguments, redact_urls};
use crate::workspace::file_time;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunStatus {
    Running,
    /// Everything arrived.
    Complete,
    /// Some images failed, the rest arrived.
    Partial,
    /// Stopped, or killed.
    Interrupted,
    /// Stopped at the time that was set for it.
    Paused,
    /// Ended by itself before anything arrived; the workspace is as it was.
    Failed,
}

/// An image that did not arrive, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedImage {
    pub origin: Origin,
    pub error: String,
}

/// What is kept of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    pub number: u64,
    pub mode: Mode,
    pub started: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    pub status: RunStatus,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedImage>,
    /// The registry and namespace it pushed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<RecordedFile>,
    /// The plan that it executed, in the folder of plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Digest>,
    /// What the runs before it came to; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history: Option<RunHistory>,
}

/// A configuration as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    pub name: String,
    /// Of the text before credentials were removed.
    pub digest: Digest,
    /// Without credentials in URLs.
    pub text: String,
}

/// What later runs need to know of earlier ones. Each record repeats it, so that a run reads one
/// record however many there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunHistory {
    /// The last run that pushed did not push everything.
    pub push_unfinished: bool,
    /// The last run that filled the workspace, and how it ended.
    pub last_fill: Option<(u64, RunStatus)>,
}

impl RunHistory {
    fn after(self, run: &RunRecord) -> Self {
        match run.mode {
            Mode::DiskToMirror | Mode::MirrorToMirror => {
                Self { push_unfinished: run.status != RunStatus::Complete, ..self }
            }
            Mode::MirrorToDisk if run.status != RunStatus::Failed => {
                Self { last_fill: Some((run.number, run.status)), ..self }
            }
            Mode::MirrorToDisk | Mode::Delete => self,
        }
    }
}

/// What a run starts with.
#[derive(Debug, Clone, Copy)]
pub struct RunStart<'a> {
    pub mode: Mode,
    pub started: Timestamp,
    /// Name and version, for the audit log.
    pub program: &'a str,
    pub arguments: &'a [String],
    /// File name and text of the configuration.
    pub configuration: Option<(&'a str, &'a str)>,
    /// The registry and namespace it pushes to.
    pub target: Option<&'a str>,
}

/// A run in progress. When it is dropped without [`Run::end`], as by a kill, its
/// record stays `running`; a process that finds it so with the lock free treats it as
/// interrupted.
#[derive(Debug)]
pub struct Run {
    workspace: Workspace,
    record: RunRecord,
    journal: Arc<Journal>,
    plan: OnceLock<Digest>,
    recovery: Option<Recovery>,
    clock: Instant,
}

impl Workspace {
    /// Starts a run: checks what a power cut may have damaged, takes the next
    /// number, opens the audit log. Holding the lock is the caller's part.
    pub fn begin_run(&self, _lock: &Lock, start: &RunStart<'_>) -> Result<Run, DiskError> {
        // Before anything is read or changed that a newer version may have written otherwise.
        self.known_identity()?;
        let recovery = self.begin_writing(&Boot::current())?;
        self.blobs().sweep()?;
        let newest = self.newest_record()?;
        let mut history = self.history_before(newest.as_ref())?;
        if let Some(mut record) = newest.clone() {
            if record.status == RunStatus::Running {
                record.status = RunStatus::Interrupted;
                self.save_run(&record, Durability::Whole)?;
                audit::complete(&self.audit_path(&record), &self.journal_path(record.number))?;
            }
            history = history.after(&record);
        }
        let mut identity = self.identity()?;
        let last = newest.map_or(0, |record| record.number);
        identity.last_run = identity.last_run.max(last) + 1;
        // Nothing has this number yet: a power failure loses at most the number itself.
        self.save_identity(&identity, Durability::Whole)?;
        let record = RunRecord {
            number: identity.last_run,
            mode: start.mode,
            started: start.started,
            ended: None,
            status: RunStatus::Running,
            failures: Vec::new(),
            target: start.target.map(str::to_owned),
            configuration: start.configuration.map(|(name, text)| RecordedFile {
                name: name.to_owned(),
                digest: Digest::of(text.as_bytes()),
                text: redact_urls(text),
            }),
            plan: None,
            history: Some(history),
        };
        self.save_run(&record, Durability::Whole)?;
        let audit = AuditLog::create(&self.audit_path(&record))?;
        let journal = Journal::create(&self.journal_path(record.number), audit)?;
        journal.append(JournalEvent::Started {
            run: record.number,
            mode: record.mode,
            target: record.target.clone(),
            pid: std::process::id(),
            origin: RunOrigin {
                workspace: identity.id.to_string(),
                program: start.program.to_owned(),
                arguments: redact_arguments(start.arguments),
                configuration: record.configuration.clone(),
            },
        })?;
        self.remove_old_journals(record.number)?;
        let clock = Instant::now();
        let (journal, plan) = (Arc::new(journal), OnceLock::new());
        Ok(Run { workspace: self.clone(), record, journal, plan, recovery, clock })
    }

    /// All runs, oldest first, as they are now.
    pub fn runs(&self) -> Result<Vec<RunRecord>, DiskError> {
        self.known_identity()?;
        let mut records = self.run_records()?;
        let running = |record: &RunRecord| record.status == RunStatus::Running;
        if records.iter().any(running) && !self.is_locked()? {
            for record in records.iter_mut().filter(|record| running(record)) {
                record.status = RunStatus::Interrupted;
            }
        }
        Ok(records)
    }

    /// What the runs so far came to.
    pub fn run_history(&self) -> Result<RunHistory, DiskError> {
        self.known_identity()?;
        let newest = self.newest_record()?;
        let history = self.history_before(newest.as_ref())?;
        let Some(mut record) = newest else { return Ok(history) };
        if record.status == RunStatus::Running {
            if self.is_locked()? {
                return Ok(history);
            }
            record.status = RunStatus::Interrupted;
        }
        Ok(history.after(&record))
    }

    /// What the runs before `record` came to. Records of earlier versions do not have it: then all
    /// are read.
    fn history_before(&self, record: Option<&RunRecord>) -> Result<RunHistory, DiskError> {
        let Some(record) = record else { return Ok(RunHistory::default()) };
        if let Some(history) = record.history {
            return Ok(history);
        }
        let earlier = self.run_records()?;
        let earlier = earlier.iter().filter(|earlier| earlier.number < record.number);
        Ok(earlier.fold(RunHistory::default(), |history, run| {
            let mut run = run.clone();
            if run.status == RunStatus::Running {
                run.status = RunStatus::Interrupted;
            }
            history.after(&run)
        }))
    }

    /// The record of one run.
    pub fn run_record(&self, number: u64) -> Result<RunRecord, DiskError> {
        self.read_run(&self.run_path(number))
    }

    fn newest_record(&self) -> Result<Option<RunRecord>, DiskError> {
        let directory = self.runs_dir();
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        let mut newest = None;
        for entry in entries.into_iter().flatten() {
            let name = entry.at("reading", &directory)?.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_suffix(".run.json").and_then(|number| number.parse().ok());
            newest = newest.max(number);
        }
        newest.map(|number: u64| self.read_run(&self.run_path(number))).transpose()
    }

    fn read_run(&self, path: &Path) -> Result<RunRecord, DiskError> {
        let text = fs::read(path).at("reading", path)?;
        serde_json::from_slice(&text).map_err(io::Error::other).at("reading", path)
    }

    fn run_records(&self) -> Result<Vec<RunRecord>, DiskError> {
        let directory = self.runs_dir();
        let entries = unless_absent(fs::read_dir(&directory)).at("reading", &directory)?;
        let mut records: Vec<RunRecord> = Vec::new();
        for entry in entries.into_iter().flatten() {
            let path = entry.at("reading", &directory)?.path();
            if path.to_string_lossy().ends_with(".run.json") {
                records.push(self.read_run(&path)?);
            }
        }
        records.sort_by_key(|record| record.number);
        Ok(records)
    }

    fn save_run(&self, record: &RunRecord, durability: Durability) -> Result<(), DiskError> {
        let path = self.run_path(record.number);
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::other);
        atomic_file::write(&path, &text.at("writing", &path)?, durability)
    }

    /// Where a plan is kept.
    pub fn plan_path(&self, digest: &Digest) -> PathBuf {
        self.working_dir().join("plans").join(format!("{}.json", digest.hex()))
    }

    /// Stores a plan under the digest of what `write` writes.
    fn save_plan(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Digest, DiskError> {
        let directory = self.working_dir().join("plans");
        fs::create_dir_all(&directory).at("creating", &directory)?;
        let draft = draft_in(&directory, ".new-").at("writing in", &directory)?;
        let mut hashing = Hashing::new(BufWriter::new(draft.as_file()));
        write(&mut hashing).and_then(|()| hashing.flush()).at("writing", &directory)?;
        let digest = hashing.finish();
        let path = self.plan_path(&digest);
        if !path.exists() {
            draft.persist(&path).map_err(|failed| failed.error).at("writing", &path)?;
        }
        Ok(digest)
    }

    /// Where the audit log of a run is.
    fn audit_path(&self, run: &RunRecord) -> PathBuf {
        self.logs().join(format!("audit-{:06}-{}.jsonl", run.number, file_time(run.started)))
    }

    fn run_path(&self, number: u64) -> PathBuf {
        self.runs_dir().join(format!("{number:06}.run.json"))
    }
}

impl Run {
    pub fn number(&self) -> u64 {
        self.record.number
    }

    pub fn started(&self) -> Timestamp {
        self.record.started
    }

    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// What the runs before this one came to.
    pub fn history(&self) -> RunHistory {
        self.record.history.unwrap_or_default()
    }

    /// Keeps the plan that this run carries out. Runs with the same plan share the file.
    /// `write` writes it.
    pub fn keep_plan(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), DiskError> {
        let digest = self.workspace.save_plan(write)?;
        let plan = *self.plan.get_or_init(|| digest);
        let record = RunRecord { plan: Some(plan), ..self.record.clone() };
        self.workspace.save_run(&record, Durability::Later)
    }

    /// Digest of the plan, once it is kept.
    pub fn plan(&self) -> Option<Digest> {
        self.plan.get().copied()
    }

    /// What was repaired at the start, when the machine had lost power.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Closes the run's record and audit log; after a long run, syncs everything
    /// on the disk.
    pub fn end(
        mut self,
        status: RunStatus,
        mut failures: Vec<FailedImage>,
    ) -> Result<RunRecord, DiskError> {
        for failure in &mut failures {
            failure.error = redact_urls(&failure.error);
        }
        failures.sort_by(|a, b| a.origin.cmp(&b.origin));
        let failed = failures.len();
        self.record.failures = failures;
        self.record.plan = self.plan.get().copied();
        self.record.status = status;
        self.record.ended = Some(Timestamp::now());
        let run = self.record.number;
        self.journal.append(JournalEvent::Ended { run, status, failed })?;
        self.workspace.save_run(&self.record, Durability::Now)?;
        self.workspace.end_writing(self.clock.elapsed())?;
        Ok(self.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(arguments: &[String]) -> RunStart<'_> {
        RunStart {
            mode: Mode::MirrorToDisk,
            started: "2026-03-04T05:06:07Z".parse().unwrap(),
            program: "oc-mirror 0.1.0",
            arguments,
            configuration: Some(("isc.yaml", "helm: https://u:hush@h/x")),
            target: None,
        }
    }

    fn statuses(workspace: &Workspace) -> Vec<(u64, RunStatus)> {
        workspace.runs().unwrap().iter().map(|run| (run.number, run.status)).collect()
    }

    #[test]
    fn runs_are_numbered_and_their_ends_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        let first = workspace.begin_run(&lock, &start(&[])).unwrap();
        assert_eq!(statuses(&workspace), [(1, RunStatus::Running)]);
        first.end(RunStatus::Complete, Vec::new()).unwrap();
        let failure = FailedImage {
            origin: Origin::Registry("q.io/a:1".parse().unwrap()),
            error: "GET https://u:hush@q.io/v2/: 401".into(),
        };
        let second = workspace.begin_run(&lock, &start(&[])).unwrap();
        let ended = second.end(RunStatus::Partial, vec![failure]).unwrap();
        assert!(!ended.failures[0].error.contains("hush"));
        assert_eq!(workspace.runs().unwrap()[1], ended);
        assert_eq!(statuses(&workspace), [(1, RunStatus::Complete), (2, RunStatus::Partial)]);
    }

    #[test]
    fn a_run_that_never_ended_is_interrupted_once_its_lock_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        drop(workspace.begin_run(&lock, &start(&[])).unwrap());
        assert_eq!(statuses(&workspace), [(1, RunStatus::Running)]);
        drop(lock);
        assert_eq!(statuses(&workspace), [(1, RunStatus::Interrupted)]);
        let lock = workspace.lock(&[]).unwrap();
        let run = workspace.begin_run(&lock, &start(&[])).unwrap();
        assert_eq!(run.number(), 2);
        assert_eq!(statuses(&workspace), [(1, RunStatus::Interrupted), (2, RunStatus::Running)]);
    }

    #[test]
    fn the_audit_log_lists_the_run_and_hides_credentials() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        let arguments = ["oc-mirror", "--src-creds", "me:hush"].map(str::to_owned);
        let run = workspace.begin_run(&lock, &start(&arguments)).unwrap();
        let path = workspace.audit_path(&run.record);
        assert!(path.ends_with("working-dir/logs/audit-000001-20260304_050607.jsonl"));
        run.end(RunStatus::Complete, Vec::new()).unwrap();
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains("hush"), "{text}");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["event"], "started");
        assert_eq!(lines[0]["mode"], "mirrorToDisk");
        assert_eq!(lines[0]["configuration"]["text"], "helm: https://***@h/x");
        assert_eq!(
            lines[0]["configuration"]["digest"],
            Digest::of(b"helm: https://u:hush@h/x").to_string()
        );
        assert_eq!(lines[1]["event"], "ended");
        assert_eq!(lines[1]["status"], "complete");
    }

    #[test]
    fn the_audit_log_of_a_killed_run_is_completed_from_its_journal() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        let run = workspace.begin_run(&lock, &start(&[])).unwrap();
        let path = workspace.audit_path(&run.record);
        for text in ["one", "two"] {
            run.journal().append(JournalEvent::Note { text: text.into() }).unwrap();
        }
        drop(run);
        // Killed after the journal was written, and before the log was.
        let whole = fs::read_to_string(&path).unwrap();
        let first = whole.find('\n').unwrap() + 1;
        fs::write(&path, &whole[..first]).unwrap();
        workspace.begin_run(&lock, &start(&[])).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        assert_eq!(whole.lines().count(), 3);
    }

    #[test]
    fn a_number_is_never_assigned_twice_even_without_records() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        for wanted in 1..=2 {
            let run = workspace.begin_run(&lock, &start(&[])).unwrap();
            assert_eq!(run.number(), wanted);
            run.end(RunStatus::Complete, Vec::new()).unwrap();
            fs::remove_dir_all(workspace.runs_dir()).unwrap();
            fs::remove_dir_all(workspace.logs()).unwrap();
        }
    }

    #[test]
    fn every_run_reads_the_results_of_earlier_ones_from_one_record() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        let run = |mode, status| {
            let run = workspace.begin_run(&lock, &RunStart { mode, ..start(&[]) }).unwrap();
            run.end(status, Vec::new()).unwrap();
        };
        run(Mode::MirrorToDisk, RunStatus::Partial);
        run(Mode::MirrorToMirror, RunStatus::Interrupted);
        run(Mode::Delete, RunStatus::Complete);
        let expected =
            RunHistory { push_unfinished: true, last_fill: Some((1, RunStatus::Partial)) };
        assert_eq!(workspace.run_history().unwrap(), expected);
        // Only the newest record is read.
        fs::remove_file(workspace.run_path(1)).unwrap();
        fs::write(workspace.run_path(2), b"damaged").unwrap();
        assert_eq!(workspace.run_history().unwrap(), expected);
        run(Mode::DiskToMirror, RunStatus::Complete);
        assert!(!workspace.run_history().unwrap().push_unfinished);
    }

    #[test]
    fn records_of_earlier_versions_are_all_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        fs::create_dir_all(workspace.runs_dir()).unwrap();
        let write = |number: u64, mode: &str, status: &str| {
            let time = "2026-03-04T05:06:07Z";
            let text = format!(
                r#"{{"number":{number},"mode":"{mode}","started":"{time}","status":"{status}"}}"#
            );
            fs::write(workspace.run_path(number), text).unwrap();
        };
        write(1, "mirrorToDisk", "complete");
        write(2, "mirrorToMirror", "partial");
        write(3, "mirrorToDisk", "running");
        let expected =
            RunHistory { push_unfinished: true, last_fill: Some((3, RunStatus::Interrupted)) };
        assert_eq!(workspace.run_history().unwrap(), expected);
        let lock = workspace.lock(&[]).unwrap();
        let run = workspace.begin_run(&lock, &start(&[])).unwrap();
        assert_eq!((run.number(), run.history()), (4, expected));
    }
}
