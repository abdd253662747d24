//! Permissions of a file.

use std::fmt;

use serde_json::Value;

/// Permission bits, without set-user-id, set-group-id and sticky: the operator refuses those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileMode(u16);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileModeError {
    #[error(
        "mode {0} is octal {0:o}, and set-user-id, set-group-id and sticky bits are rejected by the \
         machine config operator{hint}",
        hint = meant(*.0)
    )]
    SpecialBits(u64),
    #[error("mode {0} is not a number of permission bits; write 420 (or 0644) for rw-r--r--")]
    NotANumber(String),
}

/// A number whose decimal digits resemble a mode that is usually written in octal.
fn meant(number: u64) -> String {
    match u64::from_str_radix(&number.to_string(), 8) {
        Ok(octal) if octal <= 0o777 => format!("; if octal {number} was meant, write {octal}"),
        _ => String::new(),
    }
}

impl FileMode {
    /// `rw-r--r--`, what files are written with.
    pub const READABLE: Self = Self(0o644);

    pub fn new(bits: u64) -> Result<Self, FileModeError> {
        match u16::try_from(bits) {
            Ok(bits) if bits <= 0o777 => Ok(Self(bits)),
            _ => Err(FileModeError::SpecialBits(bits)),
        }
    }

    pub fn bits(self) -> u32 {
        self.0.into()
    }

    /// From a document whose reader has made a number of `0644`, `0o644` and `420`.
    pub(crate) fn from_value(value: &Value) -> Result<Self, FileModeError> {
        match value.as_u64() {
            Some(bits) => Self::new(bits),
            None => Err(FileModeError::NotANumber(value.to_string())),
        }
    }
}

/// As `ls` users write it: `0644`.
impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn permission_bits_are_taken_and_special_bits_are_not() {
        assert_eq!(FileMode::new(420), Ok(FileMode::READABLE));
        assert_eq!(FileMode::new(0o777).unwrap().to_string(), "0777");
        assert_eq!(FileMode::new(0o4755), Err(FileModeError::SpecialBits(0o4755)));
        assert!(FileMode::new(u64::MAX).is_err());
    }

    #[test]
    fn octal_digits_written_as_decimal_are_explained() {
        assert_eq!(
            FileMode::new(644).unwrap_err().to_string(),
            "mode 644 is octal 1204, and set-user-id, set-group-id and sticky bits are rejected by \
             the machine config operator; if octal 644 was meant, write 420",
        );
    }

    #[test]
    fn text_is_not_a_mode() {
        assert_eq!(
            FileMode::from_value(&json!("0644")).unwrap_err().to_string(),
            "mode \"0644\" is not a number of permission bits; write 420 (or 0644) for rw-r--r--",
        );
        assert!(FileMode::from_value(&json!(-1)).is_err());
    }
}
