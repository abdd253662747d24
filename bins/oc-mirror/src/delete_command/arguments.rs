//! The flags of `delete` and `prune`.

use std::path::PathBuf;

use clap::Args;
use mirror::PlannedDeletion;
use mirror_plan::Target;

use super::Refusal;
use super::run::Options;
use super::text;
use crate::arguments::ReportFormat;
use crate::problem::{Problem, chain};
use crate::retry_arguments::RetryArguments;
use crate::side_arguments::{DestinationArguments, SideArguments, UnusedSource};

/// What both commands have.
#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// Maximum number of path components of a repository at the destination, as in the mirror run (0: no limit)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) max_nested_paths: usize,
    /// Credentials file of podman or docker [default: $REGISTRY_AUTH_FILE, else the default files of podman and docker]
    #[arg(long, value_name = "FILE")]
    pub(super) authfile: Option<PathBuf>,
    /// Output format of the report: text or json
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    pub(super) output: ReportFormat,
    #[command(flatten)]
    pub(super) destination: DestinationArguments,
    #[command(flatten)]
    pub(super) retry: RetryArguments,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// Flags that every command of oc-mirror v2 takes, and that concern copying only.
#[derive(Debug, Args)]
struct WithoutEffect {
    #[command(flatten)]
    source: SideArguments<UnusedSource>,
    #[arg(long, hide = true)]
    parallel_images: Option<u16>,
    #[arg(long, hide = true)]
    parallel_layers: Option<u16>,
    #[arg(long = "registries.d", hide = true)]
    registries_d: Option<PathBuf>,
    #[arg(long, hide = true)]
    policy: Option<PathBuf>,
}

impl CommonArguments {
    pub(super) fn is_json(&self) -> bool {
        self.output == ReportFormat::Json
    }

    /// The report of a plan in the requested format.
    pub(super) fn output(&self, planned: &PlannedDeletion, text: &str) -> Result<String, Refusal> {
        match self.output {
            ReportFormat::Text => Ok(text.to_owned()),
            ReportFormat::Json => text::planned_json(planned)
                .map_err(|error| Problem::new(format!("writing the report: {error}")).into()),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    /// Registry to delete from: docker://REGISTRY[/NAMESPACE], as in the mirror run
    #[arg(value_name = "DESTINATION", num_args = 0..)]
    destinations: Vec<String>,
    /// Write the list of images to delete below working-dir/delete; delete nothing
    #[arg(long)]
    pub(super) generate: bool,
    /// With --generate: the delete image set configuration
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The workspace of the mirror runs [default: that of the list, the current one, or the one that mirrored to this registry]
    #[arg(long, value_name = "file://DIR")]
    pub(super) workspace: Option<String>,
    /// Delete the images in this list, which --generate wrote
    #[arg(long, value_name = "FILE")]
    delete_yaml_file: Option<PathBuf>,
    /// With --generate: add -ID to the names of the files
    #[arg(long, value_name = "ID")]
    pub(super) delete_id: Option<String>,
    /// With --generate: also list the tags of signatures, for oc-mirror v2. Without it: no effect; signatures are always deleted with their image
    #[arg(long)]
    pub(super) delete_signatures: bool,
    /// With --generate: also list images under the tags that oc-mirror v1 gave them
    #[arg(long)]
    pub(super) delete_v1_images: bool,
    /// Also remove deleted images from the workspace
    #[arg(long)]
    pub(super) force_cache_delete: bool,
    /// Compare the list with the registry and report what would be deleted; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// With --generate: keep what this image set configuration selects; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) keep: Vec<PathBuf>,
    /// With --generate: do not keep what this configuration selects, although it was mirrored; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) ignore_configuration: Vec<PathBuf>,
    /// With --generate: allow everything that was mirrored to be deleted
    #[arg(long)]
    pub(super) all: bool,
    /// First replace catalogs that offer deleted bundles by ones without them
    #[arg(long)]
    pub(super) update_catalogs: bool,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    /// Registry to delete from: docker://REGISTRY[/NAMESPACE], as in the mirror run
    #[arg(value_name = "DESTINATION", num_args = 0..)]
    destinations: Vec<String>,
    /// An image set configuration with a prune section, which selects what is deleted
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Keep what this image set configuration selects; without -c, delete all else that was mirrored; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) keep: Vec<PathBuf>,
    /// Do not keep what this configuration selects, although it was mirrored; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) ignore_configuration: Vec<PathBuf>,
    /// The workspace of the mirror runs [default: the current one, or the one that mirrored to this registry]
    #[arg(long, value_name = "file://DIR")]
    pub(super) workspace: Option<String>,
    /// Delete without confirmation
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Compare with the registry and report what would be deleted; change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Allow everything that was mirrored to be deleted
    #[arg(long)]
    pub(super) all: bool,
    /// Also remove deleted images from the workspace
    #[arg(long)]
    pub(super) force_cache_delete: bool,
    /// First replace catalogs that offer deleted bundles by ones without them
    #[arg(long)]
    pub(super) update_catalogs: bool,
    #[command(flatten)]
    pub(super) common: CommonArguments,
}

const LIST: &str =
    "oc-mirror delete --generate writes a list to working-dir/delete/delete-images.yaml";

impl DeleteArguments {
    pub(super) fn options(&self) -> Options {
        Options {
            dry_run: self.dry_run,
            force_cache_delete: self.force_cache_delete,
            update_catalogs: self.update_catalogs,
        }
    }

    /// Checks the flags of the first phase.
    pub(super) fn check_generate(&self) -> Result<Target, Refusal> {
        let mut problems = Vec::new();
        let target = target(&self.destinations, &mut problems);
        if self.config.is_none() {
            problems.push(
                Problem::new("--generate needs --config")
                    .with_hint("-c FILE names a DeleteImageSetConfiguration"),
            );
        }
        for (flag, given) in [
            ("--delete-yaml-file", self.delete_yaml_file.is_some()),
            ("--dry-run", self.dry_run),
            ("--force-cache-delete", self.force_cache_delete),
            ("--update-catalogs", self.update_catalogs),
        ] {
            if given {
                problems.push(Problem::new(format!(
                    "{flag} cannot be used together with --generate, which deletes nothing"
                )));
            }
        }
        match target {
            Some(target) if problems.is_empty() => Ok(target),
            _ => Err(Refusal::Usage(problems)),
        }
    }

    /// Checks the flags of the second phase; the list.
    pub(super) fn check_execute(&self) -> Result<(Target, PathBuf), Refusal> {
        let mut problems = Vec::new();
        let target = target(&self.destinations, &mut problems);
        for (flag, given) in [
            ("--config", self.config.is_some()),
            ("--delete-id", self.delete_id.is_some()),
            ("--delete-v1-images", self.delete_v1_images),
            ("--keep", !self.keep.is_empty()),
            ("--ignore-configuration", !self.ignore_configuration.is_empty()),
            ("--all", self.all),
        ] {
            if given {
                problems.push(Problem::new(format!("{flag} has an effect only with --generate")));
            }
        }
        let list = match &self.delete_yaml_file {
            Some(list) if !list.as_os_str().is_empty() => Some(list.clone()),
            _ => {
                problems.push(
                    Problem::new("--delete-yaml-file is mandatory without --generate")
                        .with_hint(LIST),
                );
                None
            }
        };
        match (target, list) {
            (Some(target), Some(list)) if problems.is_empty() => Ok((target, list)),
            _ => Err(Refusal::Usage(problems)),
        }
    }
}

impl PruneArguments {
    pub(super) fn options(&self) -> Options {
        Options {
            dry_run: self.dry_run,
            force_cache_delete: self.force_cache_delete,
            update_catalogs: self.update_catalogs,
        }
    }

    pub(super) fn check(&self) -> Result<Target, Refusal> {
        let mut problems = Vec::new();
        let target = target(&self.destinations, &mut problems);
        if self.config.is_none() && self.keep.is_empty() {
            problems.push(
                Problem::new("nothing to delete was given: expected -c FILE or --keep FILE")
                    .with_hint("-c names a file with a prune section; --keep names what stays"),
            );
        }
        match target {
            Some(target) if problems.is_empty() => Ok(target),
            _ => Err(Refusal::Usage(problems)),
        }
    }
}

/// The one destination, which must be a registry.
fn target(destinations: &[String], problems: &mut Vec<Problem>) -> Option<Target> {
    let problem = match destinations {
        [text] if text.starts_with("docker://") => match text.parse() {
            Ok(target) => return Some(target),
            Err(error) => Problem::new(chain(&error)),
        },
        [text] => Problem::new(format!(
            "the destination {text:?} is not a registry: expected docker://REGISTRY[/NAMESPACE]"
        )),
        [] => Problem::new("no destination was given: expected docker://REGISTRY[/NAMESPACE]"),
        [_, ..] => Problem::new(format!(
            "expected one destination, found {}: {}",
            destinations.len(),
            destinations.join(" ")
        )),
    };
    problems.push(problem);
    None
}
