//! Where releases and catalogs are looked up without mirroring anything.

use std::path::Path;

use registry::Client;
use workspace::archive::{Archives, OpenError};
use workspace::{Holdings, Workspace};

/// Where a lookup reads.
#[derive(Debug)]
pub(crate) enum LookupSource {
    /// At registries and update services, by requests.
    Registries(Client),
    /// In archives or a workspace, without requests.
    Transferred(Box<Holdings>),
}

impl LookupSource {
    /// Reads archives or a workspace. A directory without archives is a workspace only.
    pub(crate) fn transferred(directory: &Path) -> Result<Self, OpenError> {
        let workspace = Workspace::open(directory);
        let archives = match Archives::open(directory) {
            Ok(archives) => Some(archives),
            Err(OpenError::None(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Self::Transferred(Box::new(Holdings::new(Some(workspace), archives))))
    }
}
