//! Sizes, rates and times for users.

use std::time::Duration;

/// The value of a flag in seconds.
///
/// # Errors
///
/// The text is not a whole number.
pub fn parse_seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

/// `1.5 GiB`: three digits at most before the unit changes.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // What would be shown as 1024.0 belongs to the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `12.3 MiB/s`; `-` if the time is zero.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is a rough number"
)]
pub fn rate(count: u64, seconds: f64) -> String {
    match seconds > 0.0 {
        true => format!("{}/s", bytes((count as f64 / seconds) as u64)),
        false => "-".to_owned(),
    }
}

/// `4.2s`, `3m07s`, `1h02m`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", duration.as_secs_f64().min(59.9)),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `1 image`, `2 images`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_their_unit_at_1024() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn a_rate_over_no_time_is_unknown() {
        assert_eq!(rate(2048, 2.0), "1.0 KiB/s");
        assert_eq!(rate(2048, 0.0), "-");
    }

    #[test]
    fn times_show_two_units_at_most() {
        for (millis, text) in [
            (0, "0.0s"),
            (4_230, "4.2s"),
            (59_990, "59.9s"),
            (60_000, "1m00s"),
            (187_000, "3m07s"),
            (3_720_000, "1h02m"),
        ] {
            assert_eq!(time(Duration::from_millis(millis)), text);
        }
    }
}
