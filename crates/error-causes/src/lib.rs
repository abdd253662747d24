//! An error with its causes, in one line: `reading a.yaml: line 3: expected a number`.
//!
//! # Example
//!
//! ```
//! use error_causes::with_causes;
//!
//! #[derive(Debug)]
//! struct Unreadable(std::num::ParseIntError);
//!
//! impl std::fmt::Display for Unreadable {
//!     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
//!         f.write_str("reading the port")
//!     }
//! }
//!
//! impl std::error::Error for Unreadable {
//!     fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
//!         Some(&self.0)
//!     }
//! }
//!
//! let error = Unreadable("x".parse::<u16>().unwrap_err());
//! assert_eq!(with_causes(&error), "reading the port: invalid digit found in string");
//! ```

use std::error::Error;

/// An error and everything that caused it, joined by colons.
pub fn with_causes(error: &dyn Error) -> String {
    join(error, |_, _| false)
}

/// The same, without a cause that the text before it contains: some libraries repeat their cause in
/// their own text.
pub fn with_distinct_causes(error: &dyn Error) -> String {
    join(error, |text, cause| text.contains(cause))
}

fn join(error: &dyn Error, is_left_out: impl Fn(&str, &str) -> bool) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !is_left_out(&text, &cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failure(String, Option<Box<Failure>>);

    impl fmt::Display for Failure {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl Error for Failure {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    /// The first is caused by the second, and so on.
    fn failure(texts: &[&str]) -> Failure {
        let (first, rest) = texts.split_first().unwrap();
        Failure(first.to_string(), (!rest.is_empty()).then(|| Box::new(failure(rest))))
    }

    #[test]
    fn causes_follow_their_error() {
        assert_eq!(with_causes(&failure(&["opening a"])), "opening a");
        let nested = failure(&["opening a", "reading", "end of file"]);
        assert_eq!(with_causes(&nested), "opening a: reading: end of file");
        assert_eq!(with_distinct_causes(&nested), with_causes(&nested));
    }

    #[test]
    fn a_cause_that_is_repeated_is_left_out_on_request() {
        let repeated = failure(&["connecting: refused", "refused", "os error 111"]);
        assert_eq!(with_distinct_causes(&repeated), "connecting: refused: os error 111");
        assert_eq!(with_causes(&repeated), "connecting: refused: refused: os error 111");
    }
}
