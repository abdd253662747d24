//! `oc-mirror gc`: frees content of a workspace that nothing needs.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use workspace::{GarbagePlan, Workspace};

use crate::arguments::ReportFormat;
use crate::quantity;
use crate::route;

/// Frees content that no image, configuration or target needs any more
#[derive(Debug, Args)]
pub(crate) struct GcArguments {
    /// The workspace
    #[arg(value_name = "file://DIR")]
    dir: String,
    /// Print what would be removed; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Output format of the result: text or json
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    output: ReportFormat,
}

/// What was freed, or would be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Collected {
    dry_run: bool,
    images: Vec<String>,
    blobs: usize,
    partial_downloads: usize,
    layouts: usize,
    bytes: u64,
    images_kept: usize,
    bytes_kept: u64,
}

pub(crate) fn gc(arguments: &GcArguments, command_line: &[String]) -> ExitCode {
    crate::print(try_gc(arguments, command_line).map(String::into_bytes))
}

fn try_gc(arguments: &GcArguments, command_line: &[String]) -> anyhow::Result<String> {
    let directory =
        route::served_directory(&arguments.dir).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let workspace = Workspace::open(&directory);
    let plan = match arguments.dry_run {
        true => workspace.plan_garbage()?,
        false => {
            // A plan first: nothing is created in a directory that was only mistyped.
            workspace.plan_garbage()?;
            let lock = workspace.lock(command_line)?;
            let plan = workspace.plan_garbage()?;
            workspace.free_garbage(&lock, &plan)?;
            plan
        }
    };
    let collected = Collected::of(&plan, arguments.dry_run);
    match arguments.output {
        ReportFormat::Text => Ok(render(&collected)),
        ReportFormat::Json => Ok(format!("{}\n", serde_json::to_string_pretty(&collected)?)),
    }
}

impl Collected {
    fn of(plan: &GarbagePlan, dry_run: bool) -> Self {
        Self {
            dry_run,
            images: plan.images.iter().map(|(origin, _)| origin.to_string()).collect(),
            blobs: plan.blobs.len(),
            partial_downloads: plan.partial.len(),
            layouts: plan.layouts.len() + plan.images.len(),
            bytes: plan.bytes(),
            images_kept: plan.images_kept,
            bytes_kept: plan.bytes_kept,
        }
    }
}

fn render(collected: &Collected) -> String {
    let mut text = String::new();
    for image in &collected.images {
        let _ = writeln!(text, "no longer selected: {image}");
    }
    let freed = if collected.dry_run { "would be freed" } else { "freed" };
    let _ = writeln!(
        text,
        "{} in {}, {} and {} {freed}",
        quantity::bytes(collected.bytes),
        quantity::count(collected.blobs, "blob"),
        quantity::count(collected.partial_downloads, "partial download"),
        quantity::count(collected.layouts, "layout"),
    );
    let _ = writeln!(
        text,
        "{} of {} kept",
        quantity::bytes(collected.bytes_kept),
        quantity::count(collected.images_kept, "image"),
    );
    text
}
