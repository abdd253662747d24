//! What an unquoted word means, by the rules of YAML 1.1.
//!
//! The other readers of our files follow 1.1, where `yes`, `on` and `y` are
//! booleans and `0o17`, `1_000` are numbers. A word that they do not read
//! as text must not be text here.

/// The meaning of an unquoted word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Null,
    Bool(bool),
    Integer(i128),
    Float,
    Text,
}

/// What an unquoted word means.
pub fn meaning(word: &str) -> Meaning {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => return Meaning::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Meaning::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Meaning::Bool(false);
        }
        _ => {}
    }
    match integer(word) {
        Some(number) => Meaning::Integer(number),
        None if is_float(word) => Meaning::Float,
        None => Meaning::Text,
    }
}

fn integer(word: &str) -> Option<i128> {
    let (sign, digits) = match word.as_bytes().first()? {
        b'-' => (-1, &word[1..]),
        b'+' => (1, &word[1..]),
        _ => (1, word),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, &digits[..]),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    i128::from_str_radix(digits, radix).ok()?.checked_mul(sign)
}

fn is_float(word: &str) -> bool {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    // The parser of Rust accepts `inf`, `nan` and `infinity`, which are text here.
    let starts_as_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    starts_as_number && float(unsigned).is_some()
}

/// The number of a word for a float, without the words for infinity.
pub(crate) fn float(word: &str) -> Option<f64> {
    word.replace('_', "").parse().ok()
}

/// A float as the key of a map in JSON: shortest with 32 bits, as other readers print it.
pub(crate) fn float_key(word: &str) -> Option<String> {
    let number = float(word)? as f32;
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if (-4..6).contains(&exponent) {
        return Some(number.to_string());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{mantissa}e{sign}{:02}", exponent.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_meaning_of_yaml_1_1() {
        for (word, expected) in [
            ("", Meaning::Null),
            ("~", Meaning::Null),
            ("null", Meaning::Null),
            ("true", Meaning::Bool(true)),
            ("Yes", Meaning::Bool(true)),
            ("on", Meaning::Bool(true)),
            ("y", Meaning::Bool(true)),
            ("OFF", Meaning::Bool(false)),
            ("no", Meaning::Bool(false)),
            ("4", Meaning::Integer(4)),
            ("-1", Meaning::Integer(-1)),
            ("+7", Meaning::Integer(7)),
            ("1_000", Meaning::Integer(1000)),
            ("0x1F", Meaning::Integer(31)),
            ("0o17", Meaning::Integer(15)),
            ("017", Meaning::Integer(15)),
            ("0b11", Meaning::Integer(3)),
            ("0", Meaning::Integer(0)),
            ("4.18", Meaning::Float),
            ("4.", Meaning::Float),
            (".5", Meaning::Float),
            ("-1e3", Meaning::Float),
            (".inf", Meaning::Float),
            ("-.INF", Meaning::Float),
            (".nan", Meaning::Float),
            ("08", Meaning::Float),
            ("4.18.1", Meaning::Text),
            ("inf", Meaning::Text),
            ("nan", Meaning::Text),
            ("yeS", Meaning::Text),
            ("v4", Meaning::Text),
            ("-", Meaning::Text),
            (".", Meaning::Text),
            ("--1", Meaning::Text),
            ("0x", Meaning::Text),
            ("0x-1", Meaning::Text),
            ("2024-01-01", Meaning::Text),
        ] {
            assert_eq!(meaning(word), expected, "{word:?}");
        }
    }
}
