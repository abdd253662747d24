//! `oc-mirror migrate`: converts what oc-mirror v2 left on a disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use mirror::CacheChoice;
use workspace::distribution::V2WorkingDir;

use crate::arguments::{Arguments, ReportFormat};
use crate::console::Console;
use crate::log::Log;
use crate::mirror_command::{self, OfV2};
use crate::request::ProcessEnvironment;
use crate::route;

#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    /// Directory that oc-mirror v2 used as file://DIR or --workspace; it is not changed
    #[arg(value_name = "OLD")]
    old: String,
    /// Directory of the new workspace: file://DIR
    #[arg(value_name = "NEW")]
    new: String,
    /// Configuration that selects the images to convert [default: the newest isc_pinned_*.yaml of OLD]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Output format of the report: text or json
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

/// Runs the conversion to its exit code.
pub(crate) fn migrate(
    arguments: &MigrateArguments,
    cache: Option<CacheChoice>,
    process: &ProcessEnvironment,
    log: &Log,
    console: Console,
) -> ExitCode {
    match prepare(arguments) {
        Ok((old, line)) => {
            let parsed = match Arguments::read(line.iter().cloned()) {
                Ok(parsed) => parsed,
                Err(error) => {
                    tracing::error!("{error}");
                    return ExitCode::FAILURE;
                }
            };
            tracing::info!("converting {}", old.display());
            let of_v2 = OfV2 { cache, migrate_from: Some(old) };
            mirror_command::mirror(&parsed.mirror, of_v2, &line, process, log, console)
        }
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The old workspace, and the command line of a run into the new one.
fn prepare(arguments: &MigrateArguments) -> anyhow::Result<(PathBuf, Vec<OsString>)> {
    let old = directory("OLD", &arguments.old)?;
    let new = directory("NEW", &arguments.new)?;
    anyhow::ensure!(old.is_dir(), "OLD: {} is not a directory", old.display());
    let is_same = is_inside(&new, &old) || is_inside(&old, &new);
    anyhow::ensure!(
        !is_same,
        "{} and {} overlap: the old workspace is not modified, so the new one must be elsewhere",
        old.display(),
        new.display()
    );
    let config = match &arguments.config {
        Some(file) => file.clone(),
        None => V2WorkingDir::find(&old).and_then(|found| found.pinned_configuration()).with_context(
            || format!("{} has no working-dir/isc_pinned_*.yaml: name the configuration that was mirrored with -c FILE", old.display()),
        )?,
    };
    let output = match arguments.output {
        ReportFormat::Text => "--output=text",
        ReportFormat::Json => "--output=json",
    };
    let new = format!("file://{}", new.display());
    let line = [
        "oc-mirror".into(),
        "-c".into(),
        config.into(),
        "--no-archive".into(),
        output.into(),
        new.into(),
    ];
    Ok((old, line.into()))
}

fn directory(name: &str, text: &str) -> anyhow::Result<PathBuf> {
    route::directory(name, text).map_err(|problem| anyhow::anyhow!("{problem}"))
}

/// Whether `inner` is `outer` or below it, as far as they exist.
fn is_inside(inner: &Path, outer: &Path) -> bool {
    let absolute = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (absolute(inner), absolute(outer)) {
        (Ok(inner), Ok(outer)) => inner.starts_with(outer),
        _ => false,
    }
}
