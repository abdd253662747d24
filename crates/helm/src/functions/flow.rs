//! Helm's own functions: templates that call templates, and those that stop a chart on purpose.

use std::collections::BTreeMap;

use go_template::{Arguments, Arity, FunctionError, Functions, Value};

/// Name of the template that `tpl` executes, as in Helm's messages.
const TPL_NAME: &str = "gotpl";

pub(super) fn register(functions: &mut Functions) {
    functions.add("include", Arity::exactly(2), |call, values| {
        let name = values.text(0)?;
        call.include(&name, values.any(1))
    });
    functions.add("tpl", Arity::exactly(2), |call, values| {
        let text = values.text(0)?;
        // Most values that pass through `tpl` are not templates.
        if !text.contains("{{") {
            return Ok(Value::string(without_no_value(&text)));
        }
        let rendered = call.render(TPL_NAME, &text, values.any(1))?;
        Ok(match rendered.as_str() {
            Some(text) if text.contains("<no value>") => Value::from(without_no_value(text)),
            _ => rendered,
        })
    });
    functions.add("required", Arity::exactly(2), |_, values| {
        let (message, value) = (values.text(0)?, values.any(1));
        if value.is_nil() || value.as_str() == Some("") {
            return Err(FunctionError::Stopped(message.to_string()));
        }
        Ok(value)
    });
    functions.add("fail", Arity::exactly(1), |_, values| {
        Err(FunctionError::Stopped(values.text(0)?.to_string()))
    });
    // There is no cluster: what is looked up does not exist.
    functions.add("lookup", Arity::exactly(4), |_, values| {
        for index in 0..4 {
            values.text(index)?;
        }
        Ok(Value::map(BTreeMap::new()))
    });
    functions.add("getHostByName", Arity::exactly(1), |_, values| {
        values.text(0)?;
        Ok(Value::from(""))
    });
}

/// Go prints `<no value>` for what is absent; Helm removes it from everything rendered.
pub(crate) fn without_no_value(text: &str) -> String {
    text.replace("<no value>", "")
}
