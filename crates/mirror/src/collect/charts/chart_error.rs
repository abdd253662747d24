//! Why a chart, or the images of it, cannot be mirrored.

use std::sync::Arc;

use helm::repository::SelectError;
use helm::version::VersionError;
use mirror_plan::{Destination, NameError};

use super::carried::CarriedChartError;
use super::chart_image::ChartImageError;
use super::local::LocalError;
use super::of_oc_mirror_v2::V2ChartError;
use super::render::{RenderError, ValuesFileError};
use super::repository::RepositoryError;
use crate::fault::{EngineError, Fault};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChartError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The index of a repository, which several charts are selected from.
    #[error(transparent)]
    Index(#[from] Arc<RepositoryError>),
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Carried(#[from] CarriedChartError),
    #[error(transparent)]
    OfV2(#[from] V2ChartError),
    #[error(transparent)]
    Values(#[from] ValuesFileError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Image(#[from] ChartImageError),
    #[error("{other} is stored as {place}, and only one chart can be")]
    SameName { other: String, place: Destination },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error("expected the version {expected:?}, found {found:?}")]
    OtherVersion { expected: String, found: String },
}

impl EngineError for ChartError {
    fn fault(&self) -> Fault {
        match self {
            Self::Repository(error) => error.fault(),
            Self::Index(error) => error.fault(),
            Self::Local(error) => error.fault(),
            Self::Carried(error) => error.fault(),
            Self::OfV2(error) => error.fault(),
            Self::Image(ChartImageError::Store(error)) => Fault::of_store(error),
            Self::Render(RenderError::Thread(_) | RenderError::Stopped) => Fault::Disk,
            Self::Render(RenderError::Discover(_) | RenderError::Time(_)) | Self::Image(_) => {
                Fault::Content
            }
            Self::Select(_)
            | Self::Values(_)
            | Self::SameName { .. }
            | Self::Name(_)
            | Self::Version(_)
            | Self::OtherVersion { .. } => Fault::Configuration,
        }
    }

    fn request(&self) -> Option<&registry::Error> {
        match self {
            Self::Repository(error) => error.request(),
            Self::Index(error) => error.request(),
            _ => None,
        }
    }
}
