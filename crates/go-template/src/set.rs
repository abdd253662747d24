//! A set of named templates that can call each other.

use std::collections::HashMap;
use std::rc::Rc;

use crate::budget::Budget;
use crate::error::Error;
use crate::exec::{Cache, Machine};
use crate::function::Functions;
use crate::node::{Tree, is_empty};
use crate::parse::{Parsed, parse};
use crate::trace::Trace;
use crate::value::Value;

/// What a key that a map does not have is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingKey {
    /// No value: printed as `<no value>`, its fields are absent too.
    #[default]
    Invalid,
    /// The zero value of the map's elements: nil for most. Reading a field of it is an error.
    Zero,
    Error,
}

/// Templates by name, over those of an outer layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    trees: HashMap<Rc<str>, Rc<Tree>>,
    outer: Option<Rc<Layer>>,
}

impl Layer {
    pub(crate) fn get(&self, name: &str) -> Option<&Rc<Tree>> {
        match self.trees.get(name) {
            Some(tree) => Some(tree),
            None => self.outer.as_ref()?.get(name),
        }
    }

    /// A layer with the templates of `parsed` over `outer`.
    pub(crate) fn over(outer: &Rc<Self>, parsed: &Parsed) -> Rc<Self> {
        let mut layer = Self { trees: HashMap::new(), outer: Some(outer.clone()) };
        layer.add(parsed);
        Rc::new(layer)
    }

    fn add(&mut self, parsed: &Parsed) {
        for tree in parsed.defined.values().chain([&parsed.main]) {
            // A definition of space only does not replace one that has content.
            if self.get(&tree.name).is_none() || !is_empty(&tree.root) {
                self.trees.insert(tree.name.clone(), tree.clone());
            }
        }
    }
}

/// Named templates with their functions.
#[derive(Debug)]
pub struct Set {
    functions: Rc<Functions>,
    missing_key: MissingKey,
    layer: Rc<Layer>,
    parsed: Cache,
}

impl Set {
    pub fn new(functions: Functions, missing_key: MissingKey) -> Self {
        Self {
            functions: Rc::new(functions),
            missing_key,
            layer: Rc::default(),
            parsed: Cache::default(),
        }
    }

    /// Adds the template `name` and all that its text defines. Later definitions replace earlier
    /// ones of the same name.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<(), Box<Error>> {
        let parsed = parse(name, text, &self.functions)?;
        Rc::make_mut(&mut self.layer).add(&parsed);
        Ok(())
    }

    pub fn contains(&self, name: &str) -> bool {
        self.layer.get(name).is_some()
    }

    /// Executes a template and returns what it writes. Text that is not UTF-8 is replaced.
    pub fn execute(
        &self,
        name: &str,
        data: Value,
        budget: &mut Budget,
    ) -> Result<String, Box<Error>> {
        self.run(name, data, budget, &mut None)
    }

    /// The same, and notes where the output comes from.
    pub fn execute_traced(
        &self,
        name: &str,
        data: Value,
        budget: &mut Budget,
        trace: Trace,
    ) -> Result<(String, Trace), Box<Error>> {
        let mut trace = Some(trace);
        let output = self.run(name, data, budget, &mut trace)?;
        Ok((output, trace.unwrap_or_default()))
    }

    fn run(
        &self,
        name: &str,
        data: Value,
        budget: &mut Budget,
        trace: &mut Option<Trace>,
    ) -> Result<String, Box<Error>> {
        budget.surface();
        let mut machine = Machine {
            functions: self.functions.clone(),
            missing_key: self.missing_key,
            budget: budget.clone(),
            parsed: self.parsed.clone(),
            trace: trace.take(),
        };
        let result = machine.execute(&self.layer, name, data);
        *budget = machine.budget;
        *trace = machine.trace;
        let out = result?;
        budget.wrote(out.len());
        Ok(String::from_utf8(out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}
