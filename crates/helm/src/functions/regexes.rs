//! Regular expressions with Go's syntax and meaning.

mod dialect;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use go_template::{Arguments, Arity, Call, FunctionError, Functions, Value};
use regex::Regex;

use super::Outcome;

/// Compiled expressions that are kept.
const MAX_COMPILED: usize = 200;

#[derive(Default)]
struct Expressions {
    compiled: RefCell<HashMap<String, Regex>>,
}

impl Expressions {
    fn get(&self, call: &mut Call<'_>, pattern: &str) -> Result<Regex, FunctionError> {
        if let Some(known) = self.compiled.borrow().get(pattern) {
            return Ok(known.clone());
        }
        // Compiling costs far more than matching.
        call.budget().spend(1000 + pattern.len() as u64 * 10)?;
        let parsing = |reason: String| -> FunctionError {
            format!("error parsing regexp: {reason}: `{pattern}`").into()
        };
        let translated = dialect::translate(pattern).map_err(parsing)?;
        let compiled = Regex::new(&translated).map_err(|error| {
            let reason = error.to_string();
            parsing(reason.lines().last().unwrap_or("invalid").trim().to_owned())
        })?;
        let mut all = self.compiled.borrow_mut();
        if all.len() < MAX_COMPILED {
            all.insert(pattern.to_owned(), compiled.clone());
        }
        Ok(compiled)
    }
}

type Run = fn(&mut Call<'_>, &Regex, &[Value]) -> Outcome;

pub(super) fn register(functions: &mut Functions) {
    let expressions = Rc::new(Expressions::default());
    let all: [(&str, &str, usize, Run); 6] = [
        ("regexMatch", "mustRegexMatch", 2, |_, regex, values| {
            Ok(regex.is_match(&values.text(1)?).into())
        }),
        ("regexFind", "mustRegexFind", 2, |_, regex, values| {
            let text = values.text(1)?;
            Ok(Value::string(regex.find(&text).map_or("", |found| found.as_str())))
        }),
        ("regexFindAll", "mustRegexFindAll", 3, find_all),
        ("regexReplaceAll", "mustRegexReplaceAll", 3, |call, regex, values| {
            let (text, replacement) = (values.text(1)?, values.text(2)?);
            bound_replacement(call, regex, &text, &replacement)?;
            let replaced = regex.replace_all(&text, &*replacement).into_owned();
            call.text(replaced)
        }),
        ("regexReplaceAllLiteral", "mustRegexReplaceAllLiteral", 3, |call, regex, values| {
            let (text, replacement) = (values.text(1)?, values.text(2)?);
            bound_replacement(call, regex, &text, &replacement)?;
            let literal = regex::NoExpand(&replacement);
            let replaced = regex.replace_all(&text, literal).into_owned();
            call.text(replaced)
        }),
        ("regexSplit", "mustRegexSplit", 3, split),
    ];
    for (name, must, arity, run) in all {
        for name in [name, must] {
            let expressions = expressions.clone();
            functions.add(name, Arity::exactly(arity), move |call, values| {
                let pattern = values.text(0)?;
                let text = values.text(1)?;
                call.budget().spend(text.len() as u64 / 16)?;
                match expressions.get(call, &pattern) {
                    Ok(regex) => run(call, &regex, values),
                    // The only one that hides the error.
                    Err(FunctionError::Failed(_)) if name == "regexMatch" => Ok(false.into()),
                    Err(error) => Err(error),
                }
            });
        }
    }
    functions.add("regexQuoteMeta", Arity::exactly(1), |call, values| {
        let text = values.text(0)?;
        let mut quoted = String::with_capacity(text.len());
        for c in text.chars() {
            if r"\.+*?()|[]{}^$".contains(c) {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        call.text(quoted)
    });
}

/// A short expression can match everywhere, and each match be replaced by a long text.
fn bound_replacement(
    call: &mut Call<'_>,
    regex: &Regex,
    text: &str,
    replacement: &str,
) -> Result<(), FunctionError> {
    let matches = regex.find_iter(text).count();
    // Matches do not overlap: one reference to a group adds the text at most once.
    let references = replacement.matches('$').count().saturating_mul(text.len());
    let literal = matches.saturating_mul(replacement.len());
    call.allocate(text.len().saturating_add(literal).saturating_add(references))?;
    Ok(())
}

fn limit(values: &[Value]) -> Result<usize, FunctionError> {
    Ok(usize::try_from(values.int(2)?).unwrap_or(usize::MAX))
}

fn find_all(call: &mut Call<'_>, regex: &Regex, values: &[Value]) -> Outcome {
    let (text, limit) = (values.text(1)?, limit(values)?);
    let found = regex.find_iter(&text).take(limit).map(|m| Value::from(m.as_str())).collect();
    call.list(found)
}

fn split(call: &mut Call<'_>, regex: &Regex, values: &[Value]) -> Outcome {
    let (text, limit) = (values.text(1)?, limit(values)?);
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    if !values.text(0)?.is_empty() && text.is_empty() {
        return Ok(Value::list(vec!["".into()]));
    }
    let mut parts = Vec::new();
    let mut start = 0;
    let mut end = 0;
    for found in regex.find_iter(&text) {
        if parts.len() + 1 == limit {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(Value::from(&text[start..end]));
        }
        start = found.end();
    }
    if end != text.len() {
        parts.push(Value::from(&text[start..]));
    }
    call.list(parts)
}
