//! Arithmetic. Integers wrap and texts are converted, as in Sprig.

use go_template::{Arguments, Arity, Functions, Value};

use super::cast::{to_float, to_integer};
use super::decimal::{Operation, compute};
use super::{Outcome, to_text};

pub(super) fn register(functions: &mut Functions) {
    functions.add("int", Arity::exactly(1), |_, values| Ok(Value::Int(to_integer(&values.any(0)))));
    functions
        .add("int64", Arity::exactly(1), |_, values| Ok(Value::Int64(to_integer(&values.any(0)))));
    functions
        .add("float64", Arity::exactly(1), |_, values| Ok(Value::Float(to_float(&values.any(0)))));
    functions.add("atoi", Arity::exactly(1), |_, values| {
        Ok(Value::Int(values.text(0)?.parse().unwrap_or(0)))
    });
    functions.add("toDecimal", Arity::exactly(1), |call, values| {
        let text = to_text(call, &values.any(0))?;
        Ok(Value::Int64(i64::from_str_radix(&text, 8).unwrap_or(0)))
    });
    functions.add("add1", Arity::exactly(1), |_, values| {
        Ok(Value::Int64(to_integer(&values.any(0)).wrapping_add(1)))
    });
    functions.add("add", Arity::at_least(0), |_, values| fold(values, i64::wrapping_add));
    functions.add("mul", Arity::at_least(1), |_, values| fold(values, i64::wrapping_mul));
    functions.add("sub", Arity::exactly(2), |_, values| fold(values, i64::wrapping_sub));
    functions.add("div", Arity::exactly(2), |_, values| divide(values, i64::checked_div));
    functions.add("mod", Arity::exactly(2), |_, values| divide(values, i64::checked_rem));
    for name in ["max", "biggest"] {
        functions.add(name, Arity::at_least(1), |_, values| fold(values, i64::max));
    }
    functions.add("min", Arity::at_least(1), |_, values| fold(values, i64::min));
    functions.add("maxf", Arity::at_least(1), |_, values| fold_float(values, f64::max));
    functions.add("minf", Arity::at_least(1), |_, values| fold_float(values, f64::min));
    functions.add("ceil", Arity::exactly(1), |_, values| {
        Ok(Value::Float(to_float(&values.any(0)).ceil()))
    });
    functions.add("floor", Arity::exactly(1), |_, values| {
        Ok(Value::Float(to_float(&values.any(0)).floor()))
    });
    functions.add("round", Arity::at_least(2), |_, values| round(values));
    functions.add("add1f", Arity::exactly(1), |_, values| {
        decimal(&[values.any(0), Value::Int(1)], Operation::Add)
    });
    functions.add("addf", Arity::at_least(0), |_, values| decimal(values, Operation::Add));
    functions.add("subf", Arity::at_least(1), |_, values| decimal(values, Operation::Subtract));
    functions.add("mulf", Arity::at_least(1), |_, values| decimal(values, Operation::Multiply));
    functions.add("divf", Arity::at_least(1), |_, values| decimal(values, Operation::Divide));
}

fn fold(values: &[Value], operation: fn(i64, i64) -> i64) -> Outcome {
    Ok(Value::Int64(values.iter().map(to_integer).reduce(operation).unwrap_or(0)))
}

fn fold_float(values: &[Value], operation: fn(f64, f64) -> f64) -> Outcome {
    Ok(Value::Float(values.iter().map(to_float).reduce(operation).unwrap_or(0.0)))
}

fn divide(values: &[Value], operation: fn(i64, i64) -> Option<i64>) -> Outcome {
    let (left, right) = (to_integer(&values.any(0)), to_integer(&values.any(1)));
    match operation(left, right) {
        Some(result) => Ok(Value::Int64(result)),
        None if right == 0 => Err("runtime error: integer divide by zero".into()),
        // The smallest integer divided by -1 wraps.
        None => Ok(Value::Int64(left.wrapping_div(right))),
    }
}

fn decimal(values: &[Value], operation: Operation) -> Outcome {
    let numbers: Vec<f64> = values.iter().map(to_float).collect();
    let (first, others) = match numbers.split_first() {
        Some((first, others)) => (*first, others),
        None => (0.0, &[][..]),
    };
    match compute(first, others, operation) {
        Some(number) => Ok(Value::Float(number)),
        None => Err("decimal division by 0".into()),
    }
}

fn round(values: &[Value]) -> Outcome {
    let number = to_float(&values.any(0));
    let places = values.int(1)?;
    let threshold = if values.len() > 2 { values.float(2)? } else { 0.5 };
    let scale = 10f64.powi(i32::try_from(places).unwrap_or(i32::MAX));
    let scaled = scale * number;
    let rounded = if scaled.fract() >= threshold { scaled.ceil() } else { scaled.floor() };
    Ok(Value::Float(rounded / scale))
}
