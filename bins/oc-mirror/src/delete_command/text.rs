//! Plans and reports of deletions, for users.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use delete_plan::RepositoryBytes;
use mirror::{DeleteReport, DeletionOutcome, Ending, PlannedDeletion};
use oci::Repository;
use serde::Serialize;

use super::files::DeleteFiles;
use crate::quantity;

/// Lines that a plan lists before it refers to its file.
const SHOWN: usize = 20;

// Writing to a String cannot fail, so the results of write! are dropped below.

/// The plan of a deletion.
pub(super) fn planned(planned: &PlannedDeletion, files: &DeleteFiles, next: &str) -> String {
    let mut text = String::from("=== Plan ===\n");
    let items = &planned.choice.items;
    let _ = writeln!(text, "{} to delete", quantity::count(items.len(), "image"));
    for item in items.iter().take(SHOWN) {
        let shared = match item.shared_with.len() {
            0 => String::new(),
            1 => format!(" (tag only: {} has the same manifest)", item.shared_with[0]),
            more => format!(
                " (tag only: {} and {} more have the same manifest)",
                item.shared_with[0],
                more - 1
            ),
        };
        let _ = writeln!(text, "  {}{shared}", item.place);
    }
    more(&mut text, items.len());
    let kept = &planned.choice.kept;
    if !kept.is_empty() {
        let _ = writeln!(text, "{} selected that stay:", quantity::count(kept.len(), "image"));
        for kept in kept.iter().take(SHOWN) {
            let _ = writeln!(text, "  {}: {}", kept.place, kept.because);
        }
        more(&mut text, kept.len());
    }
    for catalog in &planned.catalogs {
        let names: Vec<&str> =
            catalog.bundles.iter().map(|bundle| bundle.bundle.as_str()).collect();
        let _ = writeln!(
            text,
            "The catalog {} still offers {}. To replace it, mirror with this instead of its entry:\n{}",
            catalog.place,
            names.join(", "),
            catalog.operators.trim_end()
        );
    }
    bytes(&mut text, &planned.reasons.repositories);
    if !items.is_empty() {
        let _ = writeln!(text, "Files written:");
        for path in [&files.list, &files.reasons, &files.configuration] {
            let _ = writeln!(text, "  {}", path.display());
        }
        let _ = writeln!(text, "Nothing was deleted. Next:\n  {next}");
    }
    text
}

fn more(text: &mut String, count: usize) {
    if count > SHOWN {
        let _ = writeln!(text, "  ... and {} more; the files list all", count - SHOWN);
    }
}

fn bytes(text: &mut String, repositories: &BTreeMap<Repository, RepositoryBytes>) {
    let total: u64 = repositories.values().map(|bytes| bytes.reclaimable).sum();
    if repositories.is_empty() {
        return;
    }
    let _ = writeln!(text, "Content on record, by repository:");
    for (repository, bytes) in repositories {
        let _ = writeln!(
            text,
            "  {repository}: {} before, {} after, {} reclaimable",
            quantity::bytes(bytes.before),
            quantity::bytes(bytes.after),
            quantity::bytes(bytes.reclaimable)
        );
    }
    let _ = writeln!(text, "{} reclaimable in total", quantity::bytes(total));
}

/// States that sizes of what another program mirrored are unknown, and not zero.
fn unknown_bytes(text: &mut String, report: &DeleteReport) {
    let is_deleted = |fate: &DeletionOutcome| {
        matches!(
            fate,
            DeletionOutcome::Deleted
                | DeletionOutcome::WouldDelete
                | DeletionOutcome::Untagged { .. }
                | DeletionOutcome::WouldUntag { .. }
        )
    };
    let deleted = report.images.iter().filter(|image| is_deleted(&image.fate));
    let unknown: BTreeSet<&Repository> = deleted
        .map(|image| &image.image.repository)
        .filter(|repository| !report.repositories.contains_key(*repository))
        .collect();
    if !unknown.is_empty() {
        let repositories = match unknown.len() {
            1 => "1 repository".to_owned(),
            count => format!("{count} repositories"),
        };
        let _ = writeln!(
            text,
            "The size of what is deleted is not on record for {repositories}, which this workspace did not mirror to"
        );
    }
}

/// A plan for machines.
pub(super) fn planned_json(planned: &PlannedDeletion) -> serde_json::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Catalog<'a> {
        catalog: String,
        source: &'a str,
        bundles: Vec<&'a str>,
        operators: &'a str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a> {
        version: u32,
        mode: &'static str,
        #[serde(flatten)]
        reasons: &'a delete_plan::Reasons,
        catalogs: Vec<Catalog<'a>>,
        errors: &'a [mirror::Failure],
    }
    let catalogs = planned.catalogs.iter().map(|catalog| Catalog {
        catalog: catalog.place.to_string(),
        source: &catalog.source,
        bundles: catalog.bundles.iter().map(|bundle| bundle.bundle.as_str()).collect(),
        operators: &catalog.operators,
    });
    let text = serde_json::to_string_pretty(&Document {
        version: 1,
        mode: "deletePlan",
        reasons: &planned.reasons,
        catalogs: catalogs.collect(),
        errors: &planned.failures,
    })?;
    Ok(format!("{text}\n"))
}

/// The report of a deletion.
pub(super) fn executed(report: &DeleteReport) -> String {
    let mut text = String::from("=== Results ===\n");
    let count =
        |is: fn(&DeletionOutcome) -> bool| report.images.iter().filter(|i| is(&i.fate)).count();
    for (images, what) in [
        (count(|fate| matches!(fate, DeletionOutcome::Deleted)), "deleted"),
        (
            count(|fate| matches!(fate, DeletionOutcome::Untagged { .. })),
            "untagged; others use the manifest",
        ),
        (count(|fate| matches!(fate, DeletionOutcome::WouldDelete)), "would be deleted"),
        (
            count(|fate| matches!(fate, DeletionOutcome::WouldUntag { .. })),
            "would lose only the tag",
        ),
        (count(|fate| matches!(fate, DeletionOutcome::AlreadyGone)), "already absent"),
        (count(|fate| matches!(fate, DeletionOutcome::Kept { .. })), "kept"),
        (count(|fate| matches!(fate, DeletionOutcome::Failed { .. })), "failed"),
        (count(|fate| matches!(fate, DeletionOutcome::NotReached)), "not reached"),
    ] {
        if images > 0 {
            let _ = writeln!(text, "{} {what}", quantity::count(images, "image"));
        }
    }
    for image in &report.images {
        let _ = match &image.fate {
            DeletionOutcome::Kept { because } => {
                writeln!(text, "  kept {}: {because}", image.image)
            }
            DeletionOutcome::Untagged { kept_by } | DeletionOutcome::WouldUntag { kept_by } => {
                writeln!(text, "  tag only {}: also named by {}", image.image, kept_by.join(", "))
            }
            DeletionOutcome::Failed { error } => {
                writeln!(text, "  failed {}: {error}", image.image)
            }
            _ => Ok(()),
        };
    }
    let manifests = quantity::count(report.manifests, "manifest");
    let _ = match report.ending {
        Ending::Planned => {
            writeln!(text, "{manifests} would be deleted, parts and attachments included")
        }
        _ => writeln!(text, "{manifests} deleted, parts and attachments included"),
    };
    bytes(&mut text, &report.repositories);
    unknown_bytes(&mut text, report);
    if let Some(collection) = &report.garbage_collection {
        let known = match collection.from_documentation {
            true => " (from its documentation)",
            false => "",
        };
        let _ = writeln!(
            text,
            "Deleted manifests still take space. {} frees it{known}:\n  {}",
            collection.registry, collection.instruction
        );
    }
    for catalog in &report.replaced_catalogs {
        let _ =
            writeln!(text, "The catalog {catalog} was replaced by one without the deleted bundles");
    }
    if let Some(freed) = report.freed {
        let _ = writeln!(text, "{} freed in the workspace", quantity::bytes(freed));
    }
    if !report.files.is_empty() {
        let _ = writeln!(text, "Files written:");
        for path in &report.files {
            let _ = writeln!(text, "  {}", path.display());
        }
    }
    let ended = match report.ending {
        Ending::Complete => "complete",
        Ending::Partial => "partial: run the same command again to continue",
        Ending::Interrupted | Ending::Paused => {
            "interrupted: run the same command again to continue"
        }
        Ending::Failed => "failed: nothing was deleted",
        Ending::Planned => "dry run: nothing was deleted",
    };
    let run = report.run.map(|run| format!(" run {run}")).unwrap_or_default();
    let _ = writeln!(text, "delete{run} {ended}");
    text
}
