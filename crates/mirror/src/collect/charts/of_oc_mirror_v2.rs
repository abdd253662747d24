//! Charts in archives of oc-mirror v2. Those have the packed charts and no list of images, so that
//! charts are rendered here, as oc-mirror v2 does on the disconnected side.

use helm::chart::Chart;
use workspace::Holdings;

use super::repository::{Fetched, Packed};
use crate::error_chain::chain;

/// Below `working-dir`.
const FOLDER: &str = "helm/charts/";

/// The chart that the archive has for an entry of the configuration; `None` if it has none.
pub(super) fn read(
    holdings: &Holdings,
    chart: &image_set::Chart,
) -> Result<Option<Fetched>, String> {
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
            false => {
                Err("the archive of oc-mirror v2 has several versions of it: set `version`"
                    .to_owned())
            }
        };
    };
    let archive = distribution.document(name).map_err(|e| format!("reading {name}: {e}"))?;
    let Some(archive) = archive else { return Ok(None) };
    let read = Chart::from_archive(&archive);
    let read = read.map_err(|e| format!("reading {name}: {}", chain(&e)))?;
    Ok(Some(Fetched { chart: read, packed: Packed::Here { archive, provenance: None } }))
}
