//! Regular expressions with Go's syntax and meaning.

mod dialect;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use go_template::{Arguments, Arity, Call, FunctionError, Functions, Value};
use regex::{Match, Regex, RegexBuilder};

use super::Outcome;

/// Compiled expressions that are kept.
const MAX_COMPILED: usize = 200;

/// How large a compiled expression may be, and how many steps a byte of text then costs in 1/16. A
/// search visits every state of the expression for every byte in the worst case.
const SIZES: [(usize, u64); 3] = [(64 << 10, 1), (1 << 20, 16), (8 << 20, 128)];

/// A compiled expression and its cost for 16 bytes of text.
#[derive(Clone)]
struct Expression {
    regex: Regex,
    cost: u64,
}

impl Expression {
    /// Compiles with the smallest limit of size that is large enough, because the size itself is not
    /// reported.
    fn compile(pattern: &str) -> Result<Self, regex::Error> {
        let mut last = Err(regex::Error::CompiledTooBig(0));
        for (size, cost) in SIZES {
            last = RegexBuilder::new(pattern).size_limit(size).build();
            match last {
                Ok(regex) => return Ok(Self { regex, cost }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(_) => break,
            }
        }
        last.map(|regex| Self { regex, cost: 1 })
    }

    /// Accounts for one search in `text`.
    fn spend(&self, call: &mut Call<'_>, text: &str) -> Result<(), FunctionError> {
        Ok(call.budget().spend((text.len() as u64).saturating_mul(self.cost) / 16)?)
    }

    /// At most `limit` matches.
    fn matches<'t>(
        &self,
        call: &mut Call<'_>,
        text: &'t str,
        limit: usize,
    ) -> Result<Vec<Match<'t>>, FunctionError> {
        let mut found = Vec::new();
        for next in self.regex.find_iter(text).take(limit) {
            self.spend_match(call, text, next.end())?;
            found.push(next);
        }
        Ok(found)
    }

    /// The text with every match replaced.
    fn replaced(
        &self,
        call: &mut Call<'_>,
        text: &str,
        mut replacement: impl regex::Replacer,
    ) -> Outcome {
        let (mut out, mut end) = (String::new(), 0);
        // Groups are expensive to find, and most replacements do not refer to them.
        if let Some(literal) = replacement.no_expansion().map(Cow::into_owned) {
            for found in self.regex.find_iter(text) {
                self.spend_match(call, text, found.end())?;
                call.extend(&mut out, &text[end..found.start()])?;
                call.extend(&mut out, &literal)?;
                end = found.end();
            }
        } else {
            let mut new = String::new();
            for captures in self.regex.captures_iter(text) {
                let Some(whole) = captures.get(0) else { break };
                self.spend_match(call, text, whole.end())?;
                call.extend(&mut out, &text[end..whole.start()])?;
                new.clear();
                replacement.replace_append(&captures, &mut new);
                call.extend(&mut out, &new)?;
                end = whole.end();
            }
        }
        call.extend(&mut out, &text[end..])?;
        call.text(out)
    }

    /// The search for the match after one that ends at `end` may read the text up to its own end, as
    /// for `.*x|y` where there is no `x`. Few do, so that only a part of that is charged.
    fn spend_match(
        &self,
        call: &mut Call<'_>,
        text: &str,
        end: usize,
    ) -> Result<(), FunctionError> {
        let left = (text.len() - end) as u64;
        Ok(call.budget().spend(1 + left.saturating_mul(self.cost) / 4096)?)
    }
}

#[derive(Default)]
struct Expressions {
    compiled: RefCell<HashMap<String, Expression>>,
}

impl Expressions {
    fn get(&self, call: &mut Call<'_>, pattern: &str) -> Result<Expression, FunctionError> {
        if let Some(known) = self.compiled.borrow().get(pattern) {
            return Ok(known.clone());
        }
        // Compiling costs far more than matching.
        call.budget().spend(1000 + pattern.len() as u64 * 10)?;
        let parsing = |reason: String| -> FunctionError {
            format!("error parsing regexp: {reason}: `{pattern}`").into()
        };
        let translated = dialect::translate(pattern).map_err(parsing)?;
        let compiled = Expression::compile(&translated).map_err(|error| {
            let reason = error.to_string();
            parsing(reason.lines().last().unwrap_or("invalid").trim().to_owned())
        })?;
        // The larger it is, the longer it took to compile.
        call.budget().spend(compiled.cost * 1000)?;
        let mut all = self.compiled.borrow_mut();
        if all.len() < MAX_COMPILED {
            all.insert(pattern.to_owned(), compiled.clone());
        }
        Ok(compiled)
    }
}

type Run = fn(&mut Call<'_>, &Expression, &[Value]) -> Outcome;

pub(super) fn register(functions: &mut Functions) {
    let expressions = Rc::new(Expressions::default());
    let all: [(&str, &str, usize, Run); 6] = [
        ("regexMatch", "mustRegexMatch", 2, |_, expression, values| {
            Ok(expression.regex.is_match(&values.text(1)?).into())
        }),
        ("regexFind", "mustRegexFind", 2, |_, expression, values| {
            let text = values.text(1)?;
            Ok(Value::string(expression.regex.find(&text).map_or("", |found| found.as_str())))
        }),
        ("regexFindAll", "mustRegexFindAll", 3, find_all),
        ("regexReplaceAll", "mustRegexReplaceAll", 3, |call, expression, values| {
            let (text, replacement) = (values.text(1)?, values.text(2)?);
            expression.replaced(call, &text, &*replacement)
        }),
        ("regexReplaceAllLiteral", "mustRegexReplaceAllLiteral", 3, |call, expression, values| {
            let (text, replacement) = (values.text(1)?, values.text(2)?);
            expression.replaced(call, &text, regex::NoExpand(&replacement))
        }),
        ("regexSplit", "mustRegexSplit", 3, split),
    ];
    for (name, must, arity, run) in all {
        for name in [name, must] {
            let expressions = expressions.clone();
            functions.add(name, Arity::exactly(arity), move |call, values| {
                let pattern = values.text(0)?;
                let text = values.text(1)?;
                match expressions.get(call, &pattern) {
                    Ok(expression) => {
                        expression.spend(call, &text)?;
                        run(call, &expression, values)
                    }
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

fn limit(values: &[Value]) -> Result<usize, FunctionError> {
    Ok(usize::try_from(values.int(2)?).unwrap_or(usize::MAX))
}

fn find_all(call: &mut Call<'_>, expression: &Expression, values: &[Value]) -> Outcome {
    let (text, limit) = (values.text(1)?, limit(values)?);
    let found = expression.matches(call, &text, limit)?;
    call.list(found.into_iter().map(|found| Value::from(found.as_str())).collect())
}

fn split(call: &mut Call<'_>, expression: &Expression, values: &[Value]) -> Outcome {
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
    for found in expression.matches(call, &text, limit)? {
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
