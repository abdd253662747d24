//! Templates of Go's `text/template`: values with Go's rules of truth, comparison and printing, the
//! parser, and an executor with limits.
//!
//! Pure: templates reach only the data and the functions that the caller gives them. Templates are
//! untrusted, so every run has a [`Budget`]; a template that loops or grows ends in an error.
//!
//! # Example
//!
//! ```
//! use go_template::{Budget, Functions, Limits, MissingKey, Set, Value};
//!
//! let mut set = Set::new(Functions::builtin(), MissingKey::default());
//! set.parse("hello", "Hello {{ . }}{{ if eq . \"Go\" }}!{{ end }}")?;
//! let text = set.execute("hello", Value::from("Go"), &mut Budget::new(Limits::default()))?;
//! assert_eq!(text, "Hello Go!");
//! # Ok::<(), Box<go_template::Error>>(())
//! ```

mod arguments;
mod budget;
mod builtin;
mod compare;
mod error;
mod exec;
mod function;
mod json;
mod lex;
mod node;
mod number;
mod parse;
mod print;
mod quote;
mod set;
mod trace;
mod value;

pub use arguments::Arguments;
pub use budget::{Budget, Exceeded, Limits, Stop};
pub use compare::{equal, is_same};
pub use error::{Error, Frame, Reason, TemplatePosition};
pub use function::{Arity, Call, Function, FunctionError, Functions};
pub use json::TooDeep;
pub use number::{format_float, parse_integer};
pub use print::{print_all, printf};
pub use quote::quote;
pub use set::{MissingKey, Set};
pub use trace::{Names, Piece, Reads, Trace};
pub use value::{Kind, Map, Object, Value};
