//! Constants in templates.

use crate::number::parse_integer;
use crate::quote::{unquote, unquote_character};
use crate::value::Value;

/// A string literal with its quotes.
pub(super) fn string(literal: &str) -> Option<Value> {
    unquote(literal).map(|bytes| Value::bytes(&bytes))
}

/// A number or character. The syntax decides the type, as for Go's constants.
pub(super) fn number(literal: &str) -> Result<Value, String> {
    if literal.starts_with('\'') {
        let malformed = || format!("malformed character constant: {literal}");
        return unquote_character(literal).map(Value::Int).ok_or_else(malformed);
    }
    if let Some(number) = parse_integer(literal) {
        return Ok(Value::Int(number));
    }
    if literal.ends_with('i') {
        return Err(format!("complex numbers are not supported: {literal}"));
    }
    let syntax = || format!("illegal number syntax: {literal:?}");
    let float = hexadecimal_float(literal)
        .or_else(|| literal.replace('_', "").parse::<f64>().ok())
        .ok_or_else(syntax)?;
    if !literal.contains(['.', 'e', 'E', 'p', 'P']) {
        return Err(format!("integer overflow: {literal:?}"));
    }
    Ok(Value::Float(float))
}

/// A float such as `0x1.8p3`.
fn hexadecimal_float(literal: &str) -> Option<f64> {
    let (sign, digits) =
        literal.strip_prefix('-').map_or((1.0, literal.trim_start_matches('+')), |d| (-1.0, d));
    let lower = digits.to_ascii_lowercase().replace('_', "");
    let (mantissa, exponent) = lower.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let size = u64::from_str_radix(&digits, 16).ok()? as f64;
    let exponent = exponent.parse::<i32>().ok()? - 4 * i32::try_from(fraction.len()).ok()?;
    Some(sign * size * 2f64.powi(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_of_a_number_decides_its_type() {
        for (literal, expected) in
            [("0x1F", 31), ("0o17", 15), ("017", 15), ("0b101", 5), ("1_000", 1000), ("'a'", 97)]
        {
            assert!(matches!(number(literal), Ok(Value::Int(n)) if n == expected), "{literal}");
        }
        for (literal, expected) in [("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("0x1p4", 16.0)] {
            assert!(matches!(number(literal), Ok(Value::Float(n)) if n == expected), "{literal}");
        }
        assert!(number("99999999999999999999").is_err());
        assert!(number("089").is_err());
    }
}
