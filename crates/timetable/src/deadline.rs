//! When a run must stop: `--until`.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeadlineError {
    #[error("expected a time such as 04:00 or 2026-11-17T04:00, found {0:?}")]
    Syntax(String),
    #[error("expected a time in the future, found {0}")]
    Past(DateTime),
}

/// The time that `text` names: a time of day is the next one after `now`.
///
/// # Errors
///
/// Text that is neither a time nor a date with a time, and times that have passed.
pub fn deadline(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, DeadlineError> {
    let syntax = || DeadlineError::Syntax(text.to_owned());
    let local = zone.to_datetime(now);
    let time = ["%H:%M", "%H:%M:%S"].iter().find_map(|format| Time::strptime(format, text).ok());
    if let Some(time) = time {
        let today = local.date().to_datetime(time);
        let day =
            if today > local { today } else { today.checked_add(1.day()).map_err(|_| syntax())? };
        return zone.to_timestamp(day).map_err(|_| syntax());
    }
    let date: DateTime =
        ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]
            .iter()
            .find_map(|format| DateTime::strptime(format, text).ok())
            .ok_or_else(syntax)?;
    let time = zone.to_timestamp(date).map_err(|_| syntax())?;
    if time <= now { Err(DeadlineError::Past(date)) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_next_one_and_a_date_must_be_ahead() {
        let zone = crate::zone(Some("Europe/Oslo")).unwrap();
        let at = |text: &str| zone.to_timestamp(text.parse().unwrap()).unwrap();
        let now = at("2026-11-16T18:30:00");
        for (text, expected) in [
            ("19:00", "2026-11-16T19:00:00"),
            ("18:30", "2026-11-17T18:30:00"),
            ("18:30:05", "2026-11-16T18:30:05"),
            ("04:00", "2026-11-17T04:00:00"),
            ("2026-12-01T04:00", "2026-12-01T04:00:00"),
            ("2026-12-01 04:00", "2026-12-01T04:00:00"),
        ] {
            assert_eq!(deadline(text, now, &zone), Ok(at(expected)), "{text}");
        }
        for text in ["", "4", "25:00", "tomorrow", "2026-12-01"] {
            assert_eq!(
                deadline(text, now, &zone),
                Err(DeadlineError::Syntax(text.to_owned())),
                "{text}"
            );
        }
        let past = deadline("2026-11-16T04:00", now, &zone).unwrap_err().to_string();
        assert_eq!(past, "expected a time in the future, found 2026-11-16T04:00:00");
    }
}
