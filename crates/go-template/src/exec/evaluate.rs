//! Evaluation of pipelines: fields, variables, calls of functions and methods.

use std::rc::Rc;

use super::{Run, State};
use crate::error::Reason;
use crate::function::{Call, Entry, FunctionError, Lazy};
use crate::node::{Command, Operand, OperandKind, Pipe, Span};
use crate::set::MissingKey;
use crate::value::{Kind, Map, Value};

impl State<'_> {
    /// The value of a pipeline. Variables that it declares stay until the caller removes them.
    pub(super) fn pipeline(&mut self, dot: &Value, pipe: &Pipe) -> Run<Value> {
        self.enter(pipe.span)?;
        let mut value = None;
        for command in &pipe.commands {
            let result = self.command(dot, command, value)?;
            // Go unpacks interfaces here, and a nil interface has nothing inside.
            value = Some(if matches!(result, Value::Nil) { Value::Absent } else { result });
        }
        let value = value.unwrap_or_default();
        for name in &pipe.variables {
            if pipe.assign {
                self.assign(pipe.span, name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        self.machine.budget.leave();
        Ok(value)
    }

    fn command(&mut self, dot: &Value, command: &Command, last: Option<Value>) -> Run<Value> {
        self.spend(command.span)?;
        let first = &command.operands[0];
        let arguments = &command.operands[1..];
        match &first.kind {
            OperandKind::Field(names) => {
                self.fields(dot, dot.clone(), first.span, names, arguments, last)
            }
            OperandKind::Chain(inner, names) => {
                let receiver = self.receiver(dot, inner)?;
                self.fields(dot, receiver, first.span, names, arguments, last)
            }
            OperandKind::Variable(name, names) if !names.is_empty() => {
                let receiver = self.variable(name, first.span)?;
                self.fields(dot, receiver, first.span, names, arguments, last)
            }
            OperandKind::Function(entry) => {
                self.call(dot, entry, command.span, first.span, arguments, last)
            }
            _ if !arguments.is_empty() || last.is_some() => {
                let shown = self.tree.source.excerpt(first.span);
                self.fail(first.span, format!("can't give argument to non-function {shown}"))
            }
            OperandKind::Variable(name, _) => self.variable(name, first.span),
            OperandKind::Pipe(pipe) => self.pipeline(dot, pipe),
            OperandKind::Dot => Ok(dot.clone()),
            OperandKind::Constant(value) => Ok(value.clone()),
            OperandKind::Nil => self.fail(first.span, "nil is not a command"),
        }
    }

    /// An operand that is an argument.
    fn operand(&mut self, dot: &Value, operand: &Operand) -> Run<Value> {
        match &operand.kind {
            OperandKind::Nil => Ok(Value::Absent),
            OperandKind::Dot => Ok(dot.clone()),
            OperandKind::Constant(value) => Ok(value.clone()),
            OperandKind::Field(names) => {
                self.fields(dot, dot.clone(), operand.span, names, &[], None)
            }
            OperandKind::Variable(name, names) => {
                let receiver = self.variable(name, operand.span)?;
                if names.is_empty() {
                    return Ok(receiver);
                }
                self.fields(dot, receiver, operand.span, names, &[], None)
            }
            OperandKind::Function(entry) => {
                self.spend(operand.span)?;
                self.call(dot, entry, operand.span, operand.span, &[], None)
            }
            OperandKind::Pipe(pipe) => self.pipeline(dot, pipe),
            OperandKind::Chain(inner, names) => {
                let receiver = self.receiver(dot, inner)?;
                self.fields(dot, receiver, operand.span, names, &[], None)
            }
        }
    }

    fn receiver(&mut self, dot: &Value, inner: &Operand) -> Run<Value> {
        if matches!(inner.kind, OperandKind::Nil) {
            return self.fail(inner.span, "indirection through explicit nil");
        }
        self.operand(dot, inner)
    }

    fn variable(&self, name: &str, span: Span) -> Run<Value> {
        match self.variables.iter().rev().find(|(known, _)| **known == *name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.fail(span, format!("undefined variable: {name}")),
        }
    }

    /// A chain of fields; arguments go to the last, which must then be a method.
    fn fields(
        &mut self,
        dot: &Value,
        receiver: Value,
        span: Span,
        names: &[Rc<str>],
        arguments: &[Operand],
        last: Option<Value>,
    ) -> Run<Value> {
        let Some((final_name, names)) = names.split_last() else { return Ok(receiver) };
        let mut receiver = receiver;
        for name in names {
            receiver = self.field(dot, &receiver, span, name, &[], None)?;
        }
        self.field(dot, &receiver, span, final_name, arguments, last)
    }

    fn field(
        &mut self,
        dot: &Value,
        receiver: &Value,
        span: Span,
        name: &str,
        arguments: &[Operand],
        last: Option<Value>,
    ) -> Run<Value> {
        let missing_key = self.machine.missing_key;
        let has_arguments = !arguments.is_empty() || last.is_some();
        match receiver {
            Value::Absent if missing_key == MissingKey::Error => {
                self.fail(span, format!("nil data; no entry for key {name:?}"))
            }
            Value::Absent => Ok(Value::Absent),
            Value::Nil => self.fail(span, format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(_) if has_arguments => {
                self.fail(span, format!("{name} is not a method but has arguments"))
            }
            Value::Map(map) => match (map.borrow().get(name), missing_key) {
                (Some(value), _) => {
                    self.note_read(map, name, value);
                    Ok(value.clone())
                }
                (None, MissingKey::Invalid) => Ok(Value::Absent),
                (None, MissingKey::Zero) => Ok(Value::Nil),
                (None, MissingKey::Error) => {
                    self.fail(span, format!("map has no entry for key {name:?}"))
                }
            },
            Value::Object(object) => {
                let mut values = Vec::with_capacity(arguments.len() + 1);
                for argument in arguments {
                    values.push(self.operand(dot, argument)?);
                }
                values.extend(last);
                if let Some(result) = object.call(name, &values) {
                    return result.map_err(|error| self.function_error(span, name, error));
                }
                match object.field(name) {
                    Some(_) if has_arguments => {
                        let kind = if object.kind() == Kind::Map {
                            "is not a method but has arguments"
                        } else {
                            "has arguments but cannot be invoked as function"
                        };
                        self.fail(span, format!("{name} {kind}"))
                    }
                    Some(value) => {
                        if self.machine.trace.is_some()
                            && let Some(map) = object.as_map()
                        {
                            self.note_read(&map, name, &value);
                        }
                        Ok(value)
                    }
                    None => self.no_field(span, name, receiver),
                }
            }
            other => self.no_field(span, name, other),
        }
    }

    fn note_read(&mut self, map: &Map, name: &str, value: &Value) {
        if let Some(trace) = &mut self.machine.trace {
            trace.read(map, name, value);
        }
    }

    /// Notes what `index` and `get` read.
    fn note_lookup(&mut self, values: &[Value]) {
        let Some((first, keys)) = values.split_first() else { return };
        let mut current = first.as_map();
        for key in keys {
            let (Some(map), Value::String(key)) = (current, key) else { return };
            let Some(value) = map.borrow().get(&**key).cloned() else { return };
            self.note_read(&map, key, &value);
            current = value.as_map();
        }
    }

    fn no_field(&self, span: Span, name: &str, receiver: &Value) -> Run<Value> {
        let kind = receiver.type_name();
        self.fail(span, format!("can't evaluate field {name} in type {kind}"))
    }

    fn call(
        &mut self,
        dot: &Value,
        entry: &Rc<Entry>,
        span: Span,
        name_span: Span,
        arguments: &[Operand],
        last: Option<Value>,
    ) -> Run<Value> {
        let count = arguments.len() + usize::from(last.is_some());
        let (name, arity) = (&entry.name, entry.arity);
        if count < arity.at_least && arity.variadic {
            let want = arity.at_least;
            let got = arguments.len();
            let message =
                format!("wrong number of args for {name}: want at least {want} got {got}");
            return self.fail(name_span, message);
        }
        if count != arity.at_least && !arity.variadic {
            let want = arity.at_least;
            let message = format!("wrong number of args for {name}: want {want} got {count}");
            return self.fail(name_span, message);
        }
        if let Some(lazy) = entry.lazy {
            let mut value = Value::Absent;
            for argument in arguments {
                value = self.operand(dot, argument)?;
                if value.is_true() == (lazy == Lazy::Or) {
                    return Ok(value);
                }
            }
            return Ok(last.unwrap_or(value));
        }
        let mut values = Vec::with_capacity(count);
        for argument in arguments {
            values.push(self.operand(dot, argument)?);
        }
        values.extend(last);
        if self.machine.trace.is_some() && matches!(&*entry.name, "index" | "get") {
            self.note_lookup(&values);
        }
        // Functions read their arguments: a hash of a long text returns only a few bytes.
        self.spend_many(span, values.iter().map(reading_steps).sum())?;
        let result = {
            let mut call = Call { machine: self.machine, layer: self.layer };
            (entry.run)(&mut call, &values)
        };
        result.map_err(|error| self.function_error(span, name, error))
    }

    fn function_error(
        &self,
        span: Span,
        name: &str,
        error: FunctionError,
    ) -> Box<crate::error::Error> {
        match error {
            FunctionError::Argument(message) => self.error(span, None, Reason::Execution(message)),
            FunctionError::Failed(message) => {
                self.error(span, Some(name), Reason::Execution(message))
            }
            FunctionError::Stopped(message) => {
                self.error(span, Some(name), Reason::Stopped(message))
            }
            FunctionError::Limit(exceeded) => self.limit(span, exceeded),
            FunctionError::Template(mut error) => {
                // A template that includes itself would otherwise report hundreds of frames.
                const MAX_FRAMES: usize = 10;
                if error.frames.len() >= MAX_FRAMES {
                    error.frames.remove(0);
                }
                error.frames.insert(0, self.frame(span, Some(name)));
                error
            }
        }
    }
}

/// What reading a value once costs. Maps are shared, and charged where they are walked.
fn reading_steps(value: &Value) -> u64 {
    let size = match value {
        Value::String(text) => text.len() / 64,
        Value::Bytes(bytes) => bytes.len() / 64,
        Value::List(items) => items.len() / 4,
        _ => 0,
    };
    size as u64
}
