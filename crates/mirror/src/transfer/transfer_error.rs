//! Why a transfer failed.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mirror_plan::BlobRef;
use oci::Digest;
use workspace::{BlobError, DiskError, RecordError};

use crate::error_chain::chain;
use crate::fault::{EngineError, Fault};
use crate::reason::{Reason, Remedy};
use crate::transfer::supply::{ManifestReadError, SupplyError};
use crate::transfer::verified_body::{BodyError, WrongContent};

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A blob that is written to the disk.
    Fetch(Digest),
    /// A blob that is copied to a registry.
    Copy(Digest),
    /// A blob that another repository of the target has.
    Mount(Digest),
    /// The record of a complete image.
    Record,
    /// The manifests of a complete image.
    Publish,
}

/// A transfer that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub(crate) struct TransferError {
    step: Step,
    #[source]
    cause: Box<Cause>,
}

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    #[error(transparent)]
    Source(#[from] SupplyError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Target(registry::Error),
    /// A manifest that must be pushed is not readable here.
    #[error(transparent)]
    Manifest(#[from] ManifestReadError),
    #[error(transparent)]
    Store(BlobError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("reading content that was kept for the upload")]
    ReadHere(#[source] io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("not done within {} s; raise --image-timeout", .0.as_secs_f32())]
    TimedOut(Duration),
}

/// Content that is not what was announced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentError {
    #[error(transparent)]
    Digest(#[from] WrongContent),
    #[error(transparent)]
    Store(BlobError),
    /// Another image's manifest has the size that the content really has.
    #[error("the manifest declares {declared} bytes, expected {actual}: the manifest is wrong")]
    Size { declared: u64, actual: u64 },
    #[error("{}: more than the declared {} bytes were sent", .0.digest, .0.size)]
    Long(BlobRef),
    #[error("the content does not match its manifest")]
    Other(#[source] BodyError),
}

impl Cause {
    /// Why a body that was being sent to a target failed, or the target's own refusal.
    pub(crate) fn of_upload(error: registry::Error) -> Self {
        match error {
            registry::Error::Body { source, .. } => Self::of_body(source),
            error => Self::Target(error),
        }
    }

    /// Why reading from a source failed.
    pub(crate) fn of_body(error: BodyError) -> Self {
        let error = match error.downcast::<SupplyError>() {
            Ok(error) => return Self::Source(*error),
            Err(error) => error,
        };
        let error = match error.downcast::<registry::Error>() {
            Ok(error) => return Self::Source(SupplyError::Registry(*error)),
            Err(error) => error,
        };
        let error = match error.downcast::<BlobError>() {
            Ok(error) => return Self::of_store(*error),
            Err(error) => error,
        };
        let error = match error.downcast::<io::Error>() {
            Ok(error) => return Self::ReadHere(*error),
            Err(error) => error,
        };
        match error.downcast::<WrongContent>() {
            Ok(error) => Self::Content((*error).into()),
            Err(error) => Self::Content(ContentError::Other(error)),
        }
    }

    /// Why the blob store did not take what a source sent.
    pub(crate) fn of_store(error: BlobError) -> Self {
        match Fault::of_store(&error) {
            Fault::Content => Self::Content(ContentError::Store(error)),
            _ => Self::Store(error),
        }
    }

    /// Whether the same content is worth requesting from the same source again: it arrived and
    /// did not match.
    pub(crate) fn is_wrong_content(&self) -> bool {
        matches!(self, Self::Content(_))
    }

    /// Whether the first part came from an earlier run, and may be what is wrong.
    pub(crate) fn is_resumed(&self) -> bool {
        let store = |error: &BlobError| matches!(error, BlobError::Mismatch { resumed: true, .. });
        matches!(self, Self::Content(ContentError::Store(error)) if store(error))
    }

    fn fault(&self) -> Fault {
        use registry::Error;
        match self {
            Self::Source(error) => error.fault(),
            Self::Store(_) | Self::Disk(_) | Self::ReadHere(_) | Self::Record(_) => Fault::Disk,
            Self::Content(_) => Fault::Content,
            Self::Manifest(error) => error.fault(),
            Self::Target(error) => match error.last() {
                Error::Transport { .. } | Error::Timeout { .. } => Fault::TargetUnreachable,
                _ => Fault::TargetRefuses,
            },
            Self::TimedOut(_) => Fault::TimedOut,
        }
    }
}

impl TransferError {
    pub(crate) fn new(step: Step, cause: impl Into<Cause>) -> Self {
        Self { step, cause: Box::new(cause.into()) }
    }

    /// Whether the same content from elsewhere may succeed.
    pub(crate) fn another_source_can_help(&self) -> bool {
        self.fault().another_source_can_help()
    }

    /// Whether the same request may succeed later: the host fails, not this content.
    pub(crate) fn a_later_attempt_can_help(&self) -> bool {
        match &*self.cause {
            Cause::TimedOut(_) => true,
            _ => self.request().is_some_and(registry::Error::is_retryable),
        }
    }
}

impl EngineError for TransferError {
    fn fault(&self) -> Fault {
        self.cause.fault()
    }

    fn request(&self) -> Option<&registry::Error> {
        match &*self.cause {
            Cause::Source(SupplyError::Registry(error)) | Cause::Target(error) => Some(error),
            _ => None,
        }
    }

    fn remedy(&self) -> Remedy {
        match (&*self.cause, self.request()) {
            (_, Some(error)) => Remedy::of(error),
            // What was changed in transit may arrive unchanged next time.
            (
                Cause::Content(
                    ContentError::Digest(_) | ContentError::Store(BlobError::Mismatch { .. }),
                )
                | Cause::TimedOut(_),
                None,
            ) => Remedy::RunAgain,
            _ => Remedy::Unknown,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(digest) => write!(f, "fetching the blob {digest}"),
            Self::Copy(digest) => write!(f, "copying the blob {digest}"),
            Self::Mount(digest) => write!(f, "mounting the blob {digest}"),
            Self::Record => f.write_str("recording the image"),
            Self::Publish => f.write_str("pushing the manifests"),
        }
    }
}

/// Why an image cannot be completed.
#[derive(Debug, Clone)]
pub(crate) struct ImageError {
    error: Arc<TransferError>,
    /// How many sources did not supply the content.
    sources: usize,
}

impl ImageError {
    pub(crate) fn new(error: Arc<TransferError>, sources: usize) -> Self {
        Self { error, sources }
    }

    /// Whether a last attempt in the same run has a chance.
    pub(crate) fn may_pass_soon(&self) -> bool {
        self.error.may_pass_soon()
    }

    pub(crate) fn reason(&self) -> Reason {
        Reason::new(self.to_string(), self.error.remedy())
    }

    #[cfg(test)]
    pub(crate) fn fault(&self) -> Fault {
        self.error.fault()
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(&*self.error))?;
        match self.sources {
            0 | 1 => Ok(()),
            tried => write!(f, " (none of the {tried} repositories with this blob supplied it)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(cause: impl Into<Cause>) -> TransferError {
        TransferError::new(Step::Fetch(Digest::of(b"x")), cause)
    }

    #[test]
    fn the_text_has_each_cause_once() {
        let missing = error(SupplyError::Missing(Digest::of(b"x")));
        let digest = Digest::of(b"x");
        assert_eq!(
            chain(&missing),
            format!(
                "fetching the blob {digest}: {digest} is neither in the workspace nor in an archive here"
            )
        );
    }

    #[test]
    fn another_source_helps_against_sources_and_not_against_targets_or_disks() {
        let digest = Digest::of(b"x");
        let absent = SupplyError::Registry(registry::Error::Absent { place: "q.io/a".into() });
        let refused = Cause::Target(registry::Error::Absent { place: "r.io/a".into() });
        let wrong = ContentError::Digest(WrongContent { want: digest, got: digest });
        let busy = Cause::of_store(BlobError::Busy { digest });
        for (error, fault, helps) in [
            (error(absent), Fault::SourceAbsent, true),
            (error(wrong), Fault::Content, true),
            (error(Cause::TimedOut(Duration::from_secs(1))), Fault::TimedOut, true),
            (error(refused), Fault::TargetRefuses, false),
            (error(busy), Fault::Disk, false),
        ] {
            assert_eq!((error.fault(), error.another_source_can_help()), (fault, helps), "{error}");
        }
    }

    #[test]
    fn what_failed_while_it_was_sent_is_the_fault_of_its_source() {
        let absent = registry::Error::Absent { place: "q.io/a".into() };
        let cause = Cause::of_body(Box::new(SupplyError::Registry(absent)));
        assert_eq!(cause.fault(), Fault::SourceAbsent);
        let cause = Cause::of_body("anything else".into());
        assert_eq!(cause.fault(), Fault::Content);
    }
}
