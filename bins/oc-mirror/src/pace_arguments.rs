//! Flags about how fast content is transferred, and when.

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use mirror::PaceChange;
use registry::{Allowed, RateLimiter, Side};
use timetable::{BytesPerSecond, Rate, Timetable, ZoneError, deadline, zone};
use tokio::sync::watch;

use crate::problem::Problem;

const SPEED: &str = "Performance and retries";

#[derive(Debug, Clone, Args)]
pub(crate) struct PaceArguments {
    /// Maximum bytes per second of all transfers together, such as 20MiB, 500kB or 10Mbit [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = SPEED)]
    pub(crate) limit_rate: Option<BytesPerSecond>,
    /// Maximum bytes per second from source registries [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = SPEED)]
    src_limit_rate: Option<BytesPerSecond>,
    /// Maximum bytes per second to the destination registry [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = SPEED)]
    dest_limit_rate: Option<BytesPerSecond>,
    /// Maximum concurrent requests to one source registry, of all processes or pods together; divided equally among them, at least 1 each [default: --parallel-images × --parallel-layers each]
    #[arg(long, value_name = "N", help_heading = SPEED)]
    src_limit_requests: Option<NonZeroUsize>,
    /// Maximum concurrent requests to the destination registry, of all processes or pods together; divided equally among them, at least 1 each [default: --parallel-images × --parallel-layers each]
    #[arg(long, value_name = "N", help_heading = SPEED)]
    dest_limit_requests: Option<NonZeroUsize>,
    /// Limits for a kind of destination registry; --dest-limit-requests takes precedence
    #[arg(long, value_name = "PROFILE", value_enum, default_value = "standard", help_heading = SPEED)]
    dest_profile: Profile,
    /// Rates by time of day, such as "00:00-04:00 full, 04:00-06:00 2MiB, Sat-Sun full, else pause" [default: the configuration's timetable]
    #[arg(long, value_name = "TEXT", value_parser = parse_timetable, help_heading = SPEED)]
    timetable: Option<Timetable>,
    /// Time zone of --timetable and --until, such as Europe/Oslo [default: the configuration's timezone, else this machine's]
    #[arg(long, value_name = "ZONE", value_parser = parse_zone, help_heading = SPEED)]
    timezone: Option<String>,
    /// Stop at this time, such as 04:00 or 2026-11-17T04:00, with exit code 32; the next run continues
    #[arg(long, value_name = "TIME", help_heading = SPEED)]
    until: Option<String>,
}

/// Limits for a kind of registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// No limit
    Standard,
    /// Quay that stores content on a local disk: one upload at a time
    QuayLocalStorage,
}

impl Profile {
    /// Concurrent requests, of each kind.
    fn requests(self) -> Option<NonZeroUsize> {
        match self {
            Self::Standard => None,
            Self::QuayLocalStorage => Some(NonZeroUsize::MIN),
        }
    }
}

pub(crate) fn parse_rate(text: &str) -> Result<BytesPerSecond, String> {
    text.parse().map_err(|error: timetable::RateError| error.to_string())
}

fn parse_timetable(text: &str) -> Result<Timetable, String> {
    text.parse().map_err(|error: timetable::TimetableError| error.to_string())
}

fn parse_zone(text: &str) -> Result<String, String> {
    match zone(Some(text)) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// How fast, and when.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    /// The limits of each side, those that both share among them.
    pub(crate) source: Vec<RateLimiter>,
    pub(crate) destination: Vec<RateLimiter>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) until: Option<Timestamp>,
}

/// A timetable, and what it controls.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) table: Timetable,
    pub(crate) zone: TimeZone,
    pub(crate) limiter: RateLimiter,
    /// Tells the run what is allowed.
    pub(crate) changes: watch::Sender<Option<PaceChange>>,
}

impl PaceArguments {
    /// Maximum concurrent requests to a registry of a side, of all processes together.
    pub(crate) fn requests(&self, side: Side) -> Option<NonZeroUsize> {
        match side {
            Side::Source => self.src_limit_requests,
            Side::Destination => self.dest_limit_requests.or(self.dest_profile.requests()),
        }
    }

    pub(crate) fn has_deadline(&self) -> bool {
        self.until.is_some()
    }

    /// Combines the flags with the configuration; flags take precedence.
    pub(crate) fn pace(
        &self,
        configured: Option<&image_set::TransferTimes>,
        now: Timestamp,
    ) -> Result<Pace, Problem> {
        let zone_name = self.timezone.as_deref();
        let zone_name = zone_name.or_else(|| configured?.timezone.as_deref());
        let table = self.timetable.clone().or_else(|| configured?.timetable.clone());
        if zone_name.is_some() && table.is_none() && self.until.is_none() {
            return Err(Problem::new(
                "--timezone has an effect only together with --timetable or --until",
            ));
        }
        let zone = match table.is_some() || self.until.is_some() {
            true => zone(zone_name).map_err(|error| match error {
                ZoneError::System(_) => {
                    Problem::new(error.to_string()).with_hint("name it with --timezone")
                }
                ZoneError::Unknown(_) => Problem::new(error.to_string()),
            })?,
            false => TimeZone::UTC,
        };
        let until = match &self.until {
            None => None,
            Some(text) => Some(
                deadline(text, now, &zone)
                    .map_err(|error| Problem::new(format!("invalid value for --until: {error}")))?,
            ),
        };
        let schedule = table.map(|table| {
            let limiter = RateLimiter::new(allowed(table.at(now, &zone)));
            Schedule { table, zone: zone.clone(), limiter, changes: watch::Sender::new(None) }
        });
        let shared: Vec<RateLimiter> = self
            .limit_rate
            .iter()
            .map(limiter)
            .chain(schedule.iter().map(|schedule| schedule.limiter.clone()))
            .collect();
        let side = |own: &Option<BytesPerSecond>| {
            shared.iter().cloned().chain(own.iter().map(limiter)).collect()
        };
        Ok(Pace {
            source: side(&self.src_limit_rate),
            destination: side(&self.dest_limit_rate),
            schedule,
            until,
        })
    }
}

/// A limiter that holds transfers at this rate.
pub(crate) fn limiter(rate: &BytesPerSecond) -> RateLimiter {
    RateLimiter::new(Allowed::BytesPerSecond(rate.0))
}

/// A rate as limiters have it.
pub(crate) fn allowed(rate: Rate) -> Allowed {
    match rate {
        Rate::Full => Allowed::Everything,
        Rate::Limited(rate) => Allowed::BytesPerSecond(rate.0),
        Rate::Paused => Allowed::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;

    fn read(flags: &[&str]) -> Result<Arguments, String> {
        let line = ["oc-mirror"].iter().chain(flags);
        Arguments::read(line.map(Into::into)).map_err(|error| error.to_string())
    }

    fn pace(flags: &[&str], times: Option<&image_set::TransferTimes>) -> Result<Pace, Problem> {
        // A Monday, 18:30 in Oslo.
        let now = "2026-11-16T17:30:00Z".parse().unwrap();
        read(flags).unwrap().mirror.pace.pace(times, now)
    }

    #[test]
    fn invalid_values_are_refused_with_the_place() {
        for (flags, expected) in [
            (["--limit-rate", "0"], "expected a rate above 0"),
            (["--src-limit-rate", "fast"], "expected a rate such as 20MiB"),
            (["--dest-limit-rate", "0MiB"], "expected a rate above 0"),
            (["--timetable", "00:00-25:00 full"], "column 7: expected a time"),
            (["--timezone", "Europe/Olso"], "expected a time zone such as Europe/Oslo"),
        ] {
            let error = read(&flags).unwrap_err();
            assert!(error.contains(expected), "{flags:?}: {error}");
        }
        for (flags, expected) in [
            (&["--until", "4 am"][..], "invalid value for --until: expected a time such as 04:00"),
            (
                &["--until", "2026-11-16T04:00", "--timezone", "UTC"],
                "expected a time in the future",
            ),
            (&["--timezone", "UTC"], "--timezone has an effect only together with"),
        ] {
            let problem = pace(flags, None).unwrap_err().to_string();
            assert!(problem.contains(expected), "{flags:?}: {problem}");
        }
    }

    #[test]
    fn sides_share_the_common_limits_and_have_their_own() {
        let none = pace(&[], None).unwrap();
        assert_eq!((none.source.len(), none.destination.len()), (0, 0));
        let table = "00:00-04:00 full, else pause";
        let flags = ["--limit-rate", "2M", "--src-limit-rate", "1M", "--timetable", table];
        let pace = pace(&flags, None).unwrap();
        assert_eq!((pace.source.len(), pace.destination.len()), (3, 2));
        pace.source[0].set(Allowed::Nothing);
        assert_eq!(pace.destination[0].allowed(), Allowed::Nothing);
    }

    #[test]
    fn a_profile_limits_requests_unless_a_flag_does() {
        let requests = |flags: &[&str], side| {
            read(flags).unwrap().mirror.pace.requests(side).map(NonZeroUsize::get)
        };
        assert_eq!(requests(&[], Side::Destination), None);
        let quay = ["--dest-profile", "quay-local-storage"];
        assert_eq!(requests(&quay, Side::Destination), Some(1));
        assert_eq!(requests(&quay, Side::Source), None);
        let both = [&quay[..], &["--dest-limit-requests", "4", "--src-limit-requests", "9"]];
        assert_eq!(requests(&both.concat(), Side::Destination), Some(4));
        assert_eq!(requests(&both.concat(), Side::Source), Some(9));
        assert!(read(&["--dest-limit-requests", "0"]).is_err());
    }

    #[test]
    fn flags_take_precedence_over_the_configuration() {
        let times = image_set::TransferTimes {
            timetable: Some("00:00-12:00 full, else pause".parse().unwrap()),
            timezone: Some("Europe/Oslo".into()),
            ..image_set::TransferTimes::default()
        };
        let allowed = |flags: &[&str]| {
            let pace = pace(flags, Some(&times)).unwrap();
            pace.schedule.unwrap().limiter.allowed()
        };
        assert_eq!(allowed(&[]), Allowed::Nothing);
        // 09:30 in Los Angeles.
        assert_eq!(allowed(&["--timezone", "America/Los_Angeles"]), Allowed::Everything);
        assert_eq!(allowed(&["--timetable", "18:00-19:00 full, else pause"]), Allowed::Everything);
        let until = pace(&["--until", "19:00"], Some(&times)).unwrap().until.unwrap();
        assert_eq!(until.to_string(), "2026-11-16T18:00:00Z");
    }
}
