//! The disk: everything below a user's `file://DIR`.
//!
//! ```text
//! DIR/mirror_000001.tar …      archives
//! DIR/blobs/sha256/<hex>       content, shared by all images; manifests too
//! DIR/blobs/partial/<hex>      unfinished downloads
//! DIR/images/<host>/<repository>/_tags/<tag>/  and  …/_digests/sha256-<hex>[.<tag>]/
//!                              one OCI layout per image, with its record
//! DIR/releases-cache/<release>/  and  DIR/release-images/<release>/<component>/
//!                              releases as users search for them
//! DIR/operator-index-cache/<catalog>/<tag-platform>/configs/  and
//! DIR/operator-images/<package>/<bundle>/<image>/
//!                              operators as users search for them
//! DIR/working-dir/             logs, run records, documents, generated files
//! ```
//!
//! Synchronous throughout: async callers use blocking threads.
//! Names become visible when their content is complete, so a reader needs no
//! lock; a writer holds the one [`Lock`].

pub mod archive;
pub mod atomic_file;
mod audit;
mod blob_reader;
mod blobs;
mod control;
mod direct_io;
mod disk_error;
pub mod distribution;
mod documents;
mod durability;
mod free_space;
mod gc;
mod generated;
mod holdings;
mod identity;
mod image_directory;
mod journal;
mod layout;
mod lock;
mod merge;
mod operator_layout;
mod partial_blob;
mod records;
mod redact;
mod release_layout;
mod run_progress;
mod runs;
#[cfg(test)]
mod sample;
mod verify;
mod workers;
mod workspace;

pub use audit::{AuditedDeletion, AuditedImage, AuditedOutcome};
pub use blob_reader::BlobReader;
pub use blobs::{Adopted, BlobError, BlobStore};
pub use control::{ControlError, ControlRequest, ControlSocket, ControlState, Controlled};
pub use disk_error::DiskError;
pub use documents::{Document, DocumentError, MAX_DOCUMENT_BYTES};
pub use durability::Recovery;
pub use free_space::{Filesystem, filesystem, free_space};
pub use gc::{GarbageError, GarbagePlan};
pub use generated::replace_generated;
pub use holdings::Holdings;
pub use identity::{WorkspaceId, WorkspaceIdError};
pub use image_directory::ImageDirectory;
pub use journal::{Journal, JournalError, JournalEvent, JournalLine, JournalReader, RunOrigin};
pub use lock::{Holder, Lock, LockError};
pub use partial_blob::PartialBlob;
pub use records::{RecordError, Records};
pub use redact::{redact_arguments, redact_urls};
pub use run_progress::RunProgress;
pub use runs::{FailedImage, RecordedFile, Run, RunHistory, RunRecord, RunStart, RunStatus};
pub use verify::{Damage, DamagedBlob, Need, Verification, VerifyError};
pub use workspace::Workspace;
