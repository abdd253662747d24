//! JSONPath in the dialect of kubectl: `{.spec.containers[*].image}`.
//!
//! Braces are optional around a single path. A key that is absent, an index that is out of range and
//! a value of another type give no result, because one path is applied to objects of every kind.

mod evaluate;
mod parse;

pub use evaluate::Found;

use located_yaml::Node;

/// A path, or several with loops around them.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Block>);

#[derive(Debug, Clone, PartialEq)]
enum Block {
    Path(Vec<Step>),
    /// `{range PATH}…{end}`.
    Range(Vec<Step>, Vec<Block>),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// A name in brackets and quotes. kubectl reads `['a.b']` as `.a.b`; a key that has exactly this
    /// name is meant first.
    Quoted {
        name: String,
        path: Vec<Step>,
    },
    Slice {
        start: Option<i64>,
        end: End,
        step: Option<i64>,
    },
    Wildcard,
    Descend,
    Union(Vec<Vec<Step>>),
    Filter {
        left: Vec<Step>,
        comparison: Option<(Comparison, Vec<Step>)>,
    },
    Literal(Literal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// `[3]`: one item.
    AfterStart,
    /// `[3:]`.
    Length,
    At(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Literal {
    Text(String),
    Number(f64),
    Bool(bool),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    #[error("the path is longer than {0} characters")]
    Long(usize),
    #[error("the path is empty")]
    Empty,
    #[error("`{{` is not closed")]
    Unclosed,
    #[error("`[` is not closed")]
    UnclosedBracket,
    #[error("the quote is not closed")]
    UnclosedQuote,
    #[error("{0:?} is not an index, slice, quoted name or filter")]
    Index(String),
    #[error("{0:?} is not expected here")]
    Unexpected(String),
    #[error("{0:?} is not a comparison; expected ==, !=, <, <=, > or >=")]
    Comparison(String),
    #[error("`..` is followed by `..`")]
    DoubleDescent,
    #[error("{{end}} without {{range}}, or {{range}} without {{end}}")]
    Range,
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        parse::expression(text).map(Self)
    }

    /// What the path leads to in a document, in order. Literals give nothing.
    pub fn find<'n>(&self, root: &'n Node) -> Vec<Found<'n>> {
        evaluate::blocks(&self.0, root)
    }
}

#[cfg(test)]
mod tests;
