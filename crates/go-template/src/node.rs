//! The tree of a parsed template.

use std::rc::Rc;

use crate::error::TemplatePosition;
use crate::function::Entry;

/// Part of the template's text, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: Rc<str>,
    pub(crate) source: Rc<Source>,
    pub(crate) root: Vec<Node>,
}

/// The text that a tree was parsed from; several definitions share one.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: Rc<str>,
    pub(crate) text: Rc<str>,
}

impl Source {
    /// Line and column of a position, as Go counts them.
    pub(crate) fn place(&self, at: usize) -> TemplatePosition {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        TemplatePosition {
            name: self.name.to_string(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            column: Some(before.len() - line_start),
        }
    }

    /// The text of an expression, shortened as in Go's messages.
    pub(crate) fn excerpt(&self, span: Span) -> String {
        let text = self.text.get(span.start..span.end.max(span.start)).unwrap_or_default().trim();
        if text.chars().count() > 20 {
            return format!("{}...", text.chars().take(20).collect::<String>());
        }
        text.to_owned()
    }
}

#[derive(Debug)]
pub(crate) enum Node {
    /// A text and where it begins in the source.
    Text(Rc<str>, usize),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        name: Rc<str>,
        pipe: Option<Pipe>,
        span: Span,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) variables: Vec<Rc<str>>,
    /// Whether the variables exist already.
    pub(crate) assign: bool,
    pub(crate) commands: Vec<Command>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// Never empty.
    pub(crate) operands: Vec<Operand>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) kind: OperandKind,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum OperandKind {
    Nil,
    Dot,
    /// A boolean, number or text.
    Constant(crate::value::Value),
    Field(Vec<Rc<str>>),
    Variable(Rc<str>, Vec<Rc<str>>),
    Function(Rc<Entry>),
    Pipe(Box<Pipe>),
    /// Fields of a parenthesised pipeline or of a function's result.
    Chain(Box<Operand>, Vec<Rc<str>>),
}

/// Whether a template consists of space only. Such a definition does not replace another.
pub(crate) fn is_empty(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| matches!(node, Node::Text(text, _) if text.trim().is_empty()))
}
