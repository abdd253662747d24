//! Follows a timetable while a run is under way.

use std::time::Duration;

use jiff::Timestamp;
use mirror::PaceChange;
use timetable::Rate;

use crate::pace_arguments::{Schedule, allowed};

/// The longest sleep between checks of the clock: it may be set, or the machine suspended.
const STEP: Duration = Duration::from_secs(20);

/// Sets the rate of the moment, and each one after it. Never ends.
pub(crate) async fn follow(schedule: Option<&Schedule>) {
    let Some(Schedule { table, zone, limiter, changes }) = schedule else {
        return std::future::pending().await;
    };
    let mut current = None;
    loop {
        let now = Timestamp::now();
        let rate = table.at(now, zone);
        let next = table.next_change(now, zone);
        if current != Some(rate) {
            limiter.set(allowed(rate));
            let text = announcement(rate, next, zone);
            tracing::info!("{text}");
            changes.send_replace(Some(PaceChange { is_paused: rate == Rate::Paused, text }));
            current = Some(rate);
        }
        let until_next = next.map(|(time, _)| time.duration_since(now));
        let wait = until_next.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or(STEP);
        tokio::time::sleep(wait.min(STEP)).await;
    }
}

/// The message when the rate changes.
fn announcement(rate: Rate, next: Option<(Timestamp, Rate)>, zone: &jiff::tz::TimeZone) -> String {
    let until = next.map(|(time, then)| {
        let time = zone.to_datetime(time).strftime("%a %H:%M");
        format!(" until {time}, then {then}")
    });
    let until = until.unwrap_or_default();
    match rate {
        Rate::Paused => format!("transfers are paused by the timetable{until}"),
        rate => format!("transfers run at {rate} by the timetable{until}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_announced_with_its_end() {
        let zone = timetable::zone(Some("Europe/Oslo")).unwrap();
        let next = Some(("2026-11-16T23:00:00Z".parse().unwrap(), Rate::Full));
        assert_eq!(
            announcement(Rate::Paused, next, &zone),
            "transfers are paused by the timetable until Tue 00:00, then full rate"
        );
        assert_eq!(
            announcement(Rate::Full, None, &zone),
            "transfers run at full rate by the timetable"
        );
    }
}
