//! Text of bounded length, for reports and status fields. nmstate's errors may contain whole
//! network states; a report must not grow with them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// At most [`Message::LIMIT`] bytes of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Message(String);

impl Message {
    /// Bytes that are kept.
    pub const LIMIT: usize = 2048;
    const CUT: &str = " … (cut)";

    /// Truncates a text that is too long, and marks it as truncated.
    pub fn new(text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.len() > Self::LIMIT {
            let mut end = Self::LIMIT - Self::CUT.len();
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(Self::CUT);
        }
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_with_a_mark() {
        let message = Message::new("ä".repeat(5000));
        assert!(message.as_str().len() <= Message::LIMIT);
        assert!(message.as_str().ends_with("ä … (cut)"));
    }

    #[test]
    fn text_that_fits_is_kept_as_it_is() {
        let text = "x".repeat(Message::LIMIT);
        assert_eq!(Message::new(text.as_str()).as_str(), text);
    }
}
