//! Numbers as Go's `strconv` parses and formats them.

/// Formats `number` in Go's format `e`, `E`, `f`, `g` or `G`; without a precision, with the fewest
/// digits that read back as the same number.
pub fn format_float(number: f64, format: char, precision: Option<usize>) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let lower = match format.to_ascii_lowercase() {
        'f' => match precision {
            Some(digits) => format!("{number:.digits$}"),
            None => format!("{number}"),
        },
        'g' => general(number, precision),
        _ => exponential(number, precision),
    };
    if format.is_ascii_uppercase() { lower.to_ascii_uppercase() } else { lower }
}

fn exponential(number: f64, precision: Option<usize>) -> String {
    let text = match precision {
        Some(digits) => format!("{number:.digits$e}"),
        None => format!("{number:e}"),
    };
    // Go writes a sign and at least two digits of the exponent.
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn general(number: f64, precision: Option<usize>) -> String {
    let digits = precision.map(|digits| digits.max(1));
    let scientific = match digits {
        Some(digits) => format!("{number:.*e}", digits - 1),
        None => format!("{number:e}"),
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    let significant = mantissa.bytes().filter(u8::is_ascii_digit).count() as i64;
    // With the fewest digits, numbers from 1e+21 on would be the first with an exponent in JSON;
    // here it is 1e+06.
    let threshold = match digits {
        None => 6,
        Some(digits) if digits as i64 > significant && significant > exponent => significant,
        Some(digits) => digits as i64,
    };
    if exponent < -4 || exponent >= threshold {
        let (sign, size) = if exponent < 0 { ('-', -exponent) } else { ('+', exponent) };
        return format!("{mantissa}e{sign}{size:0>2}");
    }
    match digits {
        None => format!("{number}"),
        Some(_) => {
            let decimals = (significant - 1 - exponent).max(0) as usize;
            format!("{number:.decimals$}")
        }
    }
}

/// Parses an integer as Go's `strconv.ParseInt(text, 0, 64)` does: its prefix decides the base.
pub fn parse_integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let digits = digits.replace('_', "");
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    let size = i128::from_str_radix(&digits, radix).ok()?;
    i64::try_from(if negative { -size } else { size }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts were printed by Go's strconv.
    #[test]
    fn floats_are_written_as_go_writes_them() {
        for (number, format, precision, text) in [
            (1_000_000.0, 'g', None, "1e+06"),
            (123_456.0, 'g', None, "123456"),
            (0.0001, 'g', None, "0.0001"),
            (0.00001, 'g', None, "1e-05"),
            (3.25, 'g', None, "3.25"),
            (-0.5, 'g', None, "-0.5"),
            (123.456, 'g', Some(3), "123"),
            (1234.5, 'g', Some(2), "1.2e+03"),
            (100.0, 'g', Some(6), "100"),
            (2.5, 'f', Some(0), "2"),
            (2.0, 'f', Some(3), "2.000"),
            (1e21, 'f', None, "1000000000000000000000"),
            (1234.0, 'e', Some(2), "1.23e+03"),
            (1e100, 'e', None, "1e+100"),
            (f64::INFINITY, 'g', None, "+Inf"),
        ] {
            assert_eq!(format_float(number, format, precision), text);
        }
    }
}
