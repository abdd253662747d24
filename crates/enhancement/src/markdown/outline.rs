//! The elements of a Markdown document, in the order of the text, with their
//! lines and byte ranges.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

use crate::front_matter;
use crate::source::Source;

/// A block or an inline element. Lines and bytes are counted from 0, from the
/// start of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// `content` is the byte range of its text, `words` the text as displayed.
    Heading {
        level: usize,
        lines: Range<usize>,
        content: Range<usize>,
        words: String,
    },
    ListStart {
        ordered: bool,
        line: usize,
    },
    ListEnd,
    Item {
        line: usize,
    },
    ItemEnd,
    QuoteStart {
        lines: Range<usize>,
    },
    QuoteEnd,
    Fence {
        lines: Range<usize>,
        language: String,
        marker: char,
    },
    IndentedCode {
        lines: Range<usize>,
    },
    /// A block of HTML and its first byte.
    Html {
        start: usize,
        lines: Range<usize>,
    },
    HorizontalRule {
        line: usize,
        markup: String,
    },
    Table {
        line: usize,
    },
    /// A run of inline elements: a paragraph, the text of a heading, a cell.
    Inline {
        lines: Range<usize>,
        words: String,
        shape: Shape,
    },
    CodeSpan {
        bytes: Range<usize>,
    },
    Link(Link),
    Image {
        start: usize,
        has_text: bool,
        address: String,
    },
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) start: usize,
    /// The end of its text.
    pub(crate) text_end: usize,
    pub(crate) text: String,
    pub(crate) address: String,
    /// Written as `<https://…>`, without a separate text.
    pub(crate) is_bare: bool,
}

/// The composition of a run of inline elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Only one link or one image.
    LinkOnly,
    Mixed,
}

/// The elements of a document.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) tokens: Vec<Token>,
    /// The first line of the Markdown, after metadata at the top.
    pub(crate) first_line: usize,
}

impl Outline {
    pub(crate) fn parse(source: &Source<'_>) -> Self {
        let first_line = front_matter::first_body_line(source);
        let offset: usize = source.text.split_inclusive('\n').take(first_line).map(str::len).sum();
        let body = &source.text[offset..];
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut builder = Builder {
            source,
            tokens: Vec::new(),
            inline: None,
            heading: None,
            links: Vec::new(),
            image: None,
            in_code: false,
        };
        for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
            builder.add(event, range.start + offset..range.end + offset);
        }
        builder.end_inline();
        Self { tokens: builder.tokens, first_line }
    }

    /// The lines inside code blocks, without the fences.
    pub(crate) fn code_lines(&self) -> Vec<Range<usize>> {
        let code = |token: &Token| match token {
            Token::Fence { lines, .. } => {
                Some(lines.start + 1..lines.end.saturating_sub(1).max(lines.start + 1))
            }
            Token::IndentedCode { lines } => Some(lines.clone()),
            _ => None,
        };
        self.tokens.iter().filter_map(code).collect()
    }
}

/// The current run of inline elements.
#[derive(Debug, Default)]
struct InlineRun {
    bytes: Range<usize>,
    words: String,
    /// One letter per element, from which the shape is determined.
    letters: String,
}

struct Builder<'s, 'a> {
    source: &'s Source<'a>,
    tokens: Vec<Token>,
    /// The current run of inline elements, and the index of its token.
    inline: Option<(usize, InlineRun)>,
    /// The index of the token of the current heading.
    heading: Option<usize>,
    links: Vec<Link>,
    /// The current image: its start, its address, its text so far.
    image: Option<(usize, String, String)>,
    in_code: bool,
}

impl Builder<'_, '_> {
    fn add(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(_) | Event::Html(_) if self.in_code => {}
            Event::Text(text) => self.text(&text, 'T', range),
            Event::Code(text) => {
                self.text(&text, 'x', range.clone());
                if self.image.is_none() {
                    self.tokens.push(Token::CodeSpan { bytes: range });
                }
            }
            Event::InlineHtml(html) => self.html(&html, range),
            Event::SoftBreak | Event::HardBreak => {
                self.extend('x', range);
                if let Some((_, run)) = &mut self.inline {
                    run.words.push(' ');
                }
            }
            Event::Rule => {
                self.end_inline();
                let line = self.source.line_at(range.start);
                let is_mark = |c: &char| matches!(c, '*' | '-' | '_');
                let markup = self.source.text[range].chars().filter(is_mark).collect();
                self.tokens.push(Token::HorizontalRule { line, markup });
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match &tag {
            Tag::Emphasis => return self.extend('e', range),
            Tag::Strong => return self.extend('s', range),
            Tag::Strikethrough => return self.extend('x', range),
            Tag::Link { link_type, dest_url, .. } => {
                let is_bare = matches!(link_type, LinkType::Autolink | LinkType::Email);
                self.links.push(Link {
                    start: range.start,
                    text_end: range.start,
                    text: String::new(),
                    address: dest_url.to_string(),
                    is_bare,
                });
                return self.extend('l', range);
            }
            Tag::Image { dest_url, .. } => {
                if self.image.is_none() {
                    self.extend('I', range.clone());
                    self.image = Some((range.start, dest_url.to_string(), String::new()));
                }
                return;
            }
            _ => self.end_inline(),
        }
        // After a tab, the parser includes the indentation in the block.
        let block = &self.source.text[range.clone()];
        let range = range.end - block.trim_start().len()..range.end;
        let lines = self.source.lines_of(&range);
        match tag {
            Tag::Heading { level, .. } => {
                self.heading = Some(self.tokens.len());
                let content = range.start..range.start;
                let words = String::new();
                self.tokens.push(Token::Heading { level: depth(level), lines, content, words });
            }
            Tag::BlockQuote(_) => self.tokens.push(Token::QuoteStart { lines }),
            Tag::CodeBlock(kind) => {
                self.in_code = true;
                self.tokens.push(match kind {
                    CodeBlockKind::Fenced(language) => {
                        let marker = self.source.text[range].chars().next().unwrap_or('`');
                        Token::Fence { lines, language: language.to_string(), marker }
                    }
                    CodeBlockKind::Indented => Token::IndentedCode { lines },
                });
            }
            Tag::HtmlBlock => {
                self.in_code = true;
                self.tokens.push(Token::Html { start: range.start, lines });
            }
            Tag::List(first) => {
                self.tokens.push(Token::ListStart { ordered: first.is_some(), line: lines.start });
            }
            Tag::Item => self.tokens.push(Token::Item { line: lines.start }),
            Tag::Table(_) => self.tokens.push(Token::Table { line: lines.start }),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => return self.letter('E'),
            TagEnd::Strong => return self.letter('S'),
            TagEnd::Strikethrough => return self.letter('x'),
            TagEnd::Link => {
                self.tokens.extend(self.links.pop().map(Token::Link));
                return self.letter('L');
            }
            TagEnd::Image => {
                if let Some((start, address, text)) = self.image.take() {
                    let has_text = !text.is_empty();
                    self.tokens.push(Token::Image { start, has_text, address });
                }
                return;
            }
            _ => self.end_inline(),
        }
        match tag {
            TagEnd::Heading(_) => self.heading = None,
            TagEnd::BlockQuote(_) => self.tokens.push(Token::QuoteEnd),
            TagEnd::CodeBlock | TagEnd::HtmlBlock => self.in_code = false,
            TagEnd::List(_) => self.tokens.push(Token::ListEnd),
            TagEnd::Item => self.tokens.push(Token::ItemEnd),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, letter: char, range: Range<usize>) {
        for link in &mut self.links {
            link.text.push_str(text);
            link.text_end = range.end;
        }
        if let Some((_, _, alternative)) = &mut self.image {
            alternative.push_str(text);
        }
        let is_displayed = self.image.is_none();
        self.extend(letter, range);
        if let Some((_, run)) = self.inline.as_mut().filter(|_| is_displayed) {
            run.words.push_str(text);
        }
    }

    fn html(&mut self, html: &str, range: Range<usize>) {
        for link in &mut self.links {
            link.text.push_str(html);
            link.text_end = range.end;
        }
        self.extend('x', range);
    }

    /// Adds an inline element to the current run, or starts one.
    fn extend(&mut self, letter: char, range: Range<usize>) {
        if self.image.is_some() {
            return;
        }
        let (_, run) = self.inline.get_or_insert_with(|| {
            let lines = self.source.lines_of(&range);
            self.tokens.push(Token::Inline { lines, words: String::new(), shape: Shape::Mixed });
            let bytes = range.clone();
            (self.tokens.len() - 1, InlineRun { bytes, ..InlineRun::default() })
        });
        run.bytes.end = run.bytes.end.max(range.end);
        self.letter(letter);
    }

    fn letter(&mut self, letter: char) {
        if let Some((_, run)) = self.inline.as_mut().filter(|_| self.image.is_none())
            // The parser can return one text in several parts.
            && !(letter == 'T' && run.letters.ends_with('T'))
        {
            run.letters.push(letter);
        }
    }

    fn end_inline(&mut self) {
        let Some((index, InlineRun { bytes, words, letters })) = self.inline.take() else { return };
        let heading = self.heading.and_then(|index| self.tokens.get_mut(index));
        if let Some(Token::Heading { content, words: heading_words, .. }) = heading {
            content.clone_from(&bytes);
            heading_words.clone_from(&words);
        }
        let inner = letters.trim_start_matches(['e', 's']).trim_end_matches(['E', 'S']);
        let link_only = matches!(inner, "lL" | "lTL" | "I");
        let shape = if link_only { Shape::LinkOnly } else { Shape::Mixed };
        let lines = self.source.lines_of(&bytes);
        self.tokens[index] = Token::Inline { lines, words, shape };
    }
}

fn depth(level: HeadingLevel) -> usize {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}
