//! Dates. The local time zone is UTC, and no other zone is known: reading the system's would make
//! documents depend on the machine.

use go_template::{Arguments, Arity, FunctionError, Functions, Kind, Object, Value};

use super::Outcome;
use super::civil::{Civil, Nanos, SECOND, duration_text, format, parse, parse_duration};

/// Go's zero time, the year 1.
const ZERO_TIME: Nanos = -62_135_596_800 * SECOND;

pub(super) fn register(functions: &mut Functions, now: Nanos) {
    functions.add("now", Arity::exactly(0), move |_, _| Ok(time(now, 0)));
    functions.add("date", Arity::exactly(2), move |call, values| {
        let layout = values.text(0)?;
        call.text(format(&layout, &moment(&values.any(1), now).in_utc(), "UTC"))
    });
    for name in ["dateInZone", "date_in_zone"] {
        functions.add(name, Arity::exactly(3), move |call, values| {
            let layout = values.text(0)?;
            values.text(2)?;
            call.text(format(&layout, &moment(&values.any(1), now).in_utc(), "UTC"))
        });
    }
    functions.add("htmlDate", Arity::exactly(1), move |call, values| {
        call.text(format("2006-01-02", &moment(&values.any(0), now).in_utc(), "UTC"))
    });
    functions.add("htmlDateInZone", Arity::exactly(2), move |call, values| {
        values.text(1)?;
        call.text(format("2006-01-02", &moment(&values.any(0), now).in_utc(), "UTC"))
    });
    for (name, must) in [
        ("dateModify", false),
        ("date_modify", false),
        ("mustDateModify", true),
        ("must_date_modify", true),
    ] {
        functions.add(name, Arity::exactly(2), move |_, values| {
            let (text, moment) = (values.text(0)?, time_argument(&values.any(1))?);
            match parse_duration(&text) {
                Some(duration) => Ok(time(moment.nanos + duration, moment.offset)),
                None if must => Err(format!("time: invalid duration {text:?}").into()),
                None => Ok(time(moment.nanos, moment.offset)),
            }
        });
    }
    functions.add("ago", Arity::exactly(1), move |call, values| {
        let elapsed = now - moment(&values.any(0), now).nanos;
        let rounded = (elapsed + SECOND / 2).div_euclid(SECOND) * SECOND;
        call.text(duration_text(rounded))
    });
    functions.add("duration", Arity::exactly(1), |call, values| {
        let seconds = match values.any(0) {
            Value::String(text) => text.parse::<i64>().unwrap_or(0),
            Value::Int64(number) => number,
            _ => 0,
        };
        call.text(duration_text(i128::from(seconds.wrapping_mul(SECOND as i64))))
    });
    functions.add("durationRound", Arity::exactly(1), move |call, values| {
        let value = values.any(0);
        let nanos = match &value {
            Value::String(text) => parse_duration(text).unwrap_or(0),
            Value::Int64(number) => i128::from(*number),
            value => time_argument(value).map_or(0, |time| now - time.nanos),
        };
        call.text(rounded(nanos))
    });
    functions.add("toDate", Arity::exactly(2), |_, values| {
        let found = parse(&values.text(0)?, &values.text(1)?);
        Ok(found.map_or(time(ZERO_TIME, 0), |civil| time(civil.to_nanos(), civil.offset)))
    });
    functions.add("mustToDate", Arity::exactly(2), |_, values| {
        let (layout, text) = (values.text(0)?, values.text(1)?);
        match parse(&layout, &text) {
            Some(civil) => Ok(time(civil.to_nanos(), civil.offset)),
            None => Err(format!("parsing time {text:?} as {layout:?}: cannot parse").into()),
        }
    });
    functions.add("unixEpoch", Arity::exactly(1), |call, values| {
        let moment = time_argument(&values.any(0))?;
        call.text(moment.nanos.div_euclid(SECOND).to_string())
    });
}

/// The largest unit that fits, without a fraction.
fn rounded(nanos: i128) -> String {
    let size = nanos.unsigned_abs();
    let hour = 3600 * SECOND as u128;
    for (unit, name) in [
        (hour * 24 * 365, "y"),
        (hour * 24 * 30, "mo"),
        (hour * 24, "d"),
        (hour, "h"),
        (60 * SECOND as u128, "m"),
        (SECOND as u128, "s"),
    ] {
        if size > unit {
            return format!("{}{name}", size / unit);
        }
    }
    "0s".to_owned()
}

/// A value of Go's type `time.Time`.
#[derive(Debug, Clone, Copy)]
struct Time {
    nanos: Nanos,
    offset: i32,
}

fn time(nanos: Nanos, offset: i32) -> Value {
    Value::object(Time { nanos, offset })
}

/// A date, a number of seconds, or now.
fn moment(value: &Value, now: Nanos) -> Time {
    match value {
        Value::Int(seconds) | Value::Int64(seconds) => {
            Time { nanos: i128::from(*seconds) * SECOND, offset: 0 }
        }
        value => time_argument(value).unwrap_or(Time { nanos: now, offset: 0 }),
    }
}

fn time_argument(value: &Value) -> Result<Time, FunctionError> {
    let found = match value {
        Value::Object(object) => object.as_any().and_then(|any| any.downcast_ref::<Time>()),
        _ => None,
    };
    found.copied().ok_or_else(|| {
        let kind = value.type_name();
        FunctionError::Argument(format!("wrong type for value; expected time.Time; got {kind}"))
    })
}

impl Time {
    fn in_utc(self) -> Civil {
        Civil::from_nanos(self.nanos, 0)
    }

    fn civil(self) -> Civil {
        Civil::from_nanos(self.nanos, self.offset)
    }
}

impl Object for Time {
    fn type_name(&self) -> String {
        "time.Time".to_owned()
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, _: &str) -> Option<Value> {
        None
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Outcome> {
        let civil = self.civil();
        let int = |number: i64| Ok(Value::Int(number));
        Some(match name {
            "Format" => arguments.text(0).map(|layout| format(&layout, &civil, "UTC").into()),
            "Unix" => Ok(Value::Int64(self.nanos.div_euclid(SECOND) as i64)),
            "UnixMilli" => Ok(Value::Int64(self.nanos.div_euclid(SECOND / 1000) as i64)),
            "UnixNano" => Ok(Value::Int64(self.nanos as i64)),
            "UTC" | "Local" => Ok(time(self.nanos, 0)),
            "String" => Ok(self.text().unwrap_or_default().into()),
            "Year" => int(civil.year),
            "Month" => Ok(format("January", &civil, "UTC").into()),
            "Weekday" => Ok(format("Monday", &civil, "UTC").into()),
            "Day" => int(i64::from(civil.day)),
            "Hour" => int(i64::from(civil.hour)),
            "Minute" => int(i64::from(civil.minute)),
            "Second" => int(i64::from(civil.second)),
            "Nanosecond" => int(i64::from(civil.nanosecond)),
            "YearDay" => int(civil.year_day()),
            "IsZero" => Ok((self.nanos == ZERO_TIME).into()),
            "AddDate" => add_date(*self, arguments),
            _ => return None,
        })
    }

    fn plain(&self) -> Value {
        format("2006-01-02T15:04:05.999999999Z07:00", &self.civil(), "UTC").into()
    }

    fn text(&self) -> Option<String> {
        Some(format("2006-01-02 15:04:05.999999999 -0700 MST", &self.civil(), "UTC"))
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

fn add_date(start: Time, arguments: &[Value]) -> Outcome {
    let (years, months, days) = (arguments.int(0)?, arguments.int(1)?, arguments.int(2)?);
    // Far beyond any calendar; keeps the arithmetic in range.
    if [years, months, days].iter().any(|part| part.abs() > 1_000_000) {
        return Err("the date is out of range".into());
    }
    let mut civil = start.civil();
    let day = i64::from(civil.day) - 1 + days;
    let month = civil.year * 12 + i64::from(civil.month) - 1 + years * 12 + months;
    civil.year = month.div_euclid(12);
    civil.month = month.rem_euclid(12) as u32 + 1;
    civil.day = 1;
    Ok(time(civil.to_nanos() + i128::from(day) * 86_400 * SECOND, start.offset))
}
