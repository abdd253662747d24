//! Upper and lower case, words, abbreviation and wrapping.

use go_template::{Arguments, Arity, Call, Functions, Value};

use super::Outcome;

type Change = fn(&str) -> String;

pub(super) fn register(functions: &mut Functions) {
    let changes: [(&str, Change); 10] = [
        ("upper", |text| text.chars().map(upper).collect()),
        ("lower", |text| text.chars().map(lower).collect()),
        ("title", title),
        ("untitle", untitle),
        ("swapcase", swap_case),
        ("nospace", |text| text.chars().filter(|c| !c.is_whitespace()).collect()),
        ("initials", initials),
        ("snakecase", |text| separated(text, '_')),
        ("kebabcase", |text| separated(text, '-')),
        ("camelcase", camel_case),
    ];
    for (name, change) in changes {
        functions.add(name, Arity::exactly(1), move |call, values| {
            let text = values.text(0)?;
            call.text(change(&text))
        });
    }
    functions.add("abbrev", Arity::exactly(2), |_, values| {
        let (width, text) = (values.int(0)?, values.bytes(1)?);
        Ok(Value::bytes(&abbreviate(&text, 0, width)))
    });
    functions.add("abbrevboth", Arity::exactly(3), |_, values| {
        let (left, right, text) = (values.int(0)?, values.int(1)?, values.bytes(2)?);
        if right < 4 || left > 0 && right < 7 {
            return Ok(Value::bytes(&text));
        }
        Ok(Value::bytes(&abbreviate(&text, left, right)))
    });
    functions.add("wrap", Arity::exactly(2), |call, values| {
        let (width, text) = (values.int(0)?, values.bytes(1)?);
        wrap(call, &text, width, "\n", false)
    });
    functions.add("wrapWith", Arity::exactly(3), |call, values| {
        let (width, separator, text) = (values.int(0)?, values.text(1)?, values.bytes(2)?);
        let separator = if separator.is_empty() { "\n" } else { &separator };
        wrap(call, &text, width, separator, true)
    });
}

/// One character for one, as in Go: `ß` has no upper case of one character.
fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

fn lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        _ => c,
    }
}

fn title(text: &str) -> String {
    let mut at_start = true;
    text.chars()
        .map(|c| {
            let result = if at_start { upper(c) } else { c };
            at_start = match c {
                '_' => false,
                c if c.is_ascii() => !c.is_ascii_alphanumeric(),
                c => !c.is_alphanumeric() && c.is_whitespace(),
            };
            result
        })
        .collect()
}

fn untitle(text: &str) -> String {
    let mut at_start = true;
    text.chars()
        .map(|c| {
            if c.is_whitespace() {
                at_start = true;
                c
            } else if std::mem::take(&mut at_start) {
                lower(c)
            } else {
                c
            }
        })
        .collect()
}

fn swap_case(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_uppercase() {
                lower(c)
            } else if c.is_lowercase() {
                upper(c)
            } else {
                c
            }
        })
        .collect()
}

fn initials(text: &str) -> String {
    text.split_whitespace().filter_map(|word| word.chars().next()).collect()
}

fn abbreviate(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    let Some(width) = usize::try_from(width).ok().filter(|width| *width >= 4) else {
        return text.to_vec();
    };
    if text.len() <= width {
        return text.to_vec();
    }
    let mut offset = usize::try_from(offset).unwrap_or(0).min(text.len());
    if text.len() - offset < width - 3 {
        offset = text.len() - (width - 3);
    }
    let marker = b"...".as_slice();
    if offset <= 4 {
        return [&text[..width - 3], marker].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset + width - 3 < text.len() {
        let inner = abbreviate(&text[offset..], 0, width as i64 - 3);
        return [marker, &inner].concat();
    }
    [marker, &text[text.len() - (width - 3)..]].concat()
}

/// Lines of at most `width` bytes. Words that are longer are cut only if requested.
fn wrap(call: &mut Call<'_>, text: &[u8], width: i64, separator: &str, cut_words: bool) -> Outcome {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let lines = text.len() / width + text.iter().filter(|byte| **byte == b' ').count();
    call.allocate(text.len().saturating_add(lines.saturating_mul(separator.len())))?;
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while text.len() - at > width {
        if text[at] == b' ' {
            at += 1;
            continue;
        }
        let window = &text[at..at + width + 1];
        if let Some(space) = window.iter().rposition(|byte| *byte == b' ') {
            out.extend_from_slice(&text[at..at + space]);
            out.extend_from_slice(separator.as_bytes());
            at += space + 1;
        } else if cut_words {
            out.extend_from_slice(&text[at..at + width]);
            out.extend_from_slice(separator.as_bytes());
            at += width;
        } else {
            match text[at + width..].iter().position(|byte| *byte == b' ') {
                Some(space) => {
                    out.extend_from_slice(&text[at..at + width + space]);
                    out.extend_from_slice(separator.as_bytes());
                    at += width + space + 1;
                }
                None => {
                    out.extend_from_slice(&text[at..]);
                    at = text.len();
                }
            }
        }
    }
    out.extend_from_slice(&text[at..]);
    Ok(Value::bytes(&out))
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// Words joined with capitals: `some_words` becomes `SomeWords`. Connectors at the start, at the
/// end and all but one of several in a row stay.
fn camel_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut current = None;
    let mut first_was_upper = false;
    for c in chars.by_ref() {
        if !is_connector(c) {
            first_was_upper = c.is_uppercase();
            current = Some(upper(c));
            break;
        }
        out.push(c);
    }
    let Some(mut current) = current else { return out };
    for c in chars {
        let previous = current;
        current = c;
        if is_connector(c) && is_connector(previous) {
            out.push(previous);
            continue;
        }
        if is_connector(previous) {
            first_was_upper = c.is_uppercase();
            current = upper(c);
            continue;
        }
        if first_was_upper {
            if c.is_uppercase() {
                current = lower(c);
            } else {
                first_was_upper = false;
            }
        }
        out.push(previous);
    }
    out.push(current);
    out
}

/// What a run of characters is, for splitting names into words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

/// Words in lower case with `connector` between: `HTTP20xOK` becomes `http_20x_ok`.
fn separated(text: &str, connector: char) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let push = |out: &mut String, kind: Word, word: &str| {
        if kind == Word::Connector {
            out.extend(word.chars().map(|_| connector));
        } else {
            out.extend(word.chars().map(lower));
        }
    };
    let joins = |kind: Word| kind != Word::Connector && kind != Word::Punctuation;
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push(&mut out, kind, word);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            Word::Number => {
                while matches!(kind, Word::Letters | Word::Number) {
                    push(&mut out, kind, word);
                    (kind, word, rest) = next_word(rest);
                }
                if kind != Word::None && joins(kind) {
                    out.push(connector);
                }
            }
            Word::Connector => push(&mut out, before, last),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if joins(kind) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Letters {
                    push(&mut out, Word::Number, number);
                    if joins(kind) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                push(&mut out, Word::Number, number);
                while matches!(kind, Word::Letters | Word::Number) {
                    push(&mut out, kind, word);
                    (kind, word, rest) = next_word(rest);
                }
                if kind != Word::None && joins(kind) {
                    out.push(connector);
                }
            }
        }
    }
    push(&mut out, kind, word);
    out
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
}

/// The first word, its kind, and what follows it.
fn next_word(text: &str) -> (Word, &str, &str) {
    let Some(first) = text.chars().next() else { return (Word::None, "", "") };
    let run = |keep: fn(char) -> bool| {
        let length = text.find(|c| !keep(c)).unwrap_or(text.len());
        text.split_at(length)
    };
    let small = |c: char| c.is_alphabetic() && !c.is_uppercase();
    if is_connector(first) {
        let (word, rest) = run(is_connector);
        return (Word::Connector, word, rest);
    }
    if is_punctuation(first) {
        let (word, rest) = run(is_punctuation);
        return (Word::Punctuation, word, rest);
    }
    if first.is_uppercase() {
        let capitals = text.find(|c: char| !c.is_uppercase()).unwrap_or(text.len());
        let behind = text[capitals..].chars().next();
        let length = if text[..capitals].chars().count() > 1 {
            // The last capital begins the next word if letters follow it.
            match (behind, text[..capitals].chars().next_back()) {
                (Some(c), Some(last)) if c.is_alphabetic() => capitals - last.len_utf8(),
                _ => capitals,
            }
        } else {
            let start = first.len_utf8();
            text[start..].find(|c| !small(c)).map_or(text.len(), |at| start + at)
        };
        let (word, rest) = text.split_at(length);
        return (Word::Upper, word, rest);
    }
    if first.is_alphabetic() {
        let (word, rest) = run(|c| c.is_alphabetic() && !c.is_uppercase());
        return (Word::Letters, word, rest);
    }
    if first.is_numeric() {
        let (word, rest) = run(char::is_numeric);
        return (Word::Number, word, rest);
    }
    let (word, rest) =
        run(|c| !is_connector(c) && !c.is_alphabetic() && !c.is_numeric() && !is_punctuation(c));
    (Word::Other, word, rest)
}
