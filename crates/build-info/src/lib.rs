//! The version of the programs, with the commit that they were built from and its date.
//!
//! `cargo xtask dist` passes the commit through the environment. Other release builds read it from
//! git. Debug builds do not contain it: every commit would rebuild every program and its tests.
//!
//! # Example
//!
//! ```
//! let version = format!("oc-mirror {}", build_info::VERSION);
//! assert!(version.starts_with(&format!("oc-mirror {}", build_info::NUMBER)));
//! ```

/// The version number alone.
pub const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// What `--version` prints after the name of the program:
/// `0.1.0 (commit 5de4c84c9a1b, 2026-11-17)`, with `, dirty` for a checkout with changes that are
/// not committed.
pub const VERSION: &str = env!("LANDFALL_BUILD_VERSION");

/// The full hash of the commit. Empty if it is not known.
pub const COMMIT: &str = env!("LANDFALL_BUILD_COMMIT");

/// The date of the commit in UTC, as `YYYY-MM-DD`. Empty if it is not known.
pub const DATE: &str = env!("LANDFALL_BUILD_DATE");

/// `clean` or `dirty`, the words of Kubernetes' `gitTreeState`. Empty if it is not known.
pub const TREE_STATE: &str = env!("LANDFALL_BUILD_TREE_STATE");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_starts_with_the_number() {
        assert!(VERSION.starts_with(&format!("{NUMBER} (")), "{VERSION}");
    }

    #[test]
    fn commit_date_and_state_are_known_together_or_not_at_all() {
        let known = [COMMIT, DATE, TREE_STATE].map(|text| !text.is_empty());
        assert!(known == [true; 3] || known == [false; 3], "{known:?}");
        if known[0] {
            assert!(VERSION.contains(&COMMIT[..12]) && VERSION.contains(DATE), "{VERSION}");
        }
    }
}
