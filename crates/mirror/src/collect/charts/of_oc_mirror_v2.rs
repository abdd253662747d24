//! Charts in archives of oc-mirror v2. Those have the packed charts and no list of images, so that
//! charts are rendered here, as oc-mirror v2 does on the disconnected side.

use std::io;

use helm::chart::{Chart, ChartError};
use workspace::Holdings;

use super::repository::{Fetched, Packed};
use crate::fault::{EngineError, Fault};

/// Below `working-dir`.
const FOLDER: &str = "helm/charts/";

/// Why a chart in an archive of oc-mirror v2 cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum V2ChartError {
    #[error("the archive of oc-mirror v2 has several versions of it: set `version`")]
    Several,
    #[error("reading {name}")]
    Read { name: String, source: io::Error },
    #[error("reading {name}")]
    Chart { name: String, source: ChartError },
}

impl EngineError for V2ChartError {
    fn fault(&self) -> Fault {
        match self {
            Self::Several => Fault::Configuration,
            Self::Read { .. } => Fault::Disk,
            Self::Chart { .. } => Fault::Content,
        }
    }
}

/// The chart that the archive has for an entry of the configuration; `None` if it has none.
pub(super) fn read(
    holdings: &Holdings,
    chart: &image_set::Chart,
) -> Result<Option<Fetched>, V2ChartError> {
    let Some(distribution) = holdings.distribution() else { return Ok(None) };
    let names = distribution.document_names();
    let is_of_chart = |name: &&String| match &chart.version {
        Some(version) => {
            let version = version.trim_start_matches('v');
            let file = |v: &str| format!("{FOLDER}{}-{v}{version}.tgz", chart.name);
            **name == file("") || **name == file("v")
        }
        // The version starts with a digit: `web-1.0.0.tgz` is not a chart `web-api`.
        None => name.strip_prefix(&format!("{FOLDER}{}-", chart.name)).is_some_and(|rest| {
            rest.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
        }),
    };
    let found: Vec<&String> = names.iter().filter(is_of_chart).collect();
    let [name] = found[..] else {
        return match found.is_empty() {
            true => Ok(None),
            false => Err(V2ChartError::Several),
        };
    };
    let archive = distribution.document(name);
    let archive = archive.map_err(|source| V2ChartError::Read { name: name.clone(), source })?;
    let Some(archive) = archive else { return Ok(None) };
    let read = Chart::from_archive(&archive);
    let read = read.map_err(|source| V2ChartError::Chart { name: name.clone(), source })?;
    Ok(Some(Fetched { chart: read, packed: Packed::Here { archive, provenance: None } }))
}
