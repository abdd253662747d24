//! Runs one template.

use go_template::{Arguments, Arity, Budget, Error, Functions, Limits, MissingKey, Set, Value};

/// The functions of Go, and `include`, `tpl`, `list`, `dict` and `set`.
pub(crate) fn functions() -> Functions {
    let mut functions = Functions::builtin();
    functions.add("include", Arity::exactly(2), |call, values| {
        let name = values.text(0)?;
        call.include(&name, values.any(1))
    });
    functions.add("tpl", Arity::exactly(2), |call, values| {
        let text = values.text(0)?;
        call.render("tpl", &text, values.any(1))
    });
    functions.add("list", Arity::at_least(0), |call, values| call.list(values.to_vec()));
    functions.add("dict", Arity::at_least(0), |_, values| {
        let pairs = values.chunks(2).map(|pair| Ok((pair.text(0)?.to_string(), pair.any(1))));
        Ok(Value::map(pairs.collect::<Result<_, go_template::FunctionError>>()?))
    });
    functions.add("set", Arity::exactly(3), |_, values| {
        let map = values.map(0)?.ok_or("nil map")?;
        map.borrow_mut().insert(values.text(1)?.to_string(), values.any(2));
        Ok(values.any(0))
    });
    functions.add("same", Arity::exactly(2), |call, values| {
        Ok(go_template::is_same(&values.any(0), &values.any(1), call.budget())?.into())
    });
    functions
}

pub(crate) fn run_with(
    limits: Limits,
    text: &str,
    data: &serde_json::Value,
) -> Result<String, Box<Error>> {
    let mut set = Set::new(functions(), MissingKey::Zero);
    set.parse("main", text)?;
    set.execute("main", Value::from_json(data), &mut Budget::new(limits))
}

pub(crate) fn run(text: &str, data: &serde_json::Value) -> Result<String, Box<Error>> {
    run_with(Limits::default(), text, data)
}
