//! Real-world files, beside the checkout and never in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A folder of real-world files beside the checkout. Says so when it is absent, past the capture of
/// test output, so that a run without it cannot be taken for a run with it.
pub fn data_tier(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    let mut uncaptured = std::io::stderr().lock();
    // Standard error is there, or nobody reads it.
    let _ = writeln!(uncaptured, "data tier: {} absent, not run", folder.display());
    None
}
