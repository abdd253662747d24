//! Which workspace mirrored to a registry, where the command line does not name it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use mirror_plan::Target;
use oci::RegistryHost;
use serde::{Deserialize, Serialize};
use workspace::atomic_file::{self, Durability};

use super::Refusal;
use crate::problem::Problem;
use crate::request::ProcessEnvironment;
use crate::route;

const WORKING_DIR: &str = "working-dir";

/// Workspaces that mirrored to each registry: `~/.local/state/oc-mirror/targets.json`.
#[derive(Default, Serialize, Deserialize)]
struct Known {
    version: u32,
    targets: BTreeMap<String, BTreeSet<PathBuf>>,
}

/// The workspace that is named; else the one the list is in, the current directory, or the one that
/// mirrored to the target.
pub(super) fn find(
    named: Option<&str>,
    list: Option<&Path>,
    target: &Target,
    process: &ProcessEnvironment,
) -> Result<PathBuf, Refusal> {
    if let Some(text) = named.filter(|text| !text.is_empty()) {
        let directory = route::workspace_directory(text)?;
        return match directory.is_dir() {
            true => Ok(directory),
            false => Err(Problem::new(format!(
                "--workspace names {}, which is not a directory",
                directory.display()
            ))
            .into()),
        };
    }
    if let Some(directory) = list.and_then(of_list) {
        return Ok(directory);
    }
    let here = PathBuf::from(".");
    if has_record(&here, &target.registry) {
        return Ok(here);
    }
    let known = known(process).targets.remove(target.registry.as_str()).unwrap_or_default();
    let known: Vec<PathBuf> =
        known.into_iter().filter(|dir| has_record(dir, &target.registry)).collect();
    match &known[..] {
        [only] => {
            tracing::info!("using the workspace {}, which mirrored to {target}", only.display());
            Ok(only.clone())
        }
        // A list of another tool needs no workspace; its log is kept here.
        [] if list.is_some() => Ok(here),
        [] => Err(Problem::new(format!("no workspace is known that mirrored to {target}"))
            .with_hint("give it with --workspace file://DIR, or run the command there")
            .into()),
        several => {
            let names: Vec<String> = several.iter().map(|dir| dir.display().to_string()).collect();
            Err(Problem::new(format!(
                "several workspaces mirrored to {target}: {}",
                names.join(", ")
            ))
            .with_hint("give one with --workspace file://DIR")
            .into())
        }
    }
}

/// The workspace that a list was written to.
fn of_list(list: &Path) -> Option<PathBuf> {
    let list = list.canonicalize().ok()?;
    let mut above = list.ancestors().skip(1);
    let working_dir = above.find(|dir| dir.file_name().is_some_and(|name| name == WORKING_DIR))?;
    working_dir.parent().map(Path::to_owned)
}

fn has_record(directory: &Path, registry: &RegistryHost) -> bool {
    let name = format!("{}.json", registry.as_str().replace(':', "_"));
    directory.join(WORKING_DIR).join("targets").join(name).is_file()
}

fn known(process: &ProcessEnvironment) -> Known {
    let read = process.state.as_ref().and_then(|state| fs::read(file(state)).ok());
    read.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn file(state: &Path) -> PathBuf {
    state.join("oc-mirror/targets.json")
}

/// Remembers that a workspace mirrored to a registry. Without it a user has to name the workspace,
/// so a failure is not worth more than a line in the log.
pub(crate) fn remember(process: &ProcessEnvironment, workspace: &Path, registry: &RegistryHost) {
    let (Some(state), Ok(workspace)) = (&process.state, workspace.canonicalize()) else {
        return;
    };
    let mut known = Known { version: 1, ..known(process) };
    if !known.targets.entry(registry.to_string()).or_default().insert(workspace) {
        return;
    }
    let written =
        serde_json::to_vec_pretty(&known).map_err(|error| error.to_string()).and_then(|text| {
            atomic_file::write(&file(state), &text, Durability::Later)
                .map_err(|error| crate::problem::chain(&error))
        });
    if let Err(why) = written {
        tracing::debug!("the workspace could not be remembered: {why}");
    }
}
