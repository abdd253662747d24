//! Functions are accounted for by what they cost, so that no loop around them runs for long.

use go_template::{Budget, Exceeded, Limits, MissingKey, Reason, Set, Value};
use helm::functions::{Environment, library};
use serde_json::json;

/// Executes a template and returns how many steps it took.
fn run(text: &str, limits: Limits) -> (Result<String, Reason>, u64) {
    let mut set = Set::new(library(Environment { now: 0, seed: 0 }), MissingKey::Zero);
    set.parse("main", text).expect("a template");
    let mut budget = Budget::new(limits);
    let data = Value::from_json(&json!({}));
    let output = set.execute("main", data, &mut budget).map_err(|error| error.reason);
    (output, budget.steps())
}

/// The steps of an expression, without those that make the text or list `$x`.
fn cost(x: &str, expression: &str) -> u64 {
    let limits = Limits { steps: u64::MAX, ..Limits::default() };
    let prepared = format!("{{{{ $x := {x} }}}}");
    let (output, without) = run(&prepared, limits);
    output.expect("a prepared value");
    let (output, with) = run(&format!("{prepared}{{{{ $_ := {expression} }}}}"), limits);
    output.unwrap_or_else(|reason| panic!("{expression}: {reason}"));
    with - without
}

#[test]
fn a_call_is_charged_for_what_it_creates_or_reads() {
    for (x, expression, at_least) in [
        ("1", r#"genCA "a" 1"#, 100),
        ("1", r#"genSelfSignedCert "a" nil nil 1"#, 100),
        ("genCA \"a\" 1", r#"genSignedCert "a" nil nil 1 $x"#, 100),
        ("1", r#"genPrivateKey "rsa""#, 100),
        ("1", r#"derivePassword 1 "pin" "p" "u" "s""#, 1_000_000),
        ("1", "randAlphaNum 1000000", 60_000),
        ("1", "randBytes 1000000", 60_000),
        ("1", "until 1000000", 60_000),
        // These return little, however long the text is.
        ("repeat 1000000 \"a\"", "sha256sum $x", 15_000),
        ("repeat 1000000 \"a\"", "adler32sum $x", 15_000),
        ("repeat 1000000 \"a\"", "contains \"b\" $x", 15_000),
        ("repeat 1000000 \"a\"", "trunc 3 $x", 15_000),
        ("repeat 1000000 \"a\"", "len $x", 15_000),
        ("until 100000", "first $x", 25_000),
        ("until 2000", "uniq $x", 1_000_000),
        ("repeat 1000000 \"a\"", "regexMatch \"b\" $x", 60_000),
        // A large expression costs more for each byte.
        ("repeat 20000 \"a\"", "regexMatch \"(a{1,500}){1,20}b\" $x", 20_000),
        // The search after each match reads the text up to its end.
        ("repeat 4000 \"y\"", "regexFindAll \".*x|y\" $x -1 | len", 5_000),
        ("repeat 4000 \"y\"", "regexReplaceAll \".*x|y\" $x \"z\"", 5_000),
        ("repeat 4000 \"y\"", "regexSplit \".*x|y\" $x -1 | len", 5_000),
    ] {
        let cost = cost(x, expression);
        assert!(cost >= at_least, "{expression}: {cost} steps");
    }
}

#[test]
fn sizes_are_checked_before_anything_is_made() {
    for expression in [
        "repeat 2000000000 \"aaaaaaaa\"",
        "randAlphaNum 2000000000",
        "randAlpha 2000000000",
        "randNumeric 2000000000",
        "randAscii 2000000000",
        "randBytes 2000000000",
        "until 2000000000",
        "untilStep 0 2000000000 1",
        "seq 2000000000",
        "indent 2000000000 \"a\"",
        "nindent 2000000000 \"a\"",
        "replace \"\" (repeat 10000 \"a\") (repeat 10000 \"a\")",
        "regexReplaceAll \"\" (repeat 10000 \"a\") (repeat 10000 \"a\")",
        "regexReplaceAll \"(a+)\" (repeat 10000 \"a\") (repeat 10000 \"${1}\")",
        "join (repeat 10000 \"a\") (until 10000)",
        "wrapWith 1 (repeat 10000 \"a\") (repeat 10000 \"a\")",
    ] {
        let (output, _) = run(&format!("{{{{ {expression} }}}}"), Limits::default());
        let expected = Reason::Limit(Exceeded::Value(Limits::default().value_size));
        assert_eq!(output, Err(expected), "{expression}");
    }
}

#[test]
fn templates_that_nest_loops_or_share_values_end() {
    let limits = Limits { steps: 1_000_000, ..Limits::default() };
    for text in [
        "{{ range until 10000 }}{{ range until 10000 }}{{ end }}{{ end }}",
        "{{ range 1000000000 }}{{ end }}",
        "{{ range until 100000 }}{{ $_ := genCA \"a\" 1 }}{{ end }}",
        "{{ range until 100 }}{{ $_ := derivePassword 1 \"pin\" \"p\" \"u\" \"s\" }}{{ end }}",
        "{{ $d := dict }}{{ range until 40 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}{{ toYaml $d }}",
        "{{ $d := dict }}{{ range until 40 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}{{ deepCopy $d }}",
        "{{ $d := dict }}{{ range until 40 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}\
         {{ $_ := mergeOverwrite (deepCopy $d) $d }}",
        "{{ $m := dict }}{{ range $i := until 1000 }}{{ $_ := set $m (toString $i) 1 }}{{ end }}\
         {{ range until 10000 }}{{ $_ := omit $m \"a\" }}{{ end }}",
    ] {
        let (output, _) = run(text, limits);
        assert!(matches!(output, Err(Reason::Limit(_))), "{text}: {output:?}");
    }
}

#[test]
fn the_output_of_all_templates_together_is_limited() {
    let mut set = Set::new(library(Environment { now: 0, seed: 0 }), MissingKey::Zero);
    set.parse("main", "{{ repeat 600 \"a\" }}").expect("a template");
    let mut budget = Budget::new(Limits { output_bytes: 1000, ..Limits::default() });
    let data = Value::from_json(&json!({}));
    assert!(set.execute("main", data.clone(), &mut budget).is_ok());
    let error = set.execute("main", data, &mut budget).unwrap_err();
    assert_eq!(error.reason, Reason::Limit(Exceeded::Output(1000)));
}
