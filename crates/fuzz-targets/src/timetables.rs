//! Timetables of transfer rates.

use jiff::{Timestamp, ToSpan as _};
use timetable::{Timetable, zone};

use crate::text;

/// A timetable. Rates change at the computed times, also when clocks are changed.
pub fn timetable(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let table: Timetable = match text.parse() {
        Ok(table) => table,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let zone = zone(Some("Europe/Oslo")).expect("the zone is in the program");
    // Two days before summer time begins.
    let mut time: Timestamp = "2026-03-27T00:00:00Z".parse().expect("the time is valid");
    for _ in 0..20 {
        let Some((next, rate)) = table.next_change(time, &zone) else { return };
        assert!(next > time, "{next} does not follow {time}");
        assert_eq!(table.at(next, &zone), rate);
        let before = next - 1.second();
        if before > time {
            assert_eq!(table.at(before, &zone), table.at(time, &zone));
        }
        time = next;
    }
}
