//! The files of a deletion, below `working-dir/delete`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use delete_plan::{ImageList, Reasons};
use mirror::PlannedDeletion;
use mirror_plan::{Destination, Target};
use oci::Digest;
use workspace::Workspace;
use workspace::atomic_file::{self, Durability};

use super::Refusal;
use crate::problem::{Problem, chain};

/// A million items of the longest names.
const MAX_BYTES: u64 = 512 << 20;

/// Where a plan is written.
pub(super) struct DeleteFiles {
    pub(super) list: PathBuf,
    pub(super) configuration: PathBuf,
    pub(super) reasons: PathBuf,
}

/// A list that was read and checked.
pub(super) struct Listed {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) list: ImageList,
    pub(super) expected: BTreeMap<Destination, Digest>,
    pub(super) reasons: BTreeMap<Destination, String>,
}

impl DeleteFiles {
    /// The files for an ID.
    pub(super) fn new(workspace: &Path, id: Option<&str>) -> Result<Self, Refusal> {
        let suffix = match id.filter(|id| !id.is_empty()) {
            None => String::new(),
            Some(id) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
                if !id.chars().all(plain) || id.starts_with('.') || id.len() > 64 {
                    let message = format!(
                        "invalid value for --delete-id: expected letters, digits, '-', '_' and '.', found {id:?}"
                    );
                    return Err(Problem::new(message).into());
                }
                format!("-{id}")
            }
        };
        let directory = Workspace::open(workspace).working_dir().join("delete");
        let name = |stem: &str| directory.join(format!("{stem}{suffix}.yaml"));
        Ok(Self {
            list: name("delete-images"),
            configuration: name("delete-imageset-config"),
            reasons: name("delete-reasons"),
        })
    }

    /// Writes the plan.
    pub(super) fn write(&self, planned: &PlannedDeletion, request: &str) -> Result<(), Refusal> {
        let problem = |what: &Path, why: String| {
            Refusal::from(Problem::new(format!("writing {}: {why}", what.display())))
        };
        let list = planned.list.to_yaml().map_err(|e| problem(&self.list, e.to_string()))?;
        let reasons =
            planned.reasons.to_yaml().map_err(|e| problem(&self.reasons, e.to_string()))?;
        // The list comes last: with it the plan is complete.
        for (path, text) in [
            (&self.configuration, request),
            (&self.reasons, reasons.as_str()),
            (&self.list, list.as_str()),
        ] {
            atomic_file::write(path, text.as_bytes(), Durability::Later)
                .map_err(|error| Refusal::from(Problem::new(chain(&error))))?;
        }
        Ok(())
    }
}

/// Reads a list and what explains it, and checks that it is for `target`.
pub(super) fn read(
    path: &Path,
    target: &Target,
    max_nested_paths: Option<NonZeroUsize>,
) -> Result<Listed, Refusal> {
    let problem = |why: String| Problem::new(format!("{}: {why}", path.display()));
    let text = read_text(path)
        .map_err(|error| Problem::new(format!("reading {}: {error}", path.display())))?;
    let list = ImageList::parse(&text).map_err(|error| problem(chain(&error)))?;
    list.check(target, max_nested_paths).map_err(|error| {
        problem(chain(&error))
            .with_hint("nothing was deleted; write a new list with `oc-mirror delete --generate`")
    })?;
    if list.images.is_empty() {
        return Err(problem("the list is empty: there is nothing to delete".to_owned()).into());
    }
    let mut listed = Listed {
        path: path.to_owned(),
        text,
        list,
        expected: BTreeMap::new(),
        reasons: BTreeMap::new(),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let explained = path.with_file_name(name.replacen("delete-images", "delete-reasons", 1));
    if explained == *path {
        return Ok(listed);
    }
    let Ok(text) = read_text(&explained) else { return Ok(listed) };
    match Reasons::parse(&text) {
        Ok(reasons) if reasons.target == *target => {
            listed.expected = reasons.digests();
            let lines = reasons.items.into_iter().map(|item| (item.image, item.reason));
            listed.reasons = lines.collect();
        }
        Ok(_) => tracing::warn!("{} is for another target, and not used", explained.display()),
        Err(error) => tracing::warn!("{} is not used: {}", explained.display(), chain(&error)),
    }
    Ok(listed)
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_BYTES {
        return Err(std::io::Error::other("it is too large for a list of images"));
    }
    Ok(text)
}
