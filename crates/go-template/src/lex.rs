//! Tokens of a template.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    LeftDelimiter,
    RightDelimiter,
    Space,
    Assign,
    Declare,
    Pipe,
    LeftParenthesis,
    RightParenthesis,
    Comma,
    /// A character that has no meaning here.
    Character,
    String,
    CharacterConstant,
    Number,
    Bool,
    Dot,
    Field,
    Variable,
    /// A function or a keyword.
    Word,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }
}

/// A text that is not a template.
#[derive(Debug)]
pub(crate) struct LexError {
    pub(crate) at: usize,
    pub(crate) message: String,
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Splits a text into tokens; the last is [`Kind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, LexError> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), parentheses: 0 };
    lexer.all()?;
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token<'a>>,
    parentheses: usize,
}

impl<'a> Lexer<'a> {
    fn all(&mut self) -> Result<(), LexError> {
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(LEFT) else {
                if !rest.is_empty() {
                    self.emit(Kind::Text, rest.len());
                }
                self.emit(Kind::End, 0);
                return Ok(());
            };
            let (text, behind) = (&rest[..length], &rest[length + LEFT.len()..]);
            let trims = has_left_trim(behind);
            let kept = if trims { text.trim_end_matches(SPACES).len() } else { length };
            if kept > 0 {
                self.emit(Kind::Text, kept);
            }
            self.at += length - kept;
            let marker = if trims { 2 } else { 0 };
            if behind[marker..].starts_with("/*") {
                self.at += LEFT.len() + marker;
                self.comment()?;
            } else {
                self.emit(Kind::LeftDelimiter, LEFT.len());
                self.at += marker;
                self.action()?;
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn emit(&mut self, kind: Kind, length: usize) {
        let text = &self.text[self.at..self.at + length];
        self.tokens.push(Token { kind, text, start: self.at });
        self.at += length;
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, LexError> {
        Err(LexError { at: self.at.min(self.text.len()), message: message.into() })
    }

    /// Skips a comment and its delimiter; trimming to its right happens only with a marker.
    fn comment(&mut self) -> Result<(), LexError> {
        let Some(length) = self.rest()[2..].find("*/") else {
            return self.error("unclosed comment");
        };
        self.at += length + 4;
        let Some(trims) = self.at_right_delimiter() else {
            return self.error("comment ends before closing delimiter");
        };
        self.skip_right_delimiter(trims);
        Ok(())
    }

    /// Whether the right delimiter is next, and then whether it trims.
    fn at_right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        let mut chars = rest.chars();
        if chars.next().is_some_and(|c| SPACES.contains(&c)) && rest[1..].starts_with("-}}") {
            return Some(true);
        }
        rest.starts_with(RIGHT).then_some(false)
    }

    fn skip_right_delimiter(&mut self, trims: bool) {
        if trims {
            self.at += 2;
        }
        self.at += RIGHT.len();
        if trims {
            self.trim_left();
        }
    }

    fn trim_left(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(SPACES).len();
    }

    /// Everything up to and including the right delimiter.
    fn action(&mut self) -> Result<(), LexError> {
        self.parentheses = 0;
        loop {
            if let Some(trims) = self.at_right_delimiter() {
                if self.parentheses > 0 {
                    return self.error("unclosed left paren");
                }
                if trims {
                    self.at += 2;
                }
                self.emit(Kind::RightDelimiter, RIGHT.len());
                if trims {
                    self.trim_left();
                }
                return Ok(());
            }
            let Some(c) = self.peek() else { return self.error("unclosed action") };
            match c {
                c if SPACES.contains(&c) => self.space(),
                '=' => self.emit(Kind::Assign, 1),
                ':' if self.rest().starts_with(":=") => self.emit(Kind::Declare, 2),
                ':' => return self.error("expected :="),
                '|' => self.emit(Kind::Pipe, 1),
                '"' => self.quoted('"', Kind::String, "unterminated quoted string")?,
                '\'' => {
                    self.quoted('\'', Kind::CharacterConstant, "unterminated character constant")?;
                }
                '`' => match self.rest()[1..].find('`') {
                    Some(length) => self.emit(Kind::String, length + 2),
                    None => return self.error("unterminated raw quoted string"),
                },
                '$' => self.name(Kind::Variable)?,
                '.' if !self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                    self.name(Kind::Field)?;
                }
                '.' | '+' | '-' | '0'..='9' => self.number()?,
                c if is_word(c) => self.word()?,
                '(' => {
                    self.parentheses += 1;
                    self.emit(Kind::LeftParenthesis, 1);
                }
                ')' => {
                    if self.parentheses == 0 {
                        return self.error("unexpected right paren");
                    }
                    self.parentheses -= 1;
                    self.emit(Kind::RightParenthesis, 1);
                }
                ',' => self.emit(Kind::Comma, 1),
                ' '..='~' => self.emit(Kind::Character, 1),
                c => {
                    return self.error(format!(
                        "unrecognized character in action: U+{:04X} '{c}'",
                        c as u32
                    ));
                }
            }
        }
    }

    fn space(&mut self) {
        let rest = self.rest();
        let mut length = rest.len() - rest.trim_start_matches(SPACES).len();
        // The last space may belong to a trim marker.
        if rest[length..].starts_with("-}}") {
            length -= 1;
        }
        if length > 0 {
            self.emit(Kind::Space, length);
        }
    }

    fn quoted(&mut self, mark: char, kind: Kind, unterminated: &str) -> Result<(), LexError> {
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, c)) if c != '\n' => {}
                    _ => break,
                },
                '\n' => break,
                c if c == mark => {
                    self.emit(kind, at + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.error(unterminated)
    }

    /// `.`, `.field`, `$` or `$variable`.
    fn name(&mut self, kind: Kind) -> Result<(), LexError> {
        let tail = &self.rest()[1..];
        let length = tail.len() - tail.trim_start_matches(is_word).len();
        self.check_end_of_word(1 + length)?;
        let kind = if length == 0 && kind == Kind::Field { Kind::Dot } else { kind };
        self.emit(kind, 1 + length);
        Ok(())
    }

    fn word(&mut self) -> Result<(), LexError> {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(is_word).len();
        self.check_end_of_word(length)?;
        let kind = match &rest[..length] {
            "true" | "false" => Kind::Bool,
            _ => Kind::Word,
        };
        self.emit(kind, length);
        Ok(())
    }

    fn check_end_of_word(&self, length: usize) -> Result<(), LexError> {
        let behind = &self.rest()[length..];
        match behind.chars().next() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => Ok(()),
            Some(_) if behind.starts_with(RIGHT) => Ok(()),
            Some(c) => self.error(format!("bad character U+{:04X} '{c}'", c as u32)),
        }
    }

    fn number(&mut self) -> Result<(), LexError> {
        let rest = self.rest();
        let Some(first) = scan_number(rest) else { return self.bad_number(rest) };
        let mut length = first;
        // A complex constant: 1+2i.
        if rest[length..].starts_with(['+', '-']) {
            match scan_number(&rest[length..]) {
                Some(more) if rest[..length + more].ends_with('i') => length += more,
                _ => return self.bad_number(rest),
            }
        }
        self.emit(Kind::Number, length);
        Ok(())
    }

    fn bad_number(&self, rest: &str) -> Result<(), LexError> {
        let word = rest.split([' ', '}', ')', '|', '\n']).next().unwrap_or_default();
        self.error(format!("bad number syntax: {word:?}"))
    }
}

/// Length of the number at the start of a text. It may be malformed; the parser notices.
fn scan_number(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let accept = |at: &mut usize, set: &[u8]| {
        let found = bytes.get(*at).is_some_and(|byte| set.contains(byte));
        *at += usize::from(found);
        found
    };
    accept(&mut at, b"+-");
    let mut digits: &[u8] = b"0123456789_";
    if accept(&mut at, b"0") {
        if accept(&mut at, b"xX") {
            digits = b"0123456789abcdefABCDEF_";
        } else if accept(&mut at, b"oO") {
            digits = b"01234567_";
        } else if accept(&mut at, b"bB") {
            digits = b"01_";
        }
    }
    while accept(&mut at, digits) {}
    if accept(&mut at, b".") {
        while accept(&mut at, digits) {}
    }
    let exponent: &[u8] = match digits.len() {
        11 => b"eE",
        23 => b"pP",
        _ => b"",
    };
    if accept(&mut at, exponent) {
        accept(&mut at, b"+-");
        while accept(&mut at, b"0123456789_") {}
    }
    accept(&mut at, b"i");
    let next = text[at..].chars().next();
    (!next.is_some_and(is_word)).then_some(at)
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphabetic() || c.is_numeric()
}

fn has_left_trim(behind: &str) -> bool {
    let mut chars = behind.chars();
    chars.next() == Some('-') && chars.next().is_some_and(|c| SPACES.contains(&c))
}
