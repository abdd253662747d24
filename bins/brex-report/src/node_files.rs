//! What brex-firstboot left on the node.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use first_boot::{Report, Summary};

const REPORT: &str = "var/log/brex-firstboot/report.json";
const FLAG: &str = "etc/nmstate/openshift/applied";
/// Neither is larger.
const LARGEST: u64 = 16 << 20;

/// The summary of the node whose files are below `root`.
pub(crate) fn summary(root: &Path) -> Result<Summary> {
    let path = root.join(REPORT);
    let report = match read(&path)? {
        Some(bytes) => {
            let report: Report = serde_json::from_slice(&bytes)
                .with_context(|| format!("reading {}", path.display()))?;
            ensure!(
                report.version == Report::VERSION,
                "reading {}: expected version {}, found {}",
                path.display(),
                Report::VERSION,
                report.version
            );
            Some(report)
        }
        None => None,
    };
    let flag = read(&root.join(FLAG))?;
    Ok(Summary::of(report.as_ref(), flag.as_deref()))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let reading = || format!("reading {}", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        known => ensure!(known.with_context(reading)?.is_file(), "{}: not a file", reading()),
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(reading)?;
    file.take(LARGEST).read_to_end(&mut bytes).with_context(reading)?;
    Ok(Some(bytes))
}
