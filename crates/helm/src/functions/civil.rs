//! Instants, the calendar, and Go's layouts of dates (`2006-01-02T15:04:05Z07:00`).

/// Nanoseconds since 1970.
pub(super) type Nanos = i128;

pub(super) const SECOND: i128 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment in the calendar, with its distance from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    pub(super) nanosecond: u32,
    /// Seconds east of UTC.
    pub(super) offset: i32,
}

impl Civil {
    pub(super) fn from_nanos(nanos: Nanos, offset: i32) -> Self {
        let local = nanos + i128::from(offset) * SECOND;
        let seconds = i64::try_from(local.div_euclid(SECOND)).unwrap_or(0);
        let (days, rest) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        let (year, month, day) = from_days(days);
        Self {
            year,
            month,
            day,
            hour: (rest / 3600) as u32,
            minute: (rest / 60 % 60) as u32,
            second: (rest % 60) as u32,
            nanosecond: local.rem_euclid(SECOND) as u32,
            offset,
        }
    }

    pub(super) fn to_nanos(self) -> Nanos {
        let seconds = to_days(self.year, self.month, self.day) * DAY_SECONDS
            + i64::from(self.hour) * 3600
            + i64::from(self.minute) * 60
            + i64::from(self.second)
            - i64::from(self.offset);
        i128::from(seconds) * SECOND + i128::from(self.nanosecond)
    }

    pub(super) fn weekday(&self) -> usize {
        (to_days(self.year, self.month, self.day) + 4).rem_euclid(7) as usize
    }

    pub(super) fn year_day(&self) -> i64 {
        to_days(self.year, self.month, self.day) - to_days(self.year, 1, 1) + 1
    }
}

/// Days since 1970 of a date in the proleptic Gregorian calendar.
pub(super) fn to_days(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (to_days(next.0, next.1, 1) - to_days(year, month, 1)) as u32
}

/// Elements of a layout; the texts are those of the reference time in Go's layouts.
const ELEMENTS: [&str; 33] = [
    "January",
    "Monday",
    "2006",
    "-07:00:00",
    "Z07:00:00",
    "-070000",
    "Z070000",
    "-07:00",
    "Z07:00",
    "-0700",
    "Z0700",
    "-07",
    "Z07",
    "002",
    "__2",
    "_2",
    "Jan",
    "Mon",
    "MST",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "1",
    "2",
    "3",
    "4",
    "5",
];

/// The next element of a layout: text before it, the element, text behind it.
fn next_element(layout: &str) -> (&str, &str, &str) {
    for (at, _) in layout.char_indices() {
        let rest = &layout[at..];
        for element in ELEMENTS {
            let Some(behind) = rest.strip_prefix(element) else { continue };
            // "Jan" inside "Janet" is not a month.
            let is_part = behind.starts_with(|c: char| c.is_ascii_lowercase());
            if !(matches!(element, "Jan" | "Mon") && is_part) {
                return (&layout[..at], element, behind);
            }
        }
        if let Some(length) = fraction(rest) {
            return (&layout[..at], &rest[..length], &rest[length..]);
        }
    }
    (layout, "", "")
}

/// Length of a fraction such as `.000` or `,999`.
fn fraction(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let digit = chars.next().filter(|c| matches!(c, '.' | ',')).and_then(|_| chars.next())?;
    if digit != '0' && digit != '9' {
        return None;
    }
    let length = 1 + text[1..].find(|c| c != digit).unwrap_or(text.len() - 1);
    let ends = !text[length..].starts_with(|c: char| c.is_ascii_digit());
    ends.then_some(length)
}

/// Go's `Time.Format`.
pub(super) fn format(layout: &str, time: &Civil, zone: &str) -> String {
    let mut out = String::new();
    let mut rest = layout;
    loop {
        let (before, element, behind) = next_element(rest);
        out.push_str(before);
        if element.is_empty() {
            return out;
        }
        out.push_str(&element_text(element, time, zone));
        rest = behind;
    }
}

fn element_text(element: &str, time: &Civil, zone: &str) -> String {
    let twelve = if time.hour.is_multiple_of(12) { 12 } else { time.hour % 12 };
    let month = MONTHS[(time.month as usize - 1) % 12];
    let day = DAYS[time.weekday()];
    match element {
        "January" => month.to_owned(),
        "Jan" => month[..3].to_owned(),
        "Monday" => day.to_owned(),
        "Mon" => day[..3].to_owned(),
        "2006" => format!("{:04}", time.year),
        "06" => format!("{:02}", time.year.rem_euclid(100)),
        "01" => format!("{:02}", time.month),
        "1" => time.month.to_string(),
        "02" => format!("{:02}", time.day),
        "_2" => format!("{:2}", time.day),
        "2" => time.day.to_string(),
        "002" => format!("{:03}", time.year_day()),
        "__2" => format!("{:3}", time.year_day()),
        "15" => format!("{:02}", time.hour),
        "03" => format!("{twelve:02}"),
        "3" => twelve.to_string(),
        "04" => format!("{:02}", time.minute),
        "4" => time.minute.to_string(),
        "05" => format!("{:02}", time.second),
        "5" => time.second.to_string(),
        "PM" => if time.hour < 12 { "AM" } else { "PM" }.to_owned(),
        "pm" => if time.hour < 12 { "am" } else { "pm" }.to_owned(),
        "MST" => zone.to_owned(),
        element if element.starts_with(['.', ',']) => fraction_text(element, time.nanosecond),
        element => offset_text(element, time.offset),
    }
}

fn fraction_text(element: &str, nanosecond: u32) -> String {
    let digits = format!("{nanosecond:09}");
    let kept = &digits[..(element.len() - 1).min(9)];
    if element.ends_with('0') {
        return format!("{}{kept}", &element[..1]);
    }
    let kept = kept.trim_end_matches('0');
    if kept.is_empty() { String::new() } else { format!("{}{kept}", &element[..1]) }
}

fn offset_text(element: &str, offset: i32) -> String {
    if element.starts_with('Z') && offset == 0 {
        return "Z".to_owned();
    }
    let size = offset.unsigned_abs();
    let (hours, minutes, seconds) = (size / 3600, size / 60 % 60, size % 60);
    let sign = if offset < 0 { '-' } else { '+' };
    match &element[1..] {
        "07" => format!("{sign}{hours:02}"),
        "0700" => format!("{sign}{hours:02}{minutes:02}"),
        "07:00" => format!("{sign}{hours:02}:{minutes:02}"),
        "070000" => format!("{sign}{hours:02}{minutes:02}{seconds:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Go's `time.Parse`: `None` if the text does not have the layout.
pub(super) fn parse(layout: &str, text: &str) -> Option<Civil> {
    let mut time = Civil {
        year: 0,
        month: 1,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
        nanosecond: 0,
        offset: 0,
    };
    let mut afternoon = None;
    let (mut layout, mut text) = (layout, text);
    loop {
        let (before, element, behind) = next_element(layout);
        text = text.strip_prefix(before)?;
        if element.is_empty() {
            break;
        }
        text = read_element(element, text, &mut time, &mut afternoon)?;
        // A fraction may follow seconds without being in the layout.
        if matches!(element, "05" | "5") && fraction(behind).is_none() && fraction_start(text) {
            text = read_fraction(text, &mut time)?;
        }
        layout = behind;
    }
    match afternoon {
        Some(true) if time.hour < 12 => time.hour += 12,
        Some(false) if time.hour == 12 => time.hour = 0,
        _ => {}
    }
    let valid = (1..=12).contains(&time.month)
        && (1..=days_in_month(time.year, time.month)).contains(&time.day)
        && time.hour < 24
        && time.minute < 60
        && time.second < 60;
    (text.is_empty() && valid).then_some(time)
}

fn fraction_start(text: &str) -> bool {
    text.starts_with(['.', ',']) && text[1..].starts_with(|c: char| c.is_ascii_digit())
}

fn read_fraction<'t>(text: &'t str, time: &mut Civil) -> Option<&'t str> {
    let digits = text[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - 1);
    let kept: String = text[1..1 + digits].chars().take(9).collect();
    time.nanosecond = format!("{kept:0<9}").parse().ok()?;
    Some(&text[1 + digits..])
}

fn read_element<'t>(
    element: &str,
    text: &'t str,
    time: &mut Civil,
    afternoon: &mut Option<bool>,
) -> Option<&'t str> {
    let fixed = |length: usize| -> Option<(u32, &'t str)> {
        let digits = text.get(..length)?;
        let valid = digits.bytes().all(|byte| byte.is_ascii_digit());
        valid.then(|| Some((digits.parse().ok()?, &text[length..])))?
    };
    let short = || fixed(2).or_else(|| fixed(1));
    let named = |names: &[&str], length: Option<usize>| -> Option<(usize, &'t str)> {
        names.iter().enumerate().find_map(|(index, name)| {
            let name = length.map_or(*name, |length| &name[..length]);
            let head = text.get(..name.len())?;
            head.eq_ignore_ascii_case(name).then(|| (index, &text[name.len()..]))
        })
    };
    let rest;
    match element {
        "2006" => {
            let (year, tail) = fixed(4)?;
            (time.year, rest) = (i64::from(year), tail);
        }
        "06" => {
            let (year, tail) = fixed(2)?;
            (time.year, rest) = (i64::from(year) + if year >= 69 { 1900 } else { 2000 }, tail);
        }
        "January" | "Jan" => {
            let (index, tail) = named(&MONTHS, (element == "Jan").then_some(3))?;
            (time.month, rest) = (index as u32 + 1, tail);
        }
        "Monday" | "Mon" => (_, rest) = named(&DAYS, (element == "Mon").then_some(3))?,
        "01" => (time.month, rest) = fixed(2)?,
        "1" => (time.month, rest) = short()?,
        "02" => (time.day, rest) = fixed(2)?,
        "2" => (time.day, rest) = short()?,
        "_2" => {
            let trimmed = text.strip_prefix(' ').unwrap_or(text);
            return read_element("2", trimmed, time, afternoon);
        }
        "15" => (time.hour, rest) = fixed(2)?,
        "03" => (time.hour, rest) = fixed(2)?,
        "3" => (time.hour, rest) = short()?,
        "04" => (time.minute, rest) = fixed(2)?,
        "4" => (time.minute, rest) = short()?,
        "05" => (time.second, rest) = fixed(2)?,
        "5" => (time.second, rest) = short()?,
        "PM" | "pm" => {
            let head = text.get(..2)?;
            *afternoon = Some(match (element, head) {
                ("PM", "PM") | ("pm", "pm") => true,
                ("PM", "AM") | ("pm", "am") => false,
                _ => return None,
            });
            rest = &text[2..];
        }
        "MST" => {
            let length = text.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(text.len());
            rest = text.get(length..).filter(|_| (3..=4).contains(&length))?;
        }
        element if element.starts_with(['.', ',']) => {
            if !fraction_start(text) {
                return element.ends_with('9').then_some(text);
            }
            rest = read_fraction(text, time)?;
        }
        "002" | "__2" => return None,
        element => return read_offset(element, text, time),
    }
    Some(rest)
}

fn read_offset<'t>(element: &str, text: &'t str, time: &mut Civil) -> Option<&'t str> {
    if element.starts_with('Z') && text.starts_with('Z') {
        return Some(&text[1..]);
    }
    let length = element.len();
    let head = text.get(..length)?;
    let sign = match head.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let mut parts = [0i32; 3];
    let digits: String = head[1..].chars().filter(|c| *c != ':').collect();
    for (slot, pair) in parts.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *slot = std::str::from_utf8(pair).ok()?.parse().ok()?;
    }
    time.offset = sign * (parts[0] * 3600 + parts[1] * 60 + parts[2]);
    Some(&text[length..])
}

/// Go's `time.Duration.String`.
pub(super) fn duration_text(nanos: i128) -> String {
    let size = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let with_fraction = |unit: u128, name: &str| {
        let (whole, part) = (size / unit, size % unit);
        let width = unit.ilog10() as usize;
        let digits = format!("{part:0width$}");
        let fraction = digits.trim_end_matches('0');
        match fraction {
            "" => format!("{sign}{whole}{name}"),
            fraction => format!("{sign}{whole}.{fraction}{name}"),
        }
    };
    match size {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{sign}{size}ns"),
        1_000..1_000_000 => return with_fraction(1_000, "µs"),
        1_000_000..1_000_000_000 => return with_fraction(1_000_000, "ms"),
        _ => {}
    }
    let seconds = size / SECOND as u128;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = size % (60 * SECOND as u128);
    let whole = rest / SECOND as u128;
    let digits = format!("{:09}", rest % SECOND as u128);
    let fraction = digits.trim_end_matches('0');
    let seconds =
        if fraction.is_empty() { format!("{whole}s") } else { format!("{whole}.{fraction}s") };
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
    }
}

/// Go's `time.ParseDuration`, in nanoseconds.
pub(super) fn parse_duration(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
        let number: f64 = rest[..length].parse().ok()?;
        rest = &rest[length..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += number
            * match &rest[..end] {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
        rest = &rest[end..];
    }
    Some((sign * total) as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference time of Go's documentation, and a date before 1970.
    #[test]
    fn dates_are_formatted_and_read_in_layouts() {
        let time = parse("2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05-07:00").unwrap();
        assert_eq!(time.to_nanos(), 1_136_239_445 * SECOND);
        let layout = "Mon Jan _2 15:04:05 -0700 2006";
        assert_eq!(format(layout, &time, "MST"), "Mon Jan  2 15:04:05 -0700 2006");
        let old = Civil::from_nanos(-SECOND, 0);
        assert_eq!(format("2006-01-02 03:04:05PM", &old, "UTC"), "1969-12-31 11:59:59PM");
        assert!(parse("2006-01-02", "2021-02-30").is_none());
    }

    #[test]
    fn durations_are_printed_and_read() {
        assert_eq!(duration_text(3661 * SECOND), "1h1m1s");
        assert_eq!(duration_text(1_500_000), "1.5ms");
        assert_eq!(parse_duration("1h30m"), Some(5400 * SECOND));
        assert_eq!(parse_duration("-1.5s"), Some(-1_500_000_000));
        assert_eq!(parse_duration("x"), None);
    }
}
