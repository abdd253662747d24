//! Lists.

use go_template::{Arguments, Arity, Call, FunctionError, Functions, Value, is_same};

use super::cast::to_integer;
use super::collections::{elements, is_empty};
use super::{Outcome, to_text};

type Run = fn(&mut Call<'_>, &[Value]) -> Outcome;

pub(super) fn register(functions: &mut Functions) {
    for name in ["list", "tuple"] {
        functions.add(name, Arity::at_least(0), |call, values| {
            let items = (0..values.len()).map(|index| values.any(index)).collect();
            call.list(items)
        });
    }
    // Every one of these has a second name; in Sprig, the second reports errors differently.
    let both: [(&str, &str, Arity, Run); 14] = [
        ("append", "mustAppend", Arity::exactly(2), append),
        ("push", "mustPush", Arity::exactly(2), append),
        ("prepend", "mustPrepend", Arity::exactly(2), prepend),
        ("first", "mustFirst", Arity::exactly(1), first),
        ("last", "mustLast", Arity::exactly(1), last),
        ("rest", "mustRest", Arity::exactly(1), rest),
        ("initial", "mustInitial", Arity::exactly(1), initial),
        ("reverse", "mustReverse", Arity::exactly(1), reverse),
        ("compact", "mustCompact", Arity::exactly(1), compact),
        ("uniq", "mustUniq", Arity::exactly(1), unique),
        ("without", "mustWithout", Arity::at_least(1), without),
        ("has", "mustHas", Arity::exactly(2), has),
        ("slice", "mustSlice", Arity::at_least(1), slice),
        ("chunk", "mustChunk", Arity::exactly(2), chunk),
    ];
    for (name, must, arity, run) in both {
        functions.add(name, arity, run);
        functions.add(must, arity, run);
    }
    functions.add("concat", Arity::at_least(0), |call, values| {
        let mut all = Vec::new();
        for value in values {
            all.extend(elements(value, "concat")?);
            call.allocate(all.len())?;
        }
        // Sprig's empty result is a nil slice, which is printed like an empty one.
        call.list(all)
    });
    functions.add("toStrings", Arity::exactly(1), |call, values| {
        let texts = texts(call, &values.any(0))?;
        call.list(texts)
    });
    functions.add("join", Arity::exactly(2), |call, values| {
        let separator = values.text(0)?;
        let mut joined = String::new();
        for (index, text) in texts(call, &values.any(1))?.iter().enumerate() {
            if index > 0 {
                call.extend(&mut joined, &separator)?;
            }
            call.extend(&mut joined, text.as_str().unwrap_or_default())?;
        }
        call.text(joined)
    });
    functions.add("sortAlpha", Arity::exactly(1), |call, values| {
        let mut texts = texts(call, &values.any(0))?;
        texts.sort_by(|left, right| left.as_bytes().cmp(&right.as_bytes()));
        call.list(texts)
    });
    functions.add("until", Arity::exactly(1), |call, values| {
        let count = values.int(0)?;
        numbers(call, 0, count, if count < 0 { -1 } else { 1 })
    });
    functions.add("untilStep", Arity::exactly(3), |call, values| {
        numbers(call, values.int(0)?, values.int(1)?, values.int(2)?)
    });
    functions.add("seq", Arity::at_least(0), sequence);
}

/// Elements as texts, without nil; another value is a list of one.
fn texts(call: &mut Call<'_>, value: &Value) -> Result<Vec<Value>, FunctionError> {
    let items = match value.items() {
        Some(items) => items,
        None => vec![value.clone()],
    };
    items
        .iter()
        .filter(|item| !item.is_nil())
        .map(|item| Ok(Value::String(to_text(call, item)?)))
        .collect()
}

fn append(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut items = elements(&values.any(0), "push on")?;
    items.push(values.any(1));
    call.list(items)
}

fn prepend(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut items = elements(&values.any(0), "prepend on")?;
    items.insert(0, values.any(1));
    call.list(items)
}

fn first(_: &mut Call<'_>, values: &[Value]) -> Outcome {
    Ok(elements(&values.any(0), "find first on")?.first().cloned().unwrap_or(Value::Nil))
}

fn last(_: &mut Call<'_>, values: &[Value]) -> Outcome {
    Ok(elements(&values.any(0), "find last on")?.last().cloned().unwrap_or(Value::Nil))
}

fn rest(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let items = elements(&values.any(0), "find rest on")?;
    call.list(items.into_iter().skip(1).collect())
}

fn initial(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut items = elements(&values.any(0), "find initial on")?;
    items.pop();
    call.list(items)
}

fn reverse(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut items = elements(&values.any(0), "find reverse on")?;
    items.reverse();
    call.list(items)
}

fn compact(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut items = elements(&values.any(0), "compact on")?;
    items.retain(|item| !is_empty(item));
    call.list(items)
}

fn unique(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut kept: Vec<Value> = Vec::new();
    for item in elements(&values.any(0), "find uniq on")? {
        if !is_in(call, &kept, &item)? {
            kept.push(item);
        }
    }
    call.list(kept)
}

fn without(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let mut kept = Vec::new();
    for item in elements(&values.any(0), "find without on")? {
        if !is_in(call, &values[1..], &item)? {
            kept.push(item);
        }
    }
    call.list(kept)
}

fn has(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let (needle, list) = (values.any(0), values.any(1));
    if list.is_nil() {
        return Ok(false.into());
    }
    let items = elements(&list, "find has on")?;
    Ok(is_in(call, &items, &needle)?.into())
}

fn is_in(call: &mut Call<'_>, items: &[Value], wanted: &Value) -> Result<bool, FunctionError> {
    for item in items {
        if is_same(wanted, item, call.budget())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn slice(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let list = values.any(0);
    let Some(items) = list.items() else {
        elements(&list, "slice")?;
        return Err("list should be type of slice or array".into());
    };
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |index: usize, default: usize| match values.get(index) {
        Some(value) => usize::try_from(to_integer(value)).unwrap_or(usize::MAX),
        None => default,
    };
    let (start, end) = (bound(1, 0), bound(2, items.len()));
    match items.get(start..end) {
        Some(part) => call.list(part.to_vec()),
        None => Err("reflect.Value.Slice: slice index out of bounds".into()),
    }
}

fn chunk(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let size = values.int(0)?;
    let items = elements(&values.any(1), "chunk")?;
    let Some(size) = usize::try_from(size).ok().filter(|size| *size > 0) else {
        return Err(format!("chunks cannot have the size {size}").into());
    };
    let chunks = items.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect();
    call.list(chunks)
}

fn numbers(call: &mut Call<'_>, start: i64, stop: i64, step: i64) -> Outcome {
    let mut all = Vec::new();
    let mut number = start;
    let distance = (stop.wrapping_sub(start)).unsigned_abs();
    let forward = stop >= start && step > 0;
    let backward = stop < start && step < 0;
    if !forward && !backward {
        return Ok(Value::list(all));
    }
    call.allocate(usize::try_from(distance / step.unsigned_abs()).unwrap_or(usize::MAX))?;
    while (forward && number < stop) || (backward && number > stop) {
        all.push(Value::Int(number));
        number = match number.checked_add(step) {
            Some(next) => next,
            None => break,
        };
    }
    Ok(Value::list(all))
}

fn sequence(call: &mut Call<'_>, values: &[Value]) -> Outcome {
    let bounds = match values.len() {
        1 => {
            let end = values.int(0)?;
            let step = if end < 1 { -1 } else { 1 };
            (1, end.saturating_add(step), step)
        }
        2 => {
            let (start, end) = (values.int(0)?, values.int(1)?);
            let step = if end < start { -1 } else { 1 };
            (start, end.saturating_add(step), step)
        }
        3 => {
            let (start, step, end) = (values.int(0)?, values.int(1)?, values.int(2)?);
            let towards = if end < start { -1 } else { 1 };
            if towards < 0 && step > 0 {
                return Ok(Value::from(""));
            }
            (start, end.saturating_add(towards), step)
        }
        _ => return Ok(Value::from("")),
    };
    let list = numbers(call, bounds.0, bounds.1, bounds.2)?;
    let texts: Vec<String> = list
        .items()
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_integer)
        .map(|n| n.to_string())
        .collect();
    call.text(texts.join(" "))
}
