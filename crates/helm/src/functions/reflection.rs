//! Types and kinds of values.

use go_template::{Arguments, Arity, Functions, Value, is_same};

pub(super) fn register(functions: &mut Functions) {
    functions.add("typeOf", Arity::exactly(1), |_, values| Ok(values.any(0).type_name().into()));
    functions.add("typeIs", Arity::exactly(2), |_, values| {
        Ok((*values.text(0)? == *values.any(1).type_name()).into())
    });
    functions.add("typeIsLike", Arity::exactly(2), |_, values| {
        let (wanted, name) = (values.text(0)?, values.any(1).type_name());
        Ok((*wanted == *name || name.strip_prefix('*') == Some(&wanted)).into())
    });
    functions
        .add("kindOf", Arity::exactly(1), |_, values| Ok(Value::from(values.any(0).kind().name())));
    functions.add("kindIs", Arity::exactly(2), |_, values| {
        Ok((&*values.text(0)? == values.any(1).kind().name()).into())
    });
    functions.add("deepEqual", Arity::exactly(2), |call, values| {
        Ok(is_same(&values.any(0), &values.any(1), call.budget())?.into())
    });
}
