//! What is at fault for an error of the engine, and what can help against it. Errors become text at
//! the edge: in the report, where each is a [`Reason`].

use std::error::Error;

use workspace::{BlobError, DocumentError};

use crate::error_chain::chain;
use crate::reason::{Reason, Remedy};

/// What is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The source does not have the content.
    SourceAbsent,
    /// The source has it or may have it, and refuses it.
    SourceRefuses,
    /// What the source sent is not what its digest, its manifest or its format requires.
    Content,
    /// Neither the workspace nor an archive here has the content.
    NotHeld,
    /// The trust policy, or the signature of a release, rejects it.
    Policy,
    /// The configuration, or a file that it names.
    Configuration,
    /// One repository of the target does not accept the content.
    TargetRefuses,
    /// The target does not respond at all, for this repository or any other.
    TargetUnreachable,
    /// The disk of this machine.
    Disk,
    /// The time limit of the run.
    TimedOut,
    /// The run was interrupted.
    Cancelled,
}

impl Fault {
    /// What is at fault for an error of a registry or web server that is read from.
    pub(crate) fn of_source(error: &registry::Error) -> Self {
        use registry::Error;
        match error.last() {
            Error::Absent { .. } => Self::SourceAbsent,
            Error::Everywhere { tried, .. } if tried.iter().all(is_absent) => Self::SourceAbsent,
            Error::Length { .. } | Error::Digest { .. } | Error::Manifest { .. } => Self::Content,
            _ => Self::SourceRefuses,
        }
    }

    /// What is at fault if the store does not take what a source sent.
    pub(crate) fn of_store(error: &BlobError) -> Self {
        match error {
            BlobError::Mismatch { .. } | BlobError::Long { .. } | BlobError::Short { .. } => {
                Self::Content
            }
            BlobError::Busy { .. } | BlobError::Disk(_) => Self::Disk,
        }
    }

    /// What is at fault if a document cannot be read or kept.
    pub(crate) fn of_document(error: &DocumentError) -> Self {
        match error {
            DocumentError::Absent { .. } => Self::NotHeld,
            DocumentError::Name(_)
            | DocumentError::Large { .. }
            | DocumentError::Damaged { .. } => Self::Content,
            DocumentError::Store { source, .. } => Self::of_store(source),
            DocumentError::Disk(_) => Self::Disk,
        }
    }

    /// Whether the same content from another source may succeed.
    pub(crate) fn another_source_can_help(self) -> bool {
        match self {
            Self::SourceAbsent
            | Self::SourceRefuses
            | Self::Content
            | Self::NotHeld
            | Self::TimedOut => true,
            Self::Policy
            | Self::Configuration
            | Self::TargetRefuses
            | Self::TargetUnreachable
            | Self::Disk
            | Self::Cancelled => false,
        }
    }
}

fn is_absent(error: &registry::Error) -> bool {
    matches!(error, registry::Error::Absent { .. })
}

/// An error of the engine.
pub(crate) trait EngineError: Error + Sized + 'static {
    fn fault(&self) -> Fault;

    /// The failed request that caused it.
    fn request(&self) -> Option<&registry::Error> {
        None
    }

    /// What helps against it.
    fn remedy(&self) -> Remedy {
        match (self.request(), self.fault()) {
            (Some(error), _) => Remedy::of(error),
            (None, Fault::SourceAbsent) => Remedy::CheckName,
            (None, _) => Remedy::Unknown,
        }
    }

    /// Whether another attempt in the same run has a chance.
    fn may_pass_soon(&self) -> bool {
        self.request().is_some_and(registry::Error::may_pass_soon)
    }

    /// The error with its causes, for the report.
    fn reason(&self) -> Reason {
        Reason::new(chain(self), self.remedy())
    }
}

impl EngineError for registry::Error {
    fn fault(&self) -> Fault {
        Fault::of_source(self)
    }

    fn request(&self) -> Option<&registry::Error> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("reading x")]
    struct Reading(#[source] registry::Error);

    impl EngineError for Reading {
        fn fault(&self) -> Fault {
            self.0.fault()
        }

        fn request(&self) -> Option<&registry::Error> {
            Some(&self.0)
        }
    }

    #[test]
    fn the_failed_request_decides_what_helps() {
        let absent = Reading(registry::Error::Absent { place: "q.io/a".into() });
        assert_eq!((absent.fault(), absent.remedy()), (Fault::SourceAbsent, Remedy::CheckName));
        assert!(absent.fault().another_source_can_help() && !absent.may_pass_soon());
        let timeout = registry::Error::Timeout {
            request_line: "GET https://q.io/v2/".into(),
            wait: registry::Wait::Response,
            route: registry::Route { proxy: None, contact: registry::Contact::Established },
            after: std::time::Duration::from_secs(30),
        };
        let timeout = Reading(timeout);
        assert_eq!(timeout.fault(), Fault::SourceRefuses);
        assert_eq!(timeout.reason().remedy, Remedy::RunAgain);
        assert!(timeout.may_pass_soon());
        assert!(timeout.reason().text.starts_with("reading x: "), "{}", timeout.reason());
    }

    #[test]
    fn no_source_helps_against_a_policy_or_a_full_disk() {
        for fault in [Fault::Policy, Fault::Disk, Fault::Configuration, Fault::Cancelled] {
            assert!(!fault.another_source_can_help(), "{fault:?}");
        }
    }
}
