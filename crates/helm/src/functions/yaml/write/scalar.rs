//! Texts in YAML: plain where that reads back as the same text, otherwise quoted, or as a block
//! where there are line breaks.

use super::super::resolve::means_text;
use super::{Style, Writer};

/// Longer lines are broken at spaces.
const WIDTH: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Key,
    Value,
}

/// What the characters of a text allow.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    plain: bool,
    single_quoted: bool,
    block: bool,
}

impl Writer<'_> {
    /// Continuation lines get `indent`.
    pub(super) fn text(&mut self, text: &str, indent: usize, context: Context) {
        let multiline = text.contains('\n');
        let allowed = analyze(text);
        let breaks = context == Context::Value && self.style == Style::Compact;
        if multiline && context == Context::Value && allowed.block {
            self.literal(text, indent);
        } else if multiline || !means_text(text) {
            self.double_quoted(text, indent, breaks);
        } else if allowed.plain {
            self.plain(text, indent, breaks);
        } else if allowed.single_quoted {
            self.out.push('\'');
            self.plain(&text.replace('\'', "''"), indent, breaks);
            self.out.push('\'');
        } else {
            self.double_quoted(text, indent, breaks);
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with([' ', '\n']) {
            self.out.push('2');
        }
        if !text.ends_with('\n') {
            self.out.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.out.push('+');
        }
        self.out.push('\n');
        let pad = " ".repeat(indent);
        for line in text.split_inclusive('\n') {
            if line != "\n" {
                self.out.push_str(&pad);
            }
            self.out.push_str(line);
        }
    }

    /// The text itself, broken at single spaces behind the width.
    fn plain(&mut self, text: &str, indent: usize, breaks: bool) {
        let mut column = self.column();
        let mut after_space = false;
        let mut chars = text.chars().enumerate().peekable();
        let last = text.chars().count().saturating_sub(1);
        while let Some((index, c)) = chars.next() {
            let next_is_space = chars.peek().is_some_and(|(_, next)| *next == ' ');
            let inside = index > 0 && index < last;
            if c == ' ' && breaks && !after_space && column > WIDTH && !next_is_space && inside {
                self.out.push('\n');
                self.out.push_str(&" ".repeat(indent));
                column = indent;
            } else {
                self.out.push(c);
                column += 1;
            }
            after_space = c == ' ';
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, breaks: bool) {
        self.out.push('"');
        let mut column = self.column();
        let mut after_space = false;
        let last = text.chars().count().saturating_sub(1);
        let mut chars = text.chars().enumerate().peekable();
        while let Some((index, c)) = chars.next() {
            let start = self.out.len();
            let inside = index > 0 && index < last;
            if c == ' ' && breaks && !after_space && column > WIDTH && inside {
                self.out.push('\n');
                self.out.push_str(&" ".repeat(indent));
                column = indent;
                if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                    self.out.push('\\');
                    column += 1;
                }
            } else {
                push_escaped(&mut self.out, c);
                column += self.out[start..].chars().count();
            }
            after_space = c == ' ';
        }
        self.out.push('"');
    }
}

fn push_escaped(out: &mut String, c: char) {
    let short = match c {
        '\0' => '0',
        '\u{07}' => 'a',
        '\u{08}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{0b}' => 'v',
        '\u{0c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        c if is_printable(c) => {
            out.push(c);
            return;
        }
        c => {
            match c as u32 {
                code @ 0..=0xff => out.push_str(&format!("\\x{code:02X}")),
                code @ 0x100..=0xffff => out.push_str(&format!("\\u{code:04X}")),
                code => out.push_str(&format!("\\U{code:08X}")),
            }
            return;
        }
    };
    out.push('\\');
    out.push(short);
}

/// Characters that the library writes as they are. Tabs and those beyond the basic plane are not.
fn is_printable(c: char) -> bool {
    matches!(c,
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn analyze(text: &str) -> Allowed {
    let chars: Vec<char> = text.chars().collect();
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let mut special = false;
    let (mut line_breaks, mut break_space, mut space_break) = (false, false, false);
    let is_blank = |c: char| c == ' ' || c == '\t';
    let mut previous = None;
    for (index, c) in chars.iter().copied().enumerate() {
        let blank_follows = chars.get(index + 1).is_none_or(|next| is_blank(*next));
        let blank_before = previous.is_none_or(|before| is_blank(before) || is_break(before));
        indicators |= match c {
            '#' => blank_before,
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`' => index == 0,
            '?' | '-' => index == 0 && blank_follows,
            ':' => blank_follows,
            _ => false,
        };
        special |= !is_printable(c);
        if c == ' ' {
            break_space |= previous.is_some_and(is_break);
        } else if is_break(c) {
            line_breaks = true;
            space_break |= previous == Some(' ');
        }
        previous = Some(c);
    }
    let edge = |c: Option<&char>| c.is_some_and(|c| *c == ' ' || is_break(*c));
    let edges = edge(chars.first()) || edge(chars.last());
    Allowed {
        plain: !indicators && !special && !line_breaks && !edges && !break_space && !space_break,
        single_quoted: !special && !break_space && !space_break,
        block: !special && !space_break && chars.last() != Some(&' '),
    }
}
