//! Uploads that were begun: what another process needs to continue them.

use std::fmt;

use oci::Digest;
use url::Url;

use crate::location::Location;

/// Remembers uploads of large blobs until they end, beyond the end of the process.
///
/// Addresses of uploads may contain what lets others write to them: keep them from other users.
pub trait UploadLog: fmt::Debug + Send + Sync {
    /// The address of an upload that was begun and did not end.
    fn find(&self, to: &Location, digest: &Digest) -> Option<Url>;

    fn begin(&self, to: &Location, digest: &Digest, url: &Url);

    /// It ended, or cannot be continued.
    fn end(&self, to: &Location, digest: &Digest);
}
