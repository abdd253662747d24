//! A timetable: which rate applies when.

use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::error::{Problem, TimetableError};
use crate::rate::Rate;
use crate::text;

pub(crate) const MINUTES_PER_DAY: u16 = 24 * 60;
pub(crate) const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Which rate applies when, by local time.
///
/// Entries with weekdays take precedence over entries without; among those, the first that applies
/// counts. A window across midnight belongs to the day it begins on.
///
/// When clocks change, local time counts: a window inside the hour that is skipped does not occur,
/// and one inside the hour that is repeated applies twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    entries: Vec<Entry>,
    otherwise: Option<Rate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `None`: every day.
    pub(crate) days: Option<Days>,
    /// `None`: all day.
    pub(crate) window: Option<Window>,
    pub(crate) rate: Rate,
}

/// From one weekday to another, both included; Monday is 0. `Sat-Mon` runs across the weekend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Days {
    pub(crate) first: u8,
    pub(crate) last: u8,
}

/// Minutes since midnight; the end is not included. One that ends before it begins ends on the
/// next day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// A time of a week, in local time.
#[derive(Debug, Clone, Copy)]
struct Moment {
    day: u8,
    minute: u16,
}

impl Days {
    fn contain(self, day: u8) -> bool {
        match self.first <= self.last {
            true => (self.first..=self.last).contains(&day),
            false => day >= self.first || day <= self.last,
        }
    }
}

impl Moment {
    fn of(time: DateTime) -> Self {
        let day = time.weekday().to_monday_zero_offset().unsigned_abs();
        let minute = u16::from(time.hour().unsigned_abs()) * 60;
        Self { day, minute: minute + u16::from(time.minute().unsigned_abs()) }
    }
}

impl Entry {
    fn applies(&self, at: Moment) -> bool {
        let on = |day: u8| self.days.is_none_or(|days| days.contain(day));
        match self.window {
            None => on(at.day),
            Some(Window { from, to }) if from < to => on(at.day) && (from..to).contains(&at.minute),
            Some(Window { from, to }) => {
                (on(at.day) && at.minute >= from) || (on((at.day + 6) % 7) && at.minute < to)
            }
        }
    }
}

impl Timetable {
    fn find(&self, at: Moment) -> Option<Rate> {
        let of = |with_days: bool| {
            self.entries.iter().find(|entry| entry.days.is_some() == with_days && entry.applies(at))
        };
        of(true).or_else(|| of(false)).map(|entry| entry.rate).or(self.otherwise)
    }

    /// The rate at a time.
    pub fn at(&self, time: Timestamp, zone: &TimeZone) -> Rate {
        let moment = Moment::of(zone.to_datetime(time));
        // Timetables with gaps are rejected by the parser.
        self.find(moment).unwrap_or(Rate::Paused)
    }

    /// When the rate next differs from that at `time`. `None`: never.
    pub fn next_change(&self, time: Timestamp, zone: &TimeZone) -> Option<(Timestamp, Rate)> {
        let now = self.at(time, zone);
        let second = time.as_second();
        let mut next = Timestamp::from_second(second - second.rem_euclid(60)).ok()?;
        // A week, and a day more for clocks that are changed in between.
        for _ in 0..u32::from(MINUTES_PER_DAY) * 8 {
            next = next.checked_add(1.minute()).ok()?;
            let rate = self.at(next, zone);
            if rate != now {
                return Some((next, rate));
            }
        }
        None
    }
}

impl FromStr for Timetable {
    type Err = TimetableError;

    fn from_str(text: &str) -> Result<Self, TimetableError> {
        let (entries, otherwise) = text::parse(text)?;
        let table = Self { entries, otherwise };
        let end = text.trim_end().chars().count() + 1;
        let mut is_allowed = false;
        for day in 0..7 {
            for minute in 0..MINUTES_PER_DAY {
                match table.find(Moment { day, minute }) {
                    Some(rate) => is_allowed |= rate != Rate::Paused,
                    None => {
                        let time = format!("{:02}:{:02}", minute / 60, minute % 60);
                        let problem = Problem::Gap { day: DAYS[usize::from(day)], time };
                        return Err(TimetableError { column: end, problem });
                    }
                }
            }
        }
        if !is_allowed {
            return Err(TimetableError { column: 1, problem: Problem::AlwaysPaused });
        }
        Ok(table)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error("expected a time zone such as Europe/Oslo or UTC, found {0:?}")]
    Unknown(String),
    #[error("the time zone of this machine cannot be determined: {0}")]
    System(String),
}

/// The zone of this name or, without one, that of this machine.
///
/// # Errors
///
/// Names that are not in the IANA database; a machine whose zone cannot be determined.
pub fn zone(name: Option<&str>) -> Result<TimeZone, ZoneError> {
    match name {
        Some(name) => TimeZone::get(name).map_err(|_| ZoneError::Unknown(name.to_owned())),
        None => match TimeZone::try_system() {
            Ok(zone) => Ok(zone),
            Err(error) => Err(ZoneError::System(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests;
