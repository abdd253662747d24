//! Templates that loop, recurse or grow end in an error.

use go_template::{Exceeded, Limits, Reason};
use serde_json::json;

use crate::setup::{run, run_with};

fn limit(text: &str) -> Exceeded {
    let limits =
        Limits { steps: 200_000, output_bytes: 100_000, value_size: 50_000, ..Limits::default() };
    match run_with(limits, text, &json!({"n": 1})).map_err(|error| error.reason) {
        Err(Reason::Limit(exceeded)) => exceeded,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_long_loop_ends() {
    assert_eq!(limit("{{ range 1000000000 }}{{ end }}"), Exceeded::Steps(200_000));
}

#[test]
fn recursion_ends_before_the_stack_does() {
    for text in [
        r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#,
        r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#,
        r#"{{ define "a" }}{{ if . }}{{ with . }}{{ range (list 1) }}{{ include "a" (list (list 1)) }}{{ end }}{{ end }}{{ end }}{{ end }}{{ include "a" . }}"#,
        r#"{{ define "a" }}{{ tpl `{{ include "a" . }}` . }}{{ end }}{{ include "a" . }}"#,
    ] {
        assert_eq!(limit(text), Exceeded::Depth(Limits::default().depth), "{text}");
    }
}

#[test]
fn a_text_that_doubles_ends() {
    let text = r#"{{ $s := "xxxxxxxxxxxxxxxx" }}{{ range 100 }}{{ $s = print $s $s }}{{ end }}"#;
    assert_eq!(limit(text), Exceeded::Value(50_000));
}

#[test]
fn output_that_grows_ends() {
    assert_eq!(limit("{{ range 100000 }}xxxxxxxxxxxxxxxxxxxx{{ end }}"), Exceeded::Output(100_000));
}

#[test]
fn printing_a_list_that_contains_another_twice_at_each_level_ends() {
    let text = "{{ $l := list 1 }}{{ range 60 }}{{ $l = list $l $l }}{{ end }}{{ print $l }}";
    assert_eq!(limit(text), Exceeded::Value(50_000));
}

#[test]
fn lists_nested_deeper_than_the_stack_can_be_dropped() {
    let text = "{{ $l := list 1 }}{{ range 30000 }}{{ $l = list $l }}{{ end }}ok";
    assert_eq!(run(text, &json!({})).unwrap(), "ok");
}

#[test]
fn a_map_that_contains_itself_can_be_printed() {
    let text = r#"{{ $m := dict }}{{ $_ := set $m "self" $m }}{{ len (print $m) }}"#;
    assert!(run(text, &json!({})).is_ok());
}

#[test]
fn nested_parentheses_and_blocks_are_refused_beyond_a_depth() {
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(matches!(run(&deep, &json!({})).unwrap_err().reason, Reason::Syntax(_)));
    let blocks = format!("{}{}", "{{ if 1 }}".repeat(5000), "{{ end }}".repeat(5000));
    assert!(matches!(run(&blocks, &json!({})).unwrap_err().reason, Reason::Syntax(_)));
    let chain = format!("{{{{ if 0 }}}}{}{{{{ end }}}}", "{{ else if 0 }}".repeat(80));
    assert_eq!(run(&chain, &json!({})).unwrap(), "");
}

#[test]
fn lists_that_share_their_parts_are_not_compared_forever() {
    let text = "{{ $a := list 1 }}{{ $b := list 1 }}{{ range 60 }}{{ $a = list $a $a }}\
                {{ $b = list $b $b }}{{ end }}{{ same $a $b }}";
    assert_eq!(limit(text), Exceeded::Steps(200_000));
}
