//! What a deletion would remove and keep, from the plan that `oc-mirror delete --generate` wrote.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use delete_plan::{ImageList, Reasons};
use oci::Digest;
use workspace::Workspace;

use super::paging::{Page, matches};
use super::{Fault, chain};
use crate::action::DELETE_ID;

/// As large as lists of half a million images.
const MAX_BYTES: u64 = 128 << 20;

/// A plan to confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preview {
    pub(crate) list: PathBuf,
    /// Of the list: what is confirmed is what is deleted.
    pub(crate) digest: Digest,
    pub(crate) target: String,
    pub(crate) items: Page<PreviewRow>,
    pub(crate) kept: Page<PreviewRow>,
    pub(crate) images: usize,
    pub(crate) bytes: u64,
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreviewRow {
    pub(crate) image: String,
    pub(crate) reason: String,
    pub(crate) bytes: Option<u64>,
    /// Images with the same manifest that stay: only the tag is deleted.
    pub(crate) shared_with: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PreviewQuery {
    pub(crate) words: String,
    pub(crate) page: usize,
    pub(crate) kept_page: usize,
}

/// Where the list of the console is.
pub(crate) fn list_path(workspace: &Workspace) -> PathBuf {
    workspace.working_dir().join("delete").join(format!("delete-images-{DELETE_ID}.yaml"))
}

/// Reads the plan; `None` if there is none.
pub(crate) fn read(workspace: &Workspace, query: &PreviewQuery) -> Result<Option<Preview>, Fault> {
    let list_path = list_path(workspace);
    let failed =
        |path: &Path, why: String| Fault::Failed(format!("reading {}: {why}", path.display()));
    let text = match read_text(&list_path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&list_path, error.to_string())),
    };
    let list = ImageList::parse(&text).map_err(|error| failed(&list_path, chain(&error)))?;
    let path = list_path.with_file_name(format!("delete-reasons-{DELETE_ID}.yaml"));
    let reasons = read_text(&path).map_err(|error| failed(&path, error.to_string()))?;
    let reasons = Reasons::parse(&reasons).map_err(|error| failed(&path, chain(&error)))?;
    let digest = Digest::of(text.as_bytes());
    Ok(Some(preview(list_path, digest, list.images.len(), &reasons, query)))
}

fn preview(
    list: PathBuf,
    digest: Digest,
    images: usize,
    reasons: &Reasons,
    query: &PreviewQuery,
) -> Preview {
    let item = |item: &delete_plan::ItemReason| PreviewRow {
        image: item.image.to_string(),
        reason: item.reason.clone(),
        bytes: Some(item.bytes),
        shared_with: item.shared_with.iter().map(ToString::to_string).collect(),
    };
    let kept = |kept: &delete_plan::KeptReason| PreviewRow {
        image: kept.image.to_string(),
        reason: kept.reason.clone(),
        bytes: None,
        shared_with: Vec::new(),
    };
    let found = |row: &PreviewRow| matches(&format!("{} {}", row.image, row.reason), &query.words);
    let items = reasons.items.iter().map(item).filter(found).collect();
    let kept_rows = reasons.kept.iter().map(kept).filter(found).collect();
    Preview {
        list,
        digest,
        target: reasons.target.to_string(),
        items: Page::of(items, query.page),
        kept: Page::of(kept_rows, query.kept_page),
        images,
        bytes: reasons.items.iter().map(|item| item.bytes).sum(),
        warnings: reasons.warnings.clone(),
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
