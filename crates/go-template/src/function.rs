//! Functions that templates call.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use crate::budget::{Budget, Exceeded};
use crate::error::Error;
use crate::exec::Machine;
use crate::print::print_all;
use crate::set::Layer;
use crate::value::Value;

/// How many arguments a function accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arity {
    pub at_least: usize,
    /// Whether more are allowed.
    pub variadic: bool,
}

impl Arity {
    pub const fn exactly(count: usize) -> Self {
        Self { at_least: count, variadic: false }
    }

    pub const fn at_least(count: usize) -> Self {
        Self { at_least: count, variadic: true }
    }
}

/// Why a function failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FunctionError {
    /// An argument of the wrong type. Go finds these before the call.
    #[error("{0}")]
    Argument(String),
    #[error("{0}")]
    Failed(String),
    /// The template is to stop with this message, as with `fail` and `required`.
    #[error("{0}")]
    Stopped(String),
    #[error(transparent)]
    Limit(#[from] Exceeded),
    /// A template that the function executed failed.
    #[error(transparent)]
    Template(Box<Error>),
}

impl From<String> for FunctionError {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

impl From<&str> for FunctionError {
    fn from(message: &str) -> Self {
        Self::Failed(message.to_owned())
    }
}

/// The code of a function.
pub type Function = Rc<dyn Fn(&mut Call<'_>, &[Value]) -> Result<Value, FunctionError>>;

/// Functions whose arguments are not all evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lazy {
    And,
    Or,
}

pub(crate) struct Entry {
    pub(crate) name: Rc<str>,
    pub(crate) arity: Arity,
    pub(crate) lazy: Option<Lazy>,
    pub(crate) run: Function,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({})", self.name)
    }
}

/// Functions by name.
#[derive(Debug, Clone)]
pub struct Functions {
    entries: HashMap<Rc<str>, Rc<Entry>>,
}

impl Default for Functions {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Functions {
    /// The functions of Go's `text/template` itself.
    pub fn builtin() -> Self {
        let mut functions = Self { entries: HashMap::new() };
        crate::builtin::register(&mut functions);
        functions
    }

    /// Adds or replaces a function.
    pub fn add<F>(&mut self, name: &str, arity: Arity, run: F)
    where
        F: Fn(&mut Call<'_>, &[Value]) -> Result<Value, FunctionError> + 'static,
    {
        self.insert(name, arity, None, Rc::new(run));
    }

    pub(crate) fn insert(&mut self, name: &str, arity: Arity, lazy: Option<Lazy>, run: Function) {
        let name: Rc<str> = Rc::from(name);
        self.entries.insert(name.clone(), Rc::new(Entry { name, arity, lazy, run }));
    }

    /// Makes `alias` another name of a function that exists.
    pub fn alias(&mut self, alias: &str, name: &str) {
        if let Some(entry) = self.entries.get(name).cloned() {
            self.insert(alias, entry.arity, entry.lazy, entry.run.clone());
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Rc<Entry>> {
        self.entries.get(name)
    }
}

/// A call in progress: what a function can use of the run that calls it.
pub struct Call<'a> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) layer: &'a Rc<Layer>,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Call")
    }
}

impl Call<'_> {
    pub fn budget(&mut self) -> &mut Budget {
        &mut self.machine.budget
    }

    /// Accounts for a text or list before it is built.
    pub fn allocate(&mut self, size: usize) -> Result<(), Exceeded> {
        self.machine.budget.allocate(size)
    }

    /// Accounts for a text and makes it a value.
    pub fn text(&mut self, text: String) -> Result<Value, FunctionError> {
        self.allocate(text.len())?;
        Ok(Value::from(text))
    }

    /// Appends to a text, which may not grow beyond the size of a value.
    pub fn extend(&mut self, text: &mut String, part: &str) -> Result<(), FunctionError> {
        let limit = self.machine.budget.limits().value_size;
        if text.len().saturating_add(part.len()) > limit {
            return Err(Exceeded::Value(limit).into());
        }
        text.push_str(part);
        Ok(())
    }

    /// Accounts for a list and makes it a value.
    pub fn list(&mut self, items: Vec<Value>) -> Result<Value, FunctionError> {
        // An element takes more room than a byte.
        self.allocate(items.len().saturating_mul(4))?;
        Ok(Value::list(items))
    }

    /// The text of a value, as Go's `%v` prints it.
    pub fn print(&mut self, value: &Value) -> Result<Rc<str>, FunctionError> {
        if let Value::String(text) = value {
            return Ok(text.clone());
        }
        Ok(match print_all(std::slice::from_ref(value), &mut self.machine.budget)? {
            Value::String(text) => text,
            other => Rc::from(String::from_utf8_lossy(other.as_bytes().unwrap_or_default())),
        })
    }

    /// Executes the template `name` and returns what it writes.
    pub fn include(&mut self, name: &str, data: Value) -> Result<Value, FunctionError> {
        self.machine.include(self.layer, name, data)
    }

    /// Parses `text` as a template named `name` and executes it. Templates that it defines are
    /// visible to it and to what it calls, nowhere else.
    pub fn render(&mut self, name: &str, text: &str, data: Value) -> Result<Value, FunctionError> {
        self.machine.render(self.layer, name, text, data)
    }
}
