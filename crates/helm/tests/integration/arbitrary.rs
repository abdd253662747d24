//! No argument makes a function panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use go_template::{Budget, Limits, MissingKey, Set, Value};
use helm::functions::{Environment, library, yaml};
use proptest::prelude::*;
use serde_json::json;

/// Arguments of every kind, and some that are close to limits.
const ARGUMENTS: [&str; 22] = [
    "nil",
    "true",
    "0",
    "-1",
    "3",
    "1000000000000",
    "-9223372036854775808",
    "1.5",
    "-1e300",
    "\"\"",
    "\"é\"",
    "\"abc def\"",
    "\"{{ .s }}\"",
    "\"(a|b)*\"",
    "\"2006-01-02\"",
    "\">=1.2 || x\"",
    "(list 1 \"a\" nil)",
    "(list)",
    "(dict \"a\" 1)",
    ".",
    "(now)",
    "\"\\xff\\xfe\"",
];

fn argument() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(ARGUMENTS.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_call_gives_a_result_or_an_error(
        index in any::<prop::sample::Index>(),
        arguments in proptest::collection::vec(argument(), 0..5),
    ) {
        let functions = library(Environment { now: 1, seed: 1 });
        let mut names: Vec<String> = functions.names().map(str::to_owned).collect();
        names.sort();
        // A key derivation takes a second without optimisation.
        names.retain(|name| name != "derivePassword");
        let name = index.get(&names);
        let text = format!("{{{{ {name} {} }}}}", arguments.join(" "));
        let mut set = Set::new(functions, MissingKey::Zero);
        if set.parse("main", &text).is_err() {
            return Ok(());
        }
        let data = Value::from_json(&json!({"s": "x", "m": {"k": [1, 2]}}));
        let limits = Limits { steps: 100_000, value_size: 1 << 20, ..Limits::default() };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _ = set.execute("main", data, &mut Budget::new(limits));
        }));
        prop_assert!(outcome.is_ok(), "{text} panics");
    }

    #[test]
    fn any_text_is_yaml_or_an_error(text in "[-a-z0-9:{}\\[\\]&*!|>'\"#, \n\t~<é]{0,60}") {
        if let Ok(value) = yaml::read(&text) {
            // What was read can be written and read again.
            let printed = yaml::print(&value);
            prop_assert!(yaml::read(&printed).is_ok(), "{printed}");
        }
    }
}
