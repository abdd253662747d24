//! The body of an error response: the error codes of the registry, or the first
//! line of a page in place of them. Hostile text; it is bounded and
//! cleaned before it is printed.

use std::fmt;

use serde::Deserialize;

/// As much of an error body as is read.
pub(crate) const MAX_ERROR_BYTES: usize = 16 << 10;
const MAX_TEXT: usize = 300;
const MAX_CODES: usize = 5;

/// The reason that a registry gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorBody {
    Nothing,
    /// `errors` of a registry's JSON response: code and message.
    Codes(Vec<(Box<str>, Box<str>)>),
    /// Anything else, first line.
    Text(Box<str>),
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    errors: Vec<Entry>,
    // Token servers and front ends have forms of their own.
    #[serde(alias = "details", alias = "error_description")]
    message: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    code: serde_json::Value,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    detail: serde_json::Value,
}

impl ErrorBody {
    pub(crate) fn parse(body: &[u8]) -> Self {
        if let Ok(parsed) = serde_json::from_slice::<Body>(body) {
            let codes: Vec<_> = parsed.errors.iter().take(MAX_CODES).map(Entry::read).collect();
            return match parsed.message {
                _ if !codes.is_empty() => Self::Codes(codes),
                Some(message) => Self::text(&message),
                None => Self::Nothing,
            };
        }
        Self::text(&String::from_utf8_lossy(body))
    }

    /// The first line that is not empty, without markup.
    fn text(text: &str) -> Self {
        let line =
            text.lines().map(|line| clean(&without_tags(line))).find(|line| !line.is_empty());
        line.map_or(Self::Nothing, |line| Self::Text(line.into()))
    }

    pub(crate) fn has_code(&self, wanted: &str) -> bool {
        matches!(self, Self::Codes(codes) if codes.iter().any(|(code, _)| &**code == wanted))
    }
}

impl Entry {
    fn read(&self) -> (Box<str>, Box<str>) {
        let code = match &self.code {
            serde_json::Value::String(code) => clean(code),
            serde_json::Value::Null => String::new(),
            other => clean(&other.to_string()),
        };
        let detail = match &self.detail {
            serde_json::Value::String(detail) => Some(detail.as_str()),
            _ => None,
        };
        let message = self.message.as_deref().filter(|text| !text.is_empty()).or(detail);
        (code.into(), clean(message.unwrap_or_default()).into())
    }
}

fn without_tags(line: &str) -> String {
    let mut inside = false;
    line.chars()
        .filter(|c| {
            let keep = !inside && *c != '<';
            inside = *c == '<' || (inside && *c != '>');
            keep
        })
        .collect()
}

/// Bounded, one line, nothing a terminal would obey.
pub(crate) fn clean(text: &str) -> String {
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let printable = text.trim_matches(blank).chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut cleaned: String = printable.take(MAX_TEXT + 1).collect();
    if let Some((end, _)) = cleaned.char_indices().nth(MAX_TEXT) {
        cleaned.truncate(end);
        cleaned.push('…');
    }
    cleaned
}

/// With a leading `: `, or nothing at all: it ends a sentence.
impl fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Text(text) => write!(f, ": {text}"),
            Self::Codes(codes) => {
                for (place, (code, message)) in codes.iter().enumerate() {
                    f.write_str(if place == 0 { ": " } else { "; " })?;
                    match (code.is_empty(), message.is_empty()) {
                        (false, false) => write!(f, "{code} ({message})")?,
                        _ => write!(f, "{code}{message}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_in_all_the_forms_registries_use() {
        for (body, expected) in [
            (
                r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{"Tag":"x"}}]}"#,
                ": MANIFEST_UNKNOWN (manifest unknown)",
            ),
            (
                r#"{"errors":[{"code":"DENIED","message":""},{"code":404,"detail":"gone"}]}"#,
                ": DENIED; 404 (gone)",
            ),
            (r#"{"details":"incorrect username or password"}"#, ": incorrect username or password"),
            (
                "<html>\r\n<head><title>429 Too Many Requests</title></head>",
                ": 429 Too Many Requests",
            ),
            ("\n  404 page not found\nmore", ": 404 page not found"),
            ("", ""),
            (r#"{"errors":[]}"#, ""),
            ("\u{1b}[2Jboo\u{7}", ": [2Jboo"),
        ] {
            assert_eq!(ErrorBody::parse(body.as_bytes()).to_string(), expected, "{body}");
        }
    }

    #[test]
    fn a_long_page_is_cut() {
        let error_body = ErrorBody::parse("é".repeat(10_000).as_bytes()).to_string();
        assert_eq!(error_body.chars().count(), 2 + MAX_TEXT + 1);
        assert!(error_body.ends_with("é…"), "{error_body}");
    }

    #[test]
    fn codes_are_found_among_several() {
        let error_body =
            ErrorBody::parse(br#"{"errors":[{"code":"A"},{"code":"MANIFEST_BLOB_UNKNOWN"}]}"#);
        assert!(error_body.has_code("MANIFEST_BLOB_UNKNOWN"));
        assert!(!error_body.has_code("DENIED"));
    }
}
