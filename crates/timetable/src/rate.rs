//! How fast content may be transferred.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// How fast content may be transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the network allows.
    Full,
    Limited(BytesPerSecond),
    /// Not at all.
    Paused,
}

/// A rate above zero, written `20MiB`, `2.5M`, `500kB` or `10Mbit`; `/s` may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BytesPerSecond(pub NonZeroU64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    #[error("expected a rate such as 20MiB, 500kB or 10Mbit, found {0:?}")]
    Syntax(String),
    #[error("expected a rate above 0, found {0:?}; leave the limit out, or pause with a timetable")]
    Zero(String),
}

/// Units and their bytes. A single letter is 1024-based, as in curl.
const UNITS: [(&str, f64); 20] = [
    ("", 1.0),
    ("b", 1.0),
    ("k", 1024.0),
    ("m", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("ki", 1024.0),
    ("mi", 1_048_576.0),
    ("gi", 1_073_741_824.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("bit", 0.125),
    ("kbit", 125.0),
    ("mbit", 125e3),
    ("gbit", 125e6),
    ("tib", 1_099_511_627_776.0),
    ("tb", 1e12),
];

impl FromStr for BytesPerSecond {
    type Err = RateError;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a positive number that fits"
    )]
    fn from_str(text: &str) -> Result<Self, RateError> {
        let syntax = || RateError::Syntax(text.to_owned());
        let trimmed = text.trim();
        let amount = trimmed.strip_suffix("/s").unwrap_or(trimmed);
        let unit_at =
            amount.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(amount.len());
        let (number, unit) = amount.split_at(unit_at);
        let unit = unit.trim().to_ascii_lowercase();
        let number: f64 = number.parse().map_err(|_| syntax())?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(syntax)?;
        let bytes = number * factor;
        if bytes >= 9e18 {
            return Err(syntax());
        }
        // Zero, or less than a byte per second, is an error.
        NonZeroU64::new(bytes as u64).map(Self).ok_or_else(|| RateError::Zero(text.to_owned()))
    }
}

impl fmt::Display for BytesPerSecond {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get();
        let (unit, factor) = match bytes {
            0..1024 => return write!(f, "{bytes} B/s"),
            1024..1_048_576 => ("KiB", 1024.0),
            1_048_576..1_073_741_824 => ("MiB", 1_048_576.0),
            _ => ("GiB", 1_073_741_824.0),
        };
        write!(f, "{:.1} {unit}/s", bytes as f64 / factor)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full rate"),
            Self::Limited(rate) => rate.fmt(f),
            Self::Paused => f.write_str("paused"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_units() {
        for (text, bytes) in [
            ("20MiB", 20 << 20),
            ("20M", 20 << 20),
            ("20MB/s", 20_000_000),
            ("1.5KiB", 1536),
            ("10 Mbit", 1_250_000),
            ("10mbit/s", 1_250_000),
            ("4096", 4096),
            ("1Gi", 1 << 30),
        ] {
            assert_eq!(
                text.parse::<BytesPerSecond>().map(|rate| rate.0.get()),
                Ok(bytes),
                "{text}"
            );
        }
        for text in ["", "fast", "-1", "1.2.3M", "5 parsecs", "1e3", "99999999999999999999G"] {
            assert!(matches!(text.parse::<BytesPerSecond>(), Err(RateError::Syntax(_))), "{text}");
        }
        for text in ["0", "0MiB", "0.1", "1bit"] {
            assert!(matches!(text.parse::<BytesPerSecond>(), Err(RateError::Zero(_))), "{text}");
        }
    }

    #[test]
    fn rates_are_printed_with_their_units() {
        let printed = |bytes| BytesPerSecond(NonZeroU64::new(bytes).unwrap()).to_string();
        assert_eq!(printed(20 << 20), "20.0 MiB/s");
        assert_eq!(printed(1536), "1.5 KiB/s");
        assert_eq!(printed(100), "100 B/s");
    }
}
