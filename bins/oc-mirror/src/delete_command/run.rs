//! Runs the two phases in the engine.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use mirror::{
    Archiving, Attachments, BrokenBundles, Configuration, DeleteReport, DeleteRequest, Deletion,
    DryRun, Event, Observer, PlannedDeletion, ReleaseSources, Settings, SignatureCheck, Workflow,
    execute_deletion, plan_deletion,
};
use mirror_plan::Target;
use registry::Side;
use workspace::Workspace;

use super::arguments::CommonArguments;
use super::files::Listed;
use super::{Refusal, text};
use crate::interrupt::{self, Ended};
use crate::log::Log;
use crate::problem::Problem;
use crate::request::ProcessEnvironment;

/// What both phases need.
pub(super) struct Runner<'a> {
    common: &'a CommonArguments,
    line: Vec<String>,
    workspace: PathBuf,
    target: Target,
    destination: registry::Settings,
    source: registry::Settings,
    releases: ReleaseSources,
}

/// How the second phase is performed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) dry_run: bool,
    pub(super) force_cache_delete: bool,
    pub(super) update_catalogs: bool,
}

/// Selecting is fast; only warnings are worth a line.
struct Warnings;

impl Observer for Warnings {
    fn notice(&self, event: Event) {
        if let Event::Warning { message } = event {
            tracing::warn!("{message}");
        }
    }
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        common: &'a CommonArguments,
        line: &[OsString],
        process: &ProcessEnvironment,
        workspace: &Path,
        target: &Target,
    ) -> Result<Self, Refusal> {
        let authfile = common.authfile.as_ref().filter(|path| !path.as_os_str().is_empty());
        let choice = common.destination.side(authfile).map_err(Refusal::Usage)?;
        let destination = registry::Settings {
            retry: common.retry.retry(),
            timeouts: common.retry.timeouts(),
            ..choice.settings(Side::Destination, process)
        };
        let releases = process.releases.sources(SignatureCheck::Enforce).map_err(Refusal::Usage)?;
        Ok(Self {
            common,
            line: line.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            workspace: workspace.to_owned(),
            target: target.clone(),
            destination,
            source: registry::Settings::new(process.registries.clone(), Side::Source),
            releases,
        })
    }

    pub(super) fn max_nested_paths(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.common.max_nested_paths)
    }

    /// How configurations are selected by: from disk, without any change.
    pub(super) fn settings(&self) -> Settings {
        let (dir, target) = (self.workspace.clone(), self.target.clone());
        let set = image_set::ImageSetConfiguration::default();
        Settings {
            workflow: Workflow::DiskToMirror { dir, target },
            configuration: Configuration { path: PathBuf::new(), text: String::new(), set },
            source: self.source.clone(),
            destination: self.destination.clone(),
            parallel_images: NonZeroUsize::MIN,
            parallel_layers: NonZeroUsize::MIN,
            attachments: Attachments::Carry,
            refresh_attachments: false,
            releases: self.releases.clone(),
            broken_bundles: BrokenBundles::Keep,
            trust: None,
            max_nested_paths: self.max_nested_paths(),
            cache: None,
            archive_key: None,
            migrate_from: None,
            archiving: Archiving::none(),
            allow_incomplete: true,
            content_source_policy: false,
            transfer_timeout: None,
            until: None,
            pace: None,
            dry_run: DryRun::Plan,
            plan: None,
            wait_for_workspace: false,
            through_workspace: false,
            shards: None,
            segments: None,
            claim: None,
            helm_program: None,
            arguments: self.line.clone(),
            version: crate::version::NUMBER.to_owned(),
        }
    }

    /// Phase 1.
    pub(super) fn plan(&self, request: DeleteRequest) -> Result<PlannedDeletion, Refusal> {
        let planned = wait(|cancel| plan_deletion(request, Arc::new(Warnings), cancel))?;
        let planned = planned.ok_or(Refusal::Interrupted)?.map_err(Refusal::Failures)?;
        for warning in &planned.choice.warnings {
            tracing::warn!("{warning}");
        }
        for kept in &planned.choice.kept {
            tracing::warn!("{} stays: {}", kept.place, kept.because);
        }
        Ok(planned)
    }

    /// Phase 2, to the exit code.
    pub(super) fn execute(
        &self,
        listed: Listed,
        options: Options,
        log: &Log,
    ) -> Result<u8, Refusal> {
        let Options { dry_run, force_cache_delete, update_catalogs } = options;
        if !dry_run {
            let wanted = Workspace::open(&self.workspace).log_file(Timestamp::now());
            log.keep_copy(&wanted).map_err(|error| {
                Problem::new(format!("writing the log {}: {error}", wanted.display()))
            })?;
        }
        tracing::info!("oc-mirror {}", crate::version::NUMBER);
        let deletion = Deletion {
            workspace: self.workspace.clone(),
            target: self.target.clone(),
            registry: self.destination.clone(),
            list: listed.list,
            expected: listed.expected,
            reasons: listed.reasons,
            dry_run,
            forget_content: force_cache_delete,
            update_catalogs: update_catalogs.then(|| self.settings()),
            arguments: self.line.clone(),
            version: crate::version::NUMBER.to_owned(),
            request: (listed.path.display().to_string(), listed.text),
        };
        let report = wait(|cancel| execute_deletion(deletion, cancel))?;
        let Some(report) = report else {
            tracing::error!("interrupted: run the same command again to continue");
            return Ok(interrupt::EXIT_CODE);
        };
        for warning in &report.warnings {
            tracing::warn!("{warning}");
        }
        super::tell(&report.errors);
        let code = report.exit_code();
        let text = text::executed(&report);
        log.append(&text);
        let out = match self.common.is_json() {
            true => json(&report, code)?,
            false => text,
        };
        command_line::write_result(out.as_bytes())
            .map_err(|error| Problem::new(format!("writing to standard output: {error}")))?;
        Ok(code)
    }
}

fn json(report: &DeleteReport, exit_code: u8) -> Result<String, Refusal> {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a> {
        #[serde(flatten)]
        report: &'a DeleteReport,
        exit_code: u8,
    }
    let text = serde_json::to_string_pretty(&Document { report, exit_code })
        .map_err(|error| Problem::new(format!("writing the report: {error}")))?;
    Ok(format!("{text}\n"))
}

/// Waits for work that ends early after a signal; none when it was abandoned.
fn wait<T, F: Future<Output = T>>(
    work: impl FnOnce(tokio_util::sync::CancellationToken) -> F,
) -> Result<Option<T>, Refusal> {
    let runtime =
        crate::runtime().map_err(|error| Problem::new(format!("starting threads: {error}")))?;
    let ended = runtime.block_on(interrupt::until_ended(work));
    runtime.shutdown_background();
    match ended {
        Ok(Ended::Result(value)) => Ok(Some(value)),
        Ok(Ended::Abandoned) => Ok(None),
        Err(error) => Err(Problem::new(format!("waiting for signals: {error}")).into()),
    }
}
