//! Lenient conversions to numbers, as Sprig's arithmetic makes them.

use go_template::{Value, parse_integer};

/// An integer; 0 for what is not a number.
pub(super) fn to_integer(value: &Value) -> i64 {
    match value {
        Value::Bool(flag) => i64::from(*flag),
        Value::Int(number) | Value::Int64(number) => *number,
        Value::Float(number) => *number as i64,
        Value::String(text) => parse_integer(without_zero_fraction(text)).unwrap_or(0),
        _ => 0,
    }
}

/// A float; 0 for what is not a number.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Int(number) | Value::Int64(number) => *number as f64,
        Value::Float(number) => *number,
        Value::String(text) => parse_float(text).unwrap_or(0.0),
        _ => 0.0,
    }
}

/// `3.00` is an integer, `3.5` is not.
fn without_zero_fraction(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|byte| byte == b'0') => whole,
        _ => text,
    }
}

/// Go's `strconv.ParseFloat`.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    let is_name = matches!(unsigned.as_str(), "inf" | "infinity" | "nan");
    let numeric =
        unsigned.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-'));
    (is_name || numeric).then(|| text.parse().ok())?
}
