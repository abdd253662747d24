//! Constant regular expressions.

use regex::Regex;

/// Compiles a pattern of this crate. The tests compile all of them.
pub(crate) fn pattern(text: &'static str) -> Regex {
    #[expect(clippy::unwrap_used, reason = "the pattern is a constant that tests compile")]
    Regex::new(text).unwrap()
}
