use super::*;

const SHIP: &str = "00:00-04:00 full, 04:00-06:00 2MiB, Sat-Sun full, else pause";

fn table(text: &str) -> Timetable {
    text.parse().unwrap()
}

fn rate(text: &str, at: &str, zone_name: &str) -> String {
    let zone = zone(Some(zone_name)).unwrap();
    let time = zone.to_timestamp(at.parse().unwrap()).unwrap();
    table(text).at(time, &zone).to_string()
}

#[test]
fn the_rate_depends_on_the_time_and_the_weekday() {
    // 2026-11-16 is a Monday.
    for (at, expected) in [
        ("2026-11-16T00:00:00", "full rate"),
        ("2026-11-16T03:59:59", "full rate"),
        ("2026-11-16T04:00:00", "2.0 MiB/s"),
        ("2026-11-16T06:00:00", "paused"),
        ("2026-11-20T23:59:00", "paused"),
        ("2026-11-21T00:00:00", "full rate"),
        ("2026-11-21T05:00:00", "full rate"),
        ("2026-11-22T23:59:00", "full rate"),
        ("2026-11-23T07:00:00", "paused"),
    ] {
        assert_eq!(rate(SHIP, at, "Europe/Oslo"), expected, "{at}");
    }
}

#[test]
fn a_window_across_midnight_belongs_to_the_day_it_begins_on() {
    let text = "Fri 22:00-06:00 full, else pause";
    for (at, expected) in [
        ("2026-11-20T21:59:00", "paused"),
        ("2026-11-20T22:00:00", "full rate"),
        ("2026-11-21T05:59:00", "full rate"),
        ("2026-11-21T06:00:00", "paused"),
        ("2026-11-20T05:00:00", "paused"),
        ("2026-11-21T23:00:00", "paused"),
    ] {
        assert_eq!(rate(text, at, "UTC"), expected, "{at}");
    }
    // From Sunday into Monday.
    let text = "Sun 22:00-06:00 full, else pause";
    assert_eq!(rate(text, "2026-11-23T05:00:00", "UTC"), "full rate");
    // Days may run across the weekend.
    let text = "Sat-Mon full, else pause";
    assert_eq!(rate(text, "2026-11-23T12:00:00", "UTC"), "full rate");
    assert_eq!(rate(text, "2026-11-24T12:00:00", "UTC"), "paused");
}

#[test]
fn entries_with_days_take_precedence_and_then_the_first_that_applies() {
    let text = "08:00-16:00 1MiB, 08:00-20:00 2MiB, Mon 09:00-10:00 pause, else full";
    assert_eq!(rate(text, "2026-11-16T09:30:00", "UTC"), "paused");
    assert_eq!(rate(text, "2026-11-16T10:30:00", "UTC"), "1.0 MiB/s");
    assert_eq!(rate(text, "2026-11-16T18:30:00", "UTC"), "2.0 MiB/s");
}

/// Changes after a time, as local date and time.
fn changes(text: &str, from: &str, zone_name: &str, count: usize) -> Vec<String> {
    let (table, zone) = (table(text), zone(Some(zone_name)).unwrap());
    let mut time = zone.to_timestamp(from.parse().unwrap()).unwrap();
    let mut changes = Vec::new();
    for _ in 0..count {
        let Some((next, rate)) = table.next_change(time, &zone) else { break };
        time = next;
        changes.push(format!("{} {} {rate}", zone.to_datetime(next), zone.to_offset(next)));
    }
    changes
}

#[test]
fn the_next_change_is_found() {
    assert_eq!(
        changes(SHIP, "2026-11-19T23:59:59", "Europe/Oslo", 5),
        [
            "2026-11-20T00:00:00 +01 full rate",
            "2026-11-20T04:00:00 +01 2.0 MiB/s",
            "2026-11-20T06:00:00 +01 paused",
            "2026-11-21T00:00:00 +01 full rate",
            "2026-11-23T04:00:00 +01 2.0 MiB/s",
        ]
    );
    assert!(changes("else full", "2026-11-19T23:59:59", "UTC", 1).is_empty());
}

#[test]
fn changes_of_clocks_are_respected() {
    // 2026-03-29, Oslo: 02:00 is followed by 03:00. The night is an hour shorter.
    let night = "01:00-05:00 full, else pause";
    assert_eq!(
        changes(night, "2026-03-28T23:00:00", "Europe/Oslo", 2),
        ["2026-03-29T01:00:00 +01 full rate", "2026-03-29T05:00:00 +02 paused"]
    );
    // A window inside the hour that is skipped does not occur on that day.
    let skipped = "02:00-03:00 full, else pause";
    assert_eq!(
        changes(skipped, "2026-03-29T00:00:00", "Europe/Oslo", 1),
        ["2026-03-30T02:00:00 +02 full rate"]
    );
    // 2026-10-25, Oslo: 02:00 to 03:00 occurs twice.
    assert_eq!(
        changes("02:00-02:30 full, else pause", "2026-10-25T00:00:00", "Europe/Oslo", 4),
        [
            "2026-10-25T02:00:00 +02 full rate",
            "2026-10-25T02:30:00 +02 paused",
            "2026-10-25T02:00:00 +01 full rate",
            "2026-10-25T02:30:00 +01 paused",
        ]
    );
    // Half-hour zones and half-hour changes.
    assert_eq!(
        changes(night, "2026-04-04T23:00:00", "Australia/Lord_Howe", 2),
        ["2026-04-05T01:00:00 +11 full rate", "2026-04-05T05:00:00 +10:30 paused"]
    );
}

#[test]
fn errors_are_reported_with_their_column() {
    for (text, expected) in [
        ("", "column 1: expected an entry such as \"22:00-06:00 full\", found nothing"),
        (
            "00:00-04:00",
            "column 12: expected \"full\", \"pause\" or a rate such as 2MiB, found nothing",
        ),
        (
            "00:00-04:00 fast",
            "column 13: expected \"full\", \"pause\" or a rate such as 2MiB, found \"fast\"",
        ),
        ("00:00-25:00 full", "column 7: expected a time from 00:00 to 24:00, found \"25:00\""),
        ("0:00-4:00 full", "column 1: expected a time from 00:00 to 24:00, found \"0:00\""),
        ("00:00 full", "column 1: expected a window such as 22:00-06:00, found \"00:00\""),
        ("24:00-04:00 full", "column 1: expected a time from 00:00 to 23:59, found \"24:00\""),
        (
            "04:00-04:00 full",
            "column 1: the window begins and ends at the same time; write 00:00-24:00 for a whole day",
        ),
        ("else pause, Sat full", "column 13: \"else\" must be the last entry"),
        (
            "Sat full,, else pause",
            "column 10: expected an entry such as \"22:00-06:00 full\", found nothing",
        ),
        (
            "Mon-Fro full",
            "column 5: expected a weekday such as Mon, a window such as 22:00-06:00, or \"else\", found \"Fro\"",
        ),
        ("00:00-04:00 full now", "column 18: expected a comma or the end, found \"now\""),
        (
            "Sat 00:00-04:00 0MiB, else full",
            "column 17: expected a rate above 0, found \"0MiB\"; leave the limit out, or pause with a timetable",
        ),
        (
            "00:00-04:00 full",
            "column 17: no entry applies on Monday at 04:00: add \"else pause\", \"else full\" or a rate at the end",
        ),
        ("else pause", "column 1: no entry ever allows a transfer: give one a rate, or \"full\""),
    ] {
        let error = text.parse::<Timetable>().unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    }
}

#[test]
fn a_table_without_else_may_cover_the_week() {
    table("00:00-12:00 full, 12:00-24:00 1MiB");
    table("Mon-Fri 2MiB, saturday-Sunday FULL");
}

#[test]
fn zones_are_known_by_name() {
    assert!(zone(Some("Europe/Oslo")).is_ok());
    let error = zone(Some("Europe/Olso")).unwrap_err().to_string();
    assert_eq!(error, "expected a time zone such as Europe/Oslo or UTC, found \"Europe/Olso\"");
}
