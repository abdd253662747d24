//! Reads a path.

use super::{Block, Comparison, End, JsonPathError, Literal, Step};

/// Longer paths are not written by people.
const MAX_LENGTH: usize = 1024;

pub(super) fn expression(text: &str) -> Result<Vec<Block>, JsonPathError> {
    if text.len() > MAX_LENGTH {
        return Err(JsonPathError::Long(MAX_LENGTH));
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(JsonPathError::Empty);
    }
    if !text.contains('{') {
        let relaxed = if text.starts_with(['.', '[', '$', '@']) {
            steps(text)?
        } else {
            steps(&format!(".{text}"))?
        };
        return Ok(vec![Block::Path(relaxed)]);
    }
    let mut open: Vec<(Vec<Step>, Vec<Block>)> = Vec::new();
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (action, after) = action(&rest[start + 1..])?;
        rest = after;
        let action = action.trim();
        if let Some(path) = action.strip_prefix("range").filter(|rest| !starts_word(rest)) {
            open.push((steps(path)?, std::mem::take(&mut blocks)));
        } else if action == "end" {
            let (path, outer) = open.pop().ok_or(JsonPathError::Range)?;
            let inner = std::mem::replace(&mut blocks, outer);
            blocks.push(Block::Range(path, inner));
        } else {
            blocks.push(Block::Path(steps(action)?));
        }
    }
    if open.is_empty() { Ok(blocks) } else { Err(JsonPathError::Range) }
}

fn starts_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The text up to the brace that closes the action, and what follows.
fn action(text: &str) -> Result<(&str, &str), JsonPathError> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            _ if is_escaped => is_escaped = false,
            ('\\', _) => is_escaped = true,
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('}', None) => return Ok((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    Err(JsonPathError::Unclosed)
}

fn steps(text: &str) -> Result<Vec<Step>, JsonPathError> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("[?(") {
            let (filter, after) = filter(after)?;
            steps.push(filter);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Descend) {
                return Err(JsonPathError::DoubleDescent);
            }
            steps.push(Step::Descend);
            rest = after;
            if starts_word(rest) {
                let (field, after) = field(rest);
                steps.push(field);
                rest = after;
            } else if let Some(after) = rest.strip_prefix('*') {
                steps.push(Step::Wildcard);
                rest = after;
            }
        } else {
            let after = &rest[c.len_utf8()..];
            match c {
                ' ' | '\t' | '@' | '$' => rest = after,
                '.' => {
                    let (field, after) = field(after);
                    // A dot alone is the value itself.
                    if field != Step::Field(String::new()) {
                        steps.push(field);
                    }
                    rest = after;
                }
                '[' => {
                    let (inside, after) = bracket(after)?;
                    steps.extend(selection(inside)?);
                    rest = after;
                }
                '"' | '\'' => {
                    let (text, after) = quoted(after, c)?;
                    steps.push(Step::Literal(Literal::Text(text)));
                    rest = after;
                }
                '+' | '-' | '0'..='9' => {
                    let end = after.find(|c: char| c != '.' && !c.is_ascii_digit());
                    let (number, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
                    let number = number.trim_start_matches('+');
                    let parsed = number.parse();
                    let parsed =
                        parsed.map_err(|_| JsonPathError::Unexpected(number.to_owned()))?;
                    steps.push(Step::Literal(Literal::Number(parsed)));
                    rest = after;
                }
                _ => {
                    let (word, after) = word(rest);
                    steps.push(match word.as_str() {
                        "true" => Step::Literal(Literal::Bool(true)),
                        "false" => Step::Literal(Literal::Bool(false)),
                        _ => return Err(JsonPathError::Unexpected(first_word(rest))),
                    });
                    rest = after;
                }
            }
        }
    }
    Ok(steps)
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

fn field(text: &str) -> (Step, &str) {
    let (name, rest) = word(text);
    (if name == "*" { Step::Wildcard } else { Step::Field(name) }, rest)
}

/// Up to a character that ends a name; a backslash takes away its meaning.
fn word(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => name.extend(characters.next().map(|(_, c)| c)),
            ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' => {
                return (name, &text[at..]);
            }
            _ => name.push(c),
        }
    }
    (name, "")
}

fn quoted(text: &str, quote: char) -> Result<(String, &str), JsonPathError> {
    let mut inside = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some((_, 'n')) => inside.push('\n'),
                Some((_, 't')) => inside.push('\t'),
                Some((_, c)) => inside.push(c),
                None => break,
            },
            c if c == quote => return Ok((inside, &text[at + 1..])),
            c => inside.push(c),
        }
    }
    Err(JsonPathError::UnclosedQuote)
}

/// The text up to the bracket that closes, which may be quoted inside.
fn bracket(text: &str) -> Result<(&str, &str), JsonPathError> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            (']', None) => return Ok((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    Err(JsonPathError::UnclosedBracket)
}

/// What is between brackets: an index, a slice, a quoted name, or several with commas.
fn selection(inside: &str) -> Result<Vec<Step>, JsonPathError> {
    let parts = unquoted_split(inside, ',');
    if let [single] = parts.as_slice() {
        return single_selection(single);
    }
    let parts: Result<Vec<_>, _> = parts.into_iter().map(single_selection).collect();
    Ok(vec![Step::Union(parts?)])
}

fn unquoted_split(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut quote) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            (c, None) if c == separator => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn single_selection(text: &str) -> Result<Vec<Step>, JsonPathError> {
    let text = text.trim();
    let bad = || JsonPathError::Index(text.to_owned());
    if text == "*" {
        return Ok(vec![slice(":").ok_or_else(bad)?]);
    }
    if let Some(quote @ ('"' | '\'')) = text.chars().next() {
        let (name, rest) = quoted(&text[1..], quote)?;
        if !rest.is_empty() {
            return Err(bad());
        }
        let as_path = text[1..text.len() - 1].split('.').map(|part| part.replace('\\', ""));
        let path = as_path.map(Step::Field).collect();
        return Ok(vec![Step::Quoted { name, path }]);
    }
    // `[.name]` and `[@.name]` are paths.
    if text.starts_with(['.', '@']) {
        return steps(text);
    }
    Ok(vec![slice(text).ok_or_else(bad)?])
}

fn slice(text: &str) -> Option<Step> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || text.is_empty() {
        return None;
    }
    let number = |index: usize| match parts.get(index).copied().unwrap_or_default() {
        "" => Some(None),
        digits => digits.parse::<i64>().ok().map(Some),
    };
    let (start, end, step) = (number(0)?, number(1)?, number(2)?);
    let end = match (parts.len(), end) {
        (1, _) => End::AfterStart,
        (_, Some(end)) => End::At(end),
        (_, None) => End::Length,
    };
    Some(Step::Slice { start, end, step })
}

/// From behind `[?(`.
fn filter(text: &str) -> Result<(Step, &str), JsonPathError> {
    let (mut quote, mut depth, mut end) = (None, 0usize, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('(', None) => depth += 1,
            (')', None) if depth == 0 => {
                end = Some(at);
                break;
            }
            (')', None) => depth -= 1,
            _ => {}
        }
    }
    let end = end.ok_or(JsonPathError::UnclosedBracket)?;
    let rest = text[end + 1..].strip_prefix(']').ok_or(JsonPathError::UnclosedBracket)?;
    let inside = &text[..end];
    let is_sign = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let Some(at) = inside.find(is_sign) else {
        return Ok((Step::Filter { left: steps(inside)?, comparison: None }, rest));
    };
    let (left, right) = inside.split_at(at);
    let sign_end = right.find(|c| !is_sign(c)).unwrap_or(right.len());
    let (sign, right) = right.split_at(sign_end);
    let comparison = match sign {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return Err(JsonPathError::Comparison(sign.to_owned())),
    };
    let right = steps(right)?;
    Ok((Step::Filter { left: steps(left)?, comparison: Some((comparison, right)) }, rest))
}
