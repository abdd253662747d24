//! The `Range` header: which bytes of a blob are requested.

/// What to send of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// `first..=last`; both are inside the blob.
    Bytes {
        first: u64,
        last: u64,
    },
    /// The range is behind the end.
    Unsatisfiable,
}

impl Part {
    /// Reads a `Range` header for a blob of `length` bytes. One range is
    /// honoured. What is not understood, and several ranges at once, mean the
    /// whole blob: HTTP allows that response to every range.
    pub(crate) fn parse(header: &str, length: u64) -> Self {
        Self::one_range(header, length).unwrap_or(Self::Whole)
    }

    fn one_range(header: &str, length: u64) -> Option<Self> {
        let (unit, range) = header.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") || range.contains(',') {
            return None;
        }
        let (first, last) = range.trim().split_once('-')?;
        if first.is_empty() {
            let count = number(last)?.min(length);
            return Some(match count {
                0 => Self::Unsatisfiable,
                _ => Self::Bytes { first: length - count, last: length - 1 },
            });
        }
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        if last < first {
            return None;
        }
        if first >= length {
            return Some(Self::Unsatisfiable);
        }
        Some(Self::Bytes { first, last: last.min(length - 1) })
    }
}

/// Digits only: `u64::from_str` would also take a sign.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // More digits than fit mean "behind any end".
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ten_bytes() {
        let bytes = |first, last| Part::Bytes { first, last };
        for (header, expected) in [
            ("bytes=0-0", bytes(0, 0)),
            ("bytes=2-5", bytes(2, 5)),
            ("bytes=2-", bytes(2, 9)),
            ("bytes=2-99", bytes(2, 9)),
            ("bytes=-3", bytes(7, 9)),
            ("bytes=-99", bytes(0, 9)),
            ("Bytes=9-9", bytes(9, 9)),
            ("bytes=0-99999999999999999999999", bytes(0, 9)),
            ("bytes=10-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=99999999999999999999999-", Part::Unsatisfiable),
            ("bytes=5-2", Part::Whole),
            ("bytes=0-1,4-5", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("lines=0-1", Part::Whole),
            ("", Part::Whole),
        ] {
            assert_eq!(Part::parse(header, 10), expected, "{header:?}");
        }
    }

    #[test]
    fn no_range_of_an_empty_blob_can_be_satisfied() {
        for header in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            assert_eq!(Part::parse(header, 0), Part::Unsatisfiable, "{header}");
        }
    }
}
