//! Documents that name their machine, whatever its host name:
//!
//! ```yaml
//! # brex-match: serial=CZ1234
//! # brex-match: mac=52:54:00:12:34:56
//! interfaces: …
//! ```
//!
//! The lines are comments, so that nmstate and every older reader ignore them. They must be placed
//! before the first line that is not a comment. Any one of them is enough.

use std::fmt;

use machine_identity::{Mac, MacError, Machine, Serial};

const KEYWORD: &str = "brex-match:";

/// One line of a document that names a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    Serial(Serial),
    Mac(Mac),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    #[error(
        "line {line}: `{text}` cannot match a machine; write `mac=52:54:00:12:34:56` or `serial=…`"
    )]
    Unknown { line: usize, text: String },
    #[error("line {line}")]
    Mac { line: usize, source: MacError },
}

/// The matches of a document; none for most.
pub fn matches(text: &str) -> Result<Vec<Match>, MatchError> {
    let header = text.lines().enumerate().take_while(|(_, line)| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    });
    let mut found = Vec::new();
    for (index, line) in header {
        let comment = line.trim().trim_start_matches('#').trim();
        let Some(rest) = comment.strip_prefix(KEYWORD) else { continue };
        let (line, text) = (index + 1, rest.trim());
        found.push(match text.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("mac", value)) => {
                Match::Mac(value.parse().map_err(|source| MatchError::Mac { line, source })?)
            }
            Some(("serial", value)) => Match::Serial(
                Serial::of(value)
                    .ok_or_else(|| MatchError::Unknown { line, text: text.to_owned() })?,
            ),
            _ => return Err(MatchError::Unknown { line, text: text.to_owned() }),
        });
    }
    Ok(found)
}

impl Match {
    pub fn fits(&self, machine: &Machine) -> bool {
        match self {
            Self::Serial(serial) => machine.serial.as_ref() == Some(serial),
            Self::Mac(mac) => machine.macs.contains(mac),
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial(serial) => write!(f, "serial {serial}"),
            Self::Mac(mac) => write!(f, "MAC {mac}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_comments_before_the_document() {
        let text = "---\n# ours\n# brex-match: mac=52:54:00:00:00:01\n#brex-match: serial = CZ1\ninterfaces: []\n# brex-match: mac=52:54:00:00:00:02\n";
        let found: Vec<String> = matches(text).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["MAC 52:54:00:00:00:01", "serial cz1"]);
    }

    #[test]
    fn a_match_that_cannot_be_understood_is_an_error_with_its_line() {
        let error = matches("# x\n# brex-match: name=worker-0\n").unwrap_err();
        assert!(error.to_string().starts_with("line 2: `name=worker-0`"), "{error}");
        assert!(matches!(matches("# brex-match: mac=zz"), Err(MatchError::Mac { line: 1, .. })));
    }
}
