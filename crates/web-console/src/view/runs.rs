//! Runs: their records, and what their journals tell.

use workspace::{
    AuditedImage, AuditedOutcome, JournalEvent, JournalLine, JournalReader, RunProgress, RunRecord,
    Workspace,
};

use super::Fault;
use super::paging::{Page, matches};

/// Warnings that a page shows.
const MAX_WARNINGS: usize = 100;

/// A run and what happened in it.
#[derive(Debug, Clone)]
pub(crate) struct RunDetail {
    pub(crate) record: RunRecord,
    pub(crate) progress: RunProgress,
    /// The command line, without credentials; empty where the journal was removed.
    pub(crate) arguments: Vec<String>,
    pub(crate) images: Page<AuditedImage>,
    pub(crate) warnings: Vec<String>,
    pub(crate) more_warnings: usize,
    /// Journals of old runs are removed.
    pub(crate) has_journal: bool,
}

/// What is searched for among the images of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunQuery {
    pub(crate) words: String,
    pub(crate) outcome: Option<AuditedOutcome>,
    pub(crate) page: usize,
}

/// All runs, newest first.
pub(crate) fn list(workspace: &Workspace) -> Result<Vec<RunRecord>, Fault> {
    let mut runs =
        workspace.runs().map_err(|error| Fault::failed("reading the run records", &error))?;
    runs.reverse();
    Ok(runs)
}

/// One run.
pub(crate) fn read(
    workspace: &Workspace,
    number: u64,
    query: &RunQuery,
) -> Result<RunDetail, Fault> {
    let runs = list(workspace)?;
    let record = runs.into_iter().find(|run| run.number == number);
    let record = record.ok_or_else(|| Fault::Absent(format!("run {number} not found")))?;
    let lines = JournalReader::new(&workspace.journal_path(number)).read();
    let lines = lines.map_err(|error| Fault::failed("reading the journal", &error))?;
    Ok(detail(record, &lines, query))
}

fn detail(record: RunRecord, lines: &[JournalLine], query: &RunQuery) -> RunDetail {
    let mut progress = RunProgress { run: record.number, ..RunProgress::default() };
    let (mut arguments, mut images, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        progress.apply(line);
        match &line.event {
            JournalEvent::Started { origin, .. } => arguments.clone_from(&origin.arguments),
            JournalEvent::Warning { message } => warnings.push(message.clone()),
            JournalEvent::Image(image)
                if query.outcome.is_none_or(|outcome| outcome == image.outcome)
                    && matches(&image_text(image), &query.words) =>
            {
                images.push(image.clone());
            }
            _ => {}
        }
    }
    let more_warnings = warnings.len().saturating_sub(MAX_WARNINGS);
    warnings.truncate(MAX_WARNINGS);
    RunDetail {
        record,
        progress,
        arguments,
        images: Page::of(images, query.page),
        warnings,
        more_warnings,
        has_journal: !lines.is_empty(),
    }
}

fn image_text(image: &AuditedImage) -> String {
    let digest = image.digest.map(|digest| digest.to_string()).unwrap_or_default();
    format!("{} {} {digest}", image.source, image.destination.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use mirror_plan::Mode;
    use workspace::RunStart;

    use super::*;

    fn image(source: &str, outcome: AuditedOutcome) -> JournalEvent {
        let (destination, digest, error) = (None, None, None);
        let source = source.to_owned();
        JournalEvent::Image(AuditedImage { source, destination, digest, bytes: 1, outcome, error })
    }

    #[test]
    fn a_run_is_read_from_its_record_and_its_journal() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path());
        let lock = workspace.lock(&[]).unwrap();
        let arguments = ["oc-mirror", "-c", "isc.yaml", "file:///data"].map(str::to_owned);
        let start = RunStart {
            mode: Mode::MirrorToDisk,
            started: Timestamp::now(),
            program: "oc-mirror",
            arguments: &arguments,
            configuration: None,
            target: None,
        };
        let run = workspace.begin_run(&lock, &start).unwrap();
        for event in [
            image("q.io/a:1", AuditedOutcome::Copied),
            image("q.io/b:1", AuditedOutcome::Failed),
            JournalEvent::Warning { message: "slow".into() },
        ] {
            run.journal().append(event).unwrap();
        }
        let query = RunQuery { outcome: Some(AuditedOutcome::Failed), ..RunQuery::default() };
        let detail = read(&workspace, 1, &query).unwrap();
        assert_eq!(detail.arguments, arguments);
        assert_eq!((detail.progress.copied, detail.progress.failed), (1, 1));
        let found: Vec<&str> = detail.images.rows.iter().map(|row| row.source.as_str()).collect();
        assert_eq!(found, ["q.io/b:1"]);
        assert_eq!(detail.warnings, ["slow"]);
        assert!(matches!(read(&workspace, 2, &query), Err(Fault::Absent(_))));
    }
}
