//! Removes the content of deleted images from the workspace, on request.

use std::collections::BTreeSet;

use mirror_plan::{Origin, TargetRecord};
use workspace::{Lock, Workspace};

use super::report::DeleteReport;
use crate::error_chain::chain;
use crate::record::pushed_log;

/// Removes the images that no target has any more from the workspace, and content that nothing
/// needs.
pub(crate) fn forget_content(
    workspace: &Workspace,
    lock: &Lock,
    before: &TargetRecord,
    after: &TargetRecord,
    report: &mut DeleteReport,
) {
    let origins = |record: &TargetRecord| -> BTreeSet<Origin> {
        let details = record.images.values().filter_map(|image| image.details.as_ref());
        details.map(|known| known.origin.clone()).collect()
    };
    let mut gone = origins(before);
    let left = origins(after);
    gone.retain(|origin| !left.contains(origin));
    let registry = &report.target.registry;
    match pushed_log::of_other_targets(workspace, registry) {
        Ok(others) => gone.retain(|origin| {
            let name = origin.to_string();
            !others.iter().any(|text| text.contains(&name))
        }),
        Err(error) => return report.fail(chain(&error)),
    }
    let freed = workspace.plan_garbage_without(&gone).map_err(|error| chain(&error));
    let freed = freed.and_then(|plan| {
        workspace.free_garbage(lock, &plan).map_err(|error| chain(&error))?;
        Ok(plan.bytes())
    });
    match freed {
        Ok(bytes) => report.freed = Some(bytes),
        Err(why) => report.fail(format!("removing images from the workspace: {why}")),
    }
}
