//! Which plain scalars are texts for the YAML library that Helm uses. Its rules are those of YAML 1.1,
//! where `yes` is true and `010` is eight.

use located_yaml::{Meaning, meaning};

/// Whether a text can be written without quotes as far as its meaning is concerned.
pub(super) fn means_text(text: &str) -> bool {
    // Dates are read as text, but a text that looks like one is quoted.
    meaning(text) == Meaning::Text && !is_timestamp(text) && !is_base_60(text)
}

/// Dates and times such as `2001-12-14`, `2001-12-14 21:59:43.10` and `2001-12-14T21:59:43Z`.
fn is_timestamp(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 4 || text.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    [
        "2006-1-2T15:4:5.999999999Z07:00",
        "2006-1-2t15:4:5.999999999Z07:00",
        "2006-1-2 15:4:5.999999999",
        "2006-1-2",
    ]
    .iter()
    .any(|layout| crate::functions::civil::parse(layout, text).is_some())
}

/// Numbers to the base of 60 in YAML 1.1, such as `12:30`. They are texts here, but quoted.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) || !unsigned.contains(':') {
        return false;
    }
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    number(first)
        && number(fraction)
        && parts.all(|part| match part.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [b'0'..=b'5', digit] => digit.is_ascii_digit(),
            _ => false,
        })
}
