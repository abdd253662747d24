//! The plan that the newest dry run wrote.

use std::io;
use std::path::PathBuf;

use mirror::{StoredPlan, StoredPlanError};
use mirror_plan::{Action, Kind, Mode, Totals};
use workspace::Workspace;

use super::paging::{Page, matches};
use super::{Fault, chain};

/// Reasons that a page shows.
const MAX_UNPLANNED: usize = 50;

/// What a run would copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanView {
    pub(crate) path: PathBuf,
    pub(crate) mode: Mode,
    /// The registry that images go to, without `docker://`.
    pub(crate) target: Option<String>,
    pub(crate) totals: Totals,
    pub(crate) images: Page<PlanRow>,
    /// What cannot be copied, and why.
    pub(crate) unplanned: Vec<String>,
    pub(crate) more_unplanned: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanRow {
    pub(crate) image: String,
    pub(crate) kind: Kind,
    pub(crate) is_present: bool,
    pub(crate) bytes: u64,
    pub(crate) destination: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlanQuery {
    pub(crate) words: String,
    pub(crate) page: usize,
}

/// Reads the plan; `None` if there is none.
pub(crate) fn read(workspace: &Workspace, query: &PlanQuery) -> Result<Option<PlanView>, Fault> {
    let path = workspace.dry_run().join("plan.json");
    let stored = match StoredPlan::read(&path) {
        Ok(stored) => stored,
        Err(StoredPlanError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(Fault::Failed(chain(&error))),
    };
    let plan = stored.plan();
    let rows = plan.images.iter().map(|image| PlanRow {
        image: image.origin.to_string(),
        kind: image.kind,
        is_present: image.action == Action::Present,
        bytes: plan.size(image),
        destination: image.destination.to_string(),
    });
    let found =
        rows.filter(|row| matches(&format!("{} {}", row.image, row.destination), &query.words));
    let mut unplanned: Vec<String> = stored.unplanned().collect();
    let more_unplanned = unplanned.len().saturating_sub(MAX_UNPLANNED);
    unplanned.truncate(MAX_UNPLANNED);
    Ok(Some(PlanView {
        mode: plan.mode,
        target: plan.target.as_ref().map(ToString::to_string),
        totals: plan.totals,
        images: Page::of(found.collect(), query.page),
        unplanned,
        more_unplanned,
        path,
    }))
}
