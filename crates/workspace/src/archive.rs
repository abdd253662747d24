//! Archives: what a run carries across the gap, in tar files of limited size.
//!
//! ```text
//! history × request ──plan──▶ index ──write──▶ mirror_000001.tar … ──open──▶ images, blobs
//! ```
//!
//! All digests and sizes are known before the first byte is written. So the
//! index, which lists where every blob is, is known too, and is first in
//! every chunk: each chunk lists what the others hold. `docs/archive-format.md`
//! describes the format.

mod copy;
mod delivered;
mod entry;
mod excerpt;
mod finding;
mod first_entry;
mod history;
mod index;
mod newest;
mod open;
mod pending;
mod plan;
mod prepare;
mod segments;
mod signature;
mod staging;
#[cfg(test)]
mod tests;
mod verify;
mod write;

pub use excerpt::{Excerpt, FileRanges, first_block, first_block_digest, head_length};
pub use finding::{ArchiveFinding, ArchiveSeverity};
pub use history::{Base, RemoveError, RemovedArchives, SealedRun};
pub(crate) use index::Hashing;
pub use index::{ArchiveStatus, BlobEntry, ChunkEntry, Index, IndexError, Part};
pub(crate) use open::RunArchive;
pub use open::{AbsentBlob, Archives, OpenError};
pub use prepare::{ArchiveError, ArchivePlan, ArchiveRequest, PlannedArchive};
pub use segments::SegmentError;
pub(crate) use staging::StagedBlob;
pub use staging::Staging;
pub use write::SealedArchive;
