//! Patterns that are constants.

use regex::Regex;

/// Compiles a pattern of this crate. All of them are compiled by its tests.
pub(crate) fn pattern(text: &'static str) -> Regex {
    #[expect(clippy::unwrap_used, reason = "a constant, which every test compiles")]
    Regex::new(text).unwrap()
}
