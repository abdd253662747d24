//! Parses a timetable: entries separated by commas, each with days, a window, or `else`, and a rate.

use crate::error::{Problem, TimetableError};
use crate::rate::{BytesPerSecond, Rate};
use crate::table::{DAYS, Days, Entry, MINUTES_PER_DAY, Window};

/// A word and the column it starts at.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    column: usize,
}

impl Word<'_> {
    fn fail(&self, problem: Problem) -> TimetableError {
        TimetableError { column: self.column, problem }
    }

    fn expected(&self, expected: &'static str) -> TimetableError {
        let found =
            if self.text.is_empty() { "nothing".into() } else { format!("{:?}", self.text) };
        self.fail(Problem::Expected { expected, found })
    }

    /// The parts before and after the first `-`.
    fn split_dash(&self) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once('-')?;
        let column = self.column + before.chars().count() + 1;
        Some((Self { text: before, ..*self }, Self { text: after, column }))
    }
}

/// The entries of a timetable, and separately the rate of `else`.
pub(crate) fn parse(text: &str) -> Result<(Vec<Entry>, Option<Rate>), TimetableError> {
    let (mut entries, mut otherwise) = (Vec::new(), None);
    let mut column = 1;
    for part in text.split(',') {
        let words = words(part, column);
        let end = Word { text: "", column: column + part.trim_end().chars().count() };
        column += part.chars().count() + 1;
        let Some((first, rest)) = words.split_first() else {
            return Err(end.expected("an entry such as \"22:00-06:00 full\""));
        };
        if otherwise.is_some() {
            return Err(first.fail(Problem::ElseNotLast));
        }
        if first.text.eq_ignore_ascii_case("else") {
            otherwise = Some(rate(rest, end)?);
            continue;
        }
        entries.push(entry(*first, rest, end)?);
    }
    Ok((entries, otherwise))
}

fn words(part: &str, from: usize) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut start = None;
    for (count, (at, c)) in part.char_indices().chain([(part.len(), ' ')]).enumerate() {
        match (c.is_whitespace(), start) {
            (false, None) => start = Some((at, from + count)),
            (true, Some((begin, column))) => {
                words.push(Word { text: &part[begin..at], column });
                start = None;
            }
            _ => {}
        }
    }
    words
}

fn entry<'a>(first: Word<'a>, rest: &[Word<'a>], end: Word<'a>) -> Result<Entry, TimetableError> {
    if first.text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Entry { days: None, window: Some(window(first)?), rate: rate(rest, end)? });
    }
    let days = Some(days(first)?);
    match rest.split_first() {
        Some((word, rest)) if word.text.contains(':') => {
            Ok(Entry { days, window: Some(window(*word)?), rate: rate(rest, end)? })
        }
        _ => Ok(Entry { days, window: None, rate: rate(rest, end)? }),
    }
}

fn rate(words: &[Word<'_>], end: Word<'_>) -> Result<Rate, TimetableError> {
    const EXPECTED: &str = "\"full\", \"pause\" or a rate such as 2MiB";
    let (word, rest) = words.split_first().ok_or_else(|| end.expected(EXPECTED))?;
    if let Some(extra) = rest.first() {
        return Err(extra.expected("a comma or the end"));
    }
    match word.text.to_ascii_lowercase().as_str() {
        "full" => Ok(Rate::Full),
        "pause" | "paused" => Ok(Rate::Paused),
        text if text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(':') => {
            let rate: BytesPerSecond =
                word.text.parse().map_err(|error| word.fail(Problem::Rate(error)))?;
            Ok(Rate::Limited(rate))
        }
        _ => Err(word.expected(EXPECTED)),
    }
}

fn days(word: Word<'_>) -> Result<Days, TimetableError> {
    match word.split_dash() {
        Some((first, last)) => Ok(Days { first: day(first)?, last: day(last)? }),
        None => day(word).map(|day| Days { first: day, last: day }),
    }
}

/// `Mon` or `Monday`, in any case.
fn day(word: Word<'_>) -> Result<u8, TimetableError> {
    let lower = word.text.to_ascii_lowercase();
    let is = |name: &&str| {
        let name = name.to_ascii_lowercase();
        lower.len() >= 3 && name.starts_with(&lower)
    };
    let found = DAYS.iter().position(is).and_then(|at| u8::try_from(at).ok());
    found.ok_or_else(|| {
        word.expected("a weekday such as Mon, a window such as 22:00-06:00, or \"else\"")
    })
}

fn window(word: Word<'_>) -> Result<Window, TimetableError> {
    let (from, to) =
        word.split_dash().ok_or_else(|| word.expected("a window such as 22:00-06:00"))?;
    let window = Window { from: time(from)?, to: time(to)? };
    if window.from == MINUTES_PER_DAY {
        return Err(from.expected("a time from 00:00 to 23:59"));
    }
    if window.from == window.to {
        return Err(word.fail(Problem::EmptyWindow));
    }
    Ok(window)
}

/// Minutes since midnight; 24:00 is the end of a day.
fn time(word: Word<'_>) -> Result<u16, TimetableError> {
    let two_digits = |text: &str| {
        (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let read = || -> Option<u16> {
        let (hours, minutes) = word.text.split_once(':')?;
        let (hours, minutes): (u16, u16) = (two_digits(hours)?, two_digits(minutes)?);
        (minutes < 60 && hours * 60 + minutes <= MINUTES_PER_DAY).then_some(hours * 60 + minutes)
    };
    read().ok_or_else(|| word.expected("a time from 00:00 to 24:00"))
}
