//! The plan: what a run copies, as a value that can be printed, saved and
//! executed later, on the other side of an air gap.

use std::collections::BTreeMap;
use std::fmt;

use oci::Digest;
use serde::{Deserialize, Serialize};

use crate::{BlobRef, Destination, ImageTree, Kind, Origin, Target, Wanted};

mod mapping;
mod seal;
mod table;
mod tree;

pub use mapping::Lines;
pub use seal::{SealError, Sealing, unseal};
pub use table::size_text;
pub use tree::{BlobIndex, PlannedAttachment, PlannedManifest, PlannedTree};

/// The kind of a plan's JSON.
const SCHEMA: &str = "oc-mirror/plan";
/// Raised when a reader of the old form would misread the new.
const VERSION: u32 = 1;

/// What a run does: between which places it moves images, or that it deletes some. Plans, run
/// records, journals and reports name it alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    MirrorToDisk,
    DiskToMirror,
    MirrorToMirror,
    /// Nothing is copied, so there is no plan of this mode.
    Delete,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::MirrorToDisk => "mirrorToDisk",
            Self::DiskToMirror => "diskToMirror",
            Self::MirrorToMirror => "mirrorToMirror",
            Self::Delete => "delete",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a run copies.
///
/// # Guarantees
///
/// - Images are in the order of kind, name and origin, blobs in that of their digests, whatever order
///   they were found in.
/// - Each blob is listed once. Images refer to blobs of the list only; a document that does not
///   satisfy this is rejected with [`PlanError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    schema: String,
    version: u32,
    pub mode: Mode,
    /// The registry images go to; none when they go to a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    pub totals: Totals,
    pub images: Vec<PlannedImage>,
    /// Every blob of every image once; images refer to it by place, since a
    /// large mirror names each base layer thousands of times.
    pub blobs: Vec<PlannedBlob>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedImage {
    pub origin: Origin,
    /// Below the target's registry, its namespace included.
    pub destination: Destination,
    pub kind: Kind,
    pub action: Action,
    pub tree: PlannedTree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    Copy,
    /// The destination has it already, complete.
    Present,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBlob {
    #[serde(flatten)]
    pub blob: BlobRef,
    /// Whether the destination is known to have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
}

/// Sums over a plan. Blobs count once, however many images share them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub images: usize,
    pub images_to_copy: usize,
    pub blobs: usize,
    pub blobs_to_move: usize,
    pub bytes: u64,
    pub bytes_to_move: u64,
}

/// Between which places, and to which registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direction {
    pub mode: Mode,
    pub target: Option<Target>,
}

/// An image that was requested and found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub wanted: Wanted,
    pub destination: Destination,
    pub tree: ImageTree,
}

/// What the destination holds: a registry, or a workspace. What is not known to be
/// held counts as not held; copying it again is harmless.
pub trait Held {
    /// The manifest kept whole for this image under this name.
    fn image(&self, origin: &Origin, destination: &Destination) -> Option<Digest>;

    /// Whether this blob or attached manifest is held, anywhere.
    fn content(&self, digest: &Digest) -> bool;
}

/// A destination that holds nothing yet.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

impl Held for Nothing {
    fn image(&self, _: &Origin, _: &Destination) -> Option<Digest> {
        None
    }

    fn content(&self, _: &Digest) -> bool {
        false
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("the plan cannot be read as JSON")]
    Json(#[source] serde_json::Error),
    #[error("the plan cannot be written as JSON")]
    Write(#[source] serde_json::Error),
    #[error(
        "expected a document of the schema {SCHEMA:?} version {VERSION}, found {schema:?} version {version}"
    )]
    Schema { schema: String, version: u32 },
    #[error("the plan is damaged: {0} has no manifest")]
    NoManifest(Origin),
    #[error("the plan is damaged: {origin} refers to blob {index}, which is not listed")]
    NoBlob { origin: Origin, index: u32 },
}

/// Decides what to copy. Reads nothing and writes nothing: a dry run shows the
/// plan that a run would execute.
///
/// Trees are taken one by one and kept in a compact form, so that `found` may
/// be made lazily for a mirror of any size.
///
/// # Guarantees
///
/// - The same images and the same `held` give the same plan, in any order of `found`.
/// - Each blob is listed once, however many images need it.
/// - An image is marked as present only if its manifest and everything attached to it are held.
///   What is not known to be held is copied.
pub fn plan(
    direction: Direction,
    found: impl IntoIterator<Item = Found>,
    held: &impl Held,
) -> Plan {
    let found = found.into_iter();
    let mut images = Vec::with_capacity(found.size_hint().0);
    let mut blobs = BlobTable::default();
    for Found { wanted, destination, tree } in found {
        let action = action(&wanted.origin, &destination, &tree, held);
        images.push(PlannedImage {
            tree: PlannedTree::new(tree, |blob| blobs.place(blob, action, held)),
            origin: wanted.origin,
            destination,
            kind: wanted.kind,
            action,
        });
    }
    let blobs = blobs.sorted(&mut images);
    images.sort_by(|a, b| {
        (a.kind, &a.destination, &a.origin).cmp(&(b.kind, &b.destination, &b.origin))
    });
    let totals = Totals::of(&images, &blobs);
    let Direction { mode, target } = direction;
    Plan { schema: SCHEMA.into(), version: VERSION, mode, target, totals, images, blobs }
}

/// An image is present when its own manifest is, and all that is attached: a
/// signature that was made since the last run must still be copied.
fn action(
    origin: &Origin,
    destination: &Destination,
    tree: &ImageTree,
    held: &impl Held,
) -> Action {
    let own = held.image(origin, destination) == Some(tree.root().digest);
    let mut attached = tree.attachments.iter().flat_map(|attachment| &attachment.manifests);
    if own && attached.all(|manifest| held.content(&manifest.digest)) {
        Action::Present
    } else {
        Action::Copy
    }
}

/// Blobs by digest and size, numbered in the order of their first use. Two sizes for one
/// digest are two entries: a manifest with a wrong size must not affect the
/// one with the right size.
#[derive(Default)]
struct BlobTable(BTreeMap<BlobRef, TableEntry>);

struct TableEntry {
    index: BlobIndex,
    held: bool,
}

impl BlobTable {
    fn place(&mut self, blob: BlobRef, action: Action, held: &impl Held) -> BlobIndex {
        let next = BlobIndex::new(self.0.len());
        let met = self
            .0
            .entry(blob)
            .or_insert_with(|| TableEntry { index: next, held: held.content(&blob.digest) });
        met.held |= action == Action::Present;
        met.index
    }

    /// The blobs in order of digest, with the positions in `images` updated.
    fn sorted(self, images: &mut [PlannedImage]) -> Vec<PlannedBlob> {
        let mut moved = vec![BlobIndex::new(0); self.0.len()];
        for (now, met) in self.0.values().enumerate() {
            moved[met.index.get()] = BlobIndex::new(now);
        }
        for index in images.iter_mut().flat_map(|image| image.tree.blob_indexes_mut()) {
            *index = moved[index.get()];
        }
        self.0.into_iter().map(|(blob, met)| PlannedBlob { blob, held: met.held }).collect()
    }
}

impl Totals {
    fn of(images: &[PlannedImage], blobs: &[PlannedBlob]) -> Self {
        // Sizes are claims of manifests; a sum of wrong ones may overflow.
        let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
        let to_move = || blobs.iter().filter(|blob| !blob.held);
        Self {
            images: images.len(),
            images_to_copy: images.iter().filter(|i| i.action == Action::Copy).count(),
            blobs: blobs.len(),
            blobs_to_move: to_move().count(),
            bytes: sum(&mut blobs.iter().map(|blob| blob.blob.size)),
            bytes_to_move: sum(&mut to_move().map(|blob| blob.blob.size)),
        }
    }
}

impl Plan {
    /// The images that a run copies.
    pub fn copies(&self) -> impl Iterator<Item = &PlannedImage> {
        self.images.iter().filter(|image| image.action == Action::Copy)
    }

    /// The images of this plan, as they were found.
    pub fn found(&self) -> impl Iterator<Item = Found> {
        self.images.iter().map(|image| Found {
            wanted: Wanted {
                kind: image.kind,
                origin: image.origin.clone(),
                target_repository: None,
                target_tag: None,
                platforms: Vec::new(),
            },
            destination: image.destination.clone(),
            tree: self.tree(image),
        })
    }

    /// An image of this plan, with its blobs written out.
    ///
    /// # Panics
    ///
    /// If `image` is not of this plan and refers to a blob that this plan does not list.
    pub fn tree(&self, image: &PlannedImage) -> ImageTree {
        image.tree.expanded(|index| self.blobs[index.get()].blob)
    }

    /// Indented, with a newline at the end; the same plan gives the same text.
    ///
    /// # Errors
    ///
    /// [`PlanError::Write`] if the plan cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, PlanError> {
        let mut text = serde_json::to_string_pretty(self).map_err(PlanError::Write)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads what [`Plan::to_json`] wrote, and checks that it is consistent.
    ///
    /// # Errors
    ///
    /// The text is not JSON, has another schema or version, or is damaged: an image has no
    /// manifest, or refers to a blob that is not listed.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        #[derive(Deserialize)]
        struct Header {
            schema: String,
            version: u32,
        }
        let Header { schema, version } = serde_json::from_str(text).map_err(PlanError::Json)?;
        if (schema.as_str(), version) != (SCHEMA, VERSION) {
            return Err(PlanError::Schema { schema, version });
        }
        let plan: Self = serde_json::from_str(text).map_err(PlanError::Json)?;
        for image in &plan.images {
            if image.tree.is_hollow() {
                return Err(PlanError::NoManifest(image.origin.clone()));
            }
            let stray = |index: &&BlobIndex| index.get() >= plan.blobs.len();
            if let Some(index) = image.tree.blob_indexes().find(stray) {
                let (origin, index) = (image.origin.clone(), index.0);
                return Err(PlanError::NoBlob { origin, index });
            }
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;
