//! Execution of templates.

mod evaluate;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use crate::budget::{Budget, Exceeded};
use crate::error::{Error, Frame, Reason, TemplatePosition};
use crate::function::{FunctionError, Functions};
use crate::node::{Branch, Node, Pipe, Span, Tree};
use crate::parse::{Parsed, parse};
use crate::print::print_into;
use crate::set::{Layer, MissingKey};
use crate::trace::Trace;
use crate::value::{Kind, Value};

/// Texts of `render` that are kept parsed.
const MAX_PARSED: usize = 1000;

/// Parsed texts by their text.
pub(crate) type Cache = Rc<RefCell<HashMap<Rc<str>, Rc<Parsed>>>>;

/// What the templates of one run share.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) functions: Rc<Functions>,
    pub(crate) missing_key: MissingKey,
    pub(crate) budget: Budget,
    /// The same text is often rendered many times.
    pub(crate) parsed: Cache,
    /// Where the output comes from, if that is requested.
    pub(crate) trace: Option<Trace>,
}

impl Machine {
    fn enter_template(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.enter();
        }
    }

    fn leave_template(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.leave();
        }
    }

    fn begin_action(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.begin();
        }
    }

    fn wrote(&mut self, output: Range<usize>, at: usize, is_text: bool) {
        if let Some(trace) = &mut self.trace {
            trace.write(output, at, is_text);
        }
    }

    pub(crate) fn execute(
        &mut self,
        layer: &Rc<Layer>,
        name: &str,
        data: Value,
    ) -> Result<Vec<u8>, Box<Error>> {
        let Some(tree) = layer.get(name).cloned() else {
            let place = TemplatePosition { name: name.to_owned(), line: 1, column: None };
            return Err(Box::new(Error {
                frames: vec![Frame { place, executing: None, function: None }],
                reason: Reason::Execution(format!("template {name:?} is not defined")),
            }));
        };
        self.run(layer, &tree, data)
    }

    fn run(
        &mut self,
        layer: &Rc<Layer>,
        tree: &Rc<Tree>,
        data: Value,
    ) -> Result<Vec<u8>, Box<Error>> {
        let data = if matches!(data, Value::Nil) { Value::Absent } else { data };
        let mut out = Vec::new();
        self.enter_template();
        let mut state = State {
            machine: self,
            layer,
            tree,
            variables: vec![(Rc::from("$"), data.clone())],
            out: &mut out,
        };
        let walked = state.walk(&data, &tree.root);
        self.leave_template();
        walked?;
        Ok(out)
    }

    pub(crate) fn include(
        &mut self,
        layer: &Rc<Layer>,
        name: &str,
        data: Value,
    ) -> Result<Value, FunctionError> {
        let Some(tree) = layer.get(name).cloned() else {
            let message = format!("no template {name:?} associated with template \"gotpl\"");
            return Err(FunctionError::Failed(message));
        };
        let out = self.run(layer, &tree, data).map_err(FunctionError::Template)?;
        self.result(out)
    }

    pub(crate) fn render(
        &mut self,
        layer: &Rc<Layer>,
        name: &str,
        text: &str,
        data: Value,
    ) -> Result<Value, FunctionError> {
        let known = self.parsed.borrow().get(text).cloned();
        let parsed = match known {
            Some(parsed) => parsed,
            None => {
                self.budget.spend(text.len() as u64 / 4)?;
                let parsed = parse(name, text, &self.functions).map_err(FunctionError::Template)?;
                let parsed = Rc::new(parsed);
                let mut cache = self.parsed.borrow_mut();
                if cache.len() < MAX_PARSED {
                    cache.insert(Rc::from(text), parsed.clone());
                }
                parsed
            }
        };
        let out = if parsed.defined.is_empty() {
            self.run(layer, &parsed.main, data)
        } else {
            self.run(&Layer::over(layer, &parsed), &parsed.main, data)
        };
        let out = out.map_err(FunctionError::Template)?;
        self.result(out)
    }

    fn result(&mut self, out: Vec<u8>) -> Result<Value, FunctionError> {
        self.budget.allocate(out.len())?;
        Ok(match String::from_utf8(out) {
            Ok(text) => Value::from(text),
            Err(error) => Value::bytes(error.as_bytes()),
        })
    }
}

/// How a list of nodes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// One template in execution.
struct State<'s> {
    machine: &'s mut Machine,
    layer: &'s Rc<Layer>,
    tree: &'s Rc<Tree>,
    variables: Vec<(Rc<str>, Value)>,
    out: &'s mut Vec<u8>,
}

type Run<T> = Result<T, Box<Error>>;

impl State<'_> {
    fn fail<T>(&self, span: Span, message: impl Into<String>) -> Run<T> {
        Err(self.error(span, None, Reason::Execution(message.into())))
    }

    fn error(&self, span: Span, function: Option<&str>, reason: Reason) -> Box<Error> {
        Box::new(Error { frames: vec![self.frame(span, function)], reason })
    }

    fn frame(&self, span: Span, function: Option<&str>) -> Frame {
        let source = &self.tree.source;
        Frame {
            place: source.place(span.start),
            executing: Some((self.tree.name.to_string(), source.excerpt(span))),
            function: function.map(str::to_owned),
        }
    }

    fn limit(&self, span: Span, exceeded: Exceeded) -> Box<Error> {
        self.error(span, None, Reason::Limit(exceeded))
    }

    fn spend(&mut self, span: Span) -> Run<()> {
        self.spend_many(span, 1)
    }

    fn spend_many(&mut self, span: Span, count: u64) -> Run<()> {
        self.machine.budget.spend(count).map_err(|exceeded| self.limit(span, exceeded))
    }

    fn enter(&mut self, span: Span) -> Run<()> {
        self.machine.budget.enter().map_err(|exceeded| self.limit(span, exceeded))
    }

    fn walk(&mut self, dot: &Value, nodes: &[Node]) -> Run<Flow> {
        for node in nodes {
            let flow = match node {
                Node::Text(text, at) => {
                    self.spend_many(Span::default(), 1 + text.len() as u64 / 64)?;
                    let start = self.out.len();
                    self.out.extend_from_slice(text.as_bytes());
                    self.machine.wrote(start..self.out.len(), *at, true);
                    self.check_output(Span::default())?;
                    Flow::Next
                }
                Node::Action(pipe) => {
                    self.machine.begin_action();
                    let value = self.pipeline(dot, pipe)?;
                    if pipe.variables.is_empty() {
                        let start = self.out.len();
                        let left = self.machine.budget.output_left();
                        if print_into(self.out, &value, left).is_err() {
                            return Err(self.output_exceeded(pipe.span));
                        }
                        let written = (self.out.len() - start) as u64;
                        self.spend_many(pipe.span, written / 64)?;
                        self.machine.wrote(start..self.out.len(), pipe.span.start, false);
                    } else if let Some(trace) = &mut self.machine.trace {
                        trace.assign();
                    }
                    Flow::Next
                }
                Node::If(branch) | Node::With(branch) => {
                    self.branch(dot, branch, matches!(node, Node::With(_)))?
                }
                Node::Range(branch) => self.range(dot, branch)?,
                Node::Template { name, pipe, span } => {
                    self.machine.begin_action();
                    let start = self.out.len();
                    self.template(dot, name, pipe.as_ref(), *span)?;
                    self.machine.wrote(start..self.out.len(), span.start, false);
                    Flow::Next
                }
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn check_output(&self, span: Span) -> Run<()> {
        match self.out.len() > self.machine.budget.output_left() {
            true => Err(self.output_exceeded(span)),
            false => Ok(()),
        }
    }

    /// Names the whole limit, not what is left of it.
    fn output_exceeded(&self, span: Span) -> Box<Error> {
        let limit = self.machine.budget.limits().output_bytes;
        self.limit(span, Exceeded::Output(limit))
    }

    fn branch(&mut self, dot: &Value, branch: &Branch, with: bool) -> Run<Flow> {
        self.enter(branch.pipe.span)?;
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = if value.is_true() {
            self.walk(if with { &value } else { dot }, &branch.body)
        } else {
            self.walk(dot, &branch.otherwise)
        };
        self.variables.truncate(scope);
        self.machine.budget.leave();
        flow
    }

    fn range(&mut self, dot: &Value, branch: &Branch) -> Run<Flow> {
        self.enter(branch.pipe.span)?;
        let scope = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = self.iterate(dot, branch, &value);
        self.variables.truncate(scope);
        self.machine.budget.leave();
        flow
    }

    fn iterate(&mut self, dot: &Value, branch: &Branch, value: &Value) -> Run<Flow> {
        let mut iterations: Box<dyn Iterator<Item = (Value, Value)>> = match value.kind() {
            Kind::Int | Kind::Int64 => {
                if branch.pipe.variables.len() > 1 {
                    let count = value.as_integer().unwrap_or(0);
                    let message =
                        format!("can't use {count} to iterate over more than one variable");
                    return self.fail(branch.pipe.span, message);
                }
                let wide = matches!(value, Value::Int64(_));
                let number = move |n| if wide { Value::Int64(n) } else { Value::Int(n) };
                let count = value.as_integer().unwrap_or(0);
                Box::new((0..count).map(move |n| (Value::Absent, number(n))))
            }
            Kind::Slice => {
                let items = value.items().unwrap_or_default();
                let index = |(index, item)| (Value::Int(index as i64), item);
                Box::new(items.into_iter().enumerate().map(index))
            }
            Kind::Map => {
                let entries = value.entries().unwrap_or_default();
                Box::new(entries.into_iter().map(|(key, value)| (Value::from(key), value)))
            }
            Kind::Invalid => Box::new(std::iter::empty()),
            _ => {
                let mut shown = Vec::new();
                print_into(&mut shown, value, 1000).ok();
                let message =
                    format!("range can't iterate over {}", String::from_utf8_lossy(&shown));
                return self.fail(branch.pipe.span, message);
            }
        };
        let Some(first) = iterations.next() else { return self.walk(dot, &branch.otherwise) };
        let scope = self.variables.len();
        for (key, item) in std::iter::once(first).chain(iterations) {
            self.spend(branch.pipe.span)?;
            self.set_range_variables(&branch.pipe, scope, key, &item)?;
            let flow = self.walk(&item, &branch.body)?;
            self.variables.truncate(scope);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    /// The pipeline has declared the variables, with the whole collection as their value.
    fn set_range_variables(
        &mut self,
        pipe: &Pipe,
        scope: usize,
        key: Value,
        item: &Value,
    ) -> Run<()> {
        match (pipe.assign, pipe.variables.as_slice()) {
            (_, []) => {}
            (false, [_]) => self.variables[scope - 1].1 = item.clone(),
            (false, _) => {
                self.variables[scope - 1].1 = item.clone();
                self.variables[scope - 2].1 = key;
            }
            (true, [only]) => self.assign(pipe.span, only, item.clone())?,
            (true, [first, second, ..]) => {
                self.assign(pipe.span, first, key)?;
                self.assign(pipe.span, second, item.clone())?;
            }
        }
        Ok(())
    }

    fn assign(&mut self, span: Span, name: &str, value: Value) -> Run<()> {
        match self.variables.iter_mut().rev().find(|(known, _)| **known == *name) {
            Some((_, slot)) => {
                *slot = value;
                Ok(())
            }
            None => self.fail(span, format!("undefined variable: {name}")),
        }
    }

    fn template(&mut self, dot: &Value, name: &str, pipe: Option<&Pipe>, span: Span) -> Run<()> {
        let Some(tree) = self.layer.get(name).cloned() else {
            return self.fail(span, format!("template {name:?} not defined"));
        };
        let data = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::Absent,
        };
        self.enter(span)?;
        self.machine.enter_template();
        let mut state = State {
            machine: self.machine,
            layer: self.layer,
            tree: &tree,
            variables: vec![(Rc::from("$"), data.clone())],
            out: self.out,
        };
        let walked = state.walk(&data, &tree.root);
        self.machine.leave_template();
        walked?;
        self.machine.budget.leave();
        Ok(())
    }
}
