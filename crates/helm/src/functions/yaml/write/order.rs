//! The order of keys: numbers in them count as numbers, and letters come last.

use go_template::Value;

/// Sorts by key. The order is not transitive for all keys, which the sort of the standard library
/// may panic; merging does not.
pub(super) fn sort_keys(entries: &mut Vec<(String, Value)>) {
    if entries.len() < 2 {
        return;
    }
    let mut right = entries.split_off(entries.len() / 2);
    sort_keys(entries);
    sort_keys(&mut right);
    let left = std::mem::take(entries);
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        let take_right = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) => is_less(&r.0, &l.0),
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => return,
        };
        entries.extend(if take_right { right.next() } else { left.next() });
    }
}

fn is_less(left: &str, right: &str) -> bool {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let Some(at) = left.iter().zip(&right).position(|(l, r)| l != r) else {
        return left.len() < right.len();
    };
    let (l, r) = (left[at], right[at]);
    match (l.is_alphabetic(), r.is_alphabetic()) {
        (true, true) => return l < r,
        (true, false) | (false, true) => return r.is_alphabetic(),
        (false, false) => {}
    }
    // Zeros behind other digits belong to a number that began before.
    let continues = (l == '0' || r == '0')
        && left[..at].iter().rev().take_while(|c| is_digit(**c)).any(|c| *c != '0');
    let number = |chars: &[char]| {
        let digits: Vec<char> = chars[at..].iter().copied().take_while(|c| is_digit(*c)).collect();
        let value = digits.iter().fold(i64::from(continues), |value, digit| {
            value.wrapping_mul(10).wrapping_add(i64::from(*digit as u32) - i64::from('0' as u32))
        });
        (value, digits.len())
    };
    let (left_number, right_number) = (number(&left), number(&right));
    if left_number != right_number {
        return left_number < right_number;
    }
    l < r
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_keys_count_as_numbers() {
        let mut entries: Vec<(String, Value)> = ["b", "a10", "a2", "A", "_x", "1", "a-1", "a"]
            .map(|key| (key.to_owned(), Value::Nil))
            .into();
        sort_keys(&mut entries);
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["_x", "1", "A", "a", "a-1", "a2", "a10", "b"]);
    }
}
