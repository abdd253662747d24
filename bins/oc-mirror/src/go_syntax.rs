//! Values as Go programs read them. Scripts written for oc-mirror v2 use
//! `--dry-run=true` and `--retry-delay 1m30s`, and must continue to work.

use std::time::Duration;

use clap::{ArgAction, Command};

/// Reads a boolean as Go's flag package does.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

/// Reads a duration as Go's `time.ParseDuration` does: `500ms`, `1.5h`,
/// `1m30s`, `0`. Negative ones are refused: no flag means anything by them.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    const DUE: &str = "expected a duration such as 500ms, 30s, 10m or 1h30m";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.starts_with('-') {
        return Err("the duration is negative".into());
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(DUE.into());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds_per_unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "" => return Err(format!("the unit is missing: {DUE}")),
            _ => return Err(format!("{unit:?} is not a unit of time: {DUE}")),
        };
        let number: f64 = number.parse().map_err(|_| DUE.to_owned())?;
        let part = Duration::try_from_secs_f64(number * seconds_per_unit)
            .map_err(|_| "the duration is too long".to_owned())?;
        total = total.checked_add(part).ok_or("the duration is too long")?;
        rest = tail;
    }
    Ok(total)
}

/// Lets every switch take a value behind `=`, and a repeated flag win over
/// the earlier one, as Go programs do.
pub(crate) fn adapt(command: Command) -> Command {
    command.args_override_self(true).mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("BOOL")
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
            .value_parser(parse_bool),
        _ => arg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("0", 0),
            ("1s", 1_000_000),
            ("500ms", 500_000),
            ("10m", 600_000_000),
            ("1h30m", 5_400_000_000),
            ("1.5h", 5_400_000_000),
            ("1m0.5s", 60_500_000),
            ("7us", 7),
            ("7µs", 7),
            ("3000ns", 3),
            (".5s", 500_000),
            ("+2s", 2_000_000),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused_with_an_example() {
        for text in ["", "+", "s", "1.2.3s", ".s", "five"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("500ms"), "{text}: {error}");
        }
        assert!(parse_duration("10").unwrap_err().contains("the unit is missing"));
        assert!(parse_duration("10d").unwrap_err().contains("\"d\" is not a unit of time"));
        assert!(parse_duration("-1s").unwrap_err().contains("negative"));
        assert!(parse_duration("99999999999999999999h").unwrap_err().contains("too long"));
    }

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(text), Ok(true));
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(text), Ok(false));
        }
        assert!(parse_bool("yes").is_err());
        assert!(parse_bool("").is_err());
    }
}
