//! The language where other implementations are known to differ from Go.
//!
//! What real Go prints for a wider table is compared in the `helm` crate, with Helm itself.

use serde_json::json;

use crate::setup::run;

#[test]
fn space_to_the_right_of_a_comment_stays_without_a_marker() {
    let text = "a\n  {{- /* c */}}\n  - b";
    assert_eq!(run(text, &json!({})).unwrap(), "a\n  - b");
    assert_eq!(run("a {{- /* c */ -}} b", &json!({})).unwrap(), "ab");
}

#[test]
fn set_changes_the_map_that_others_see() {
    let text = r#"{{ $a := dict "x" "1" }}{{ $b := $a }}{{ $_ := set $b "x" "2" }}{{ $a.x }}"#;
    assert_eq!(run(text, &json!({})).unwrap(), "2");
}

#[test]
fn a_field_of_a_missing_key_is_an_error_with_its_place() {
    let error = run("line\n{{ .a.b.c }}", &json!({"a": {}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "template: main:2:3: executing \"main\" at <.a.b.c>: \
         nil pointer evaluating interface {}.c"
    );
}

#[test]
fn a_field_of_an_absent_pipeline_is_absent() {
    assert_eq!(run("{{ (.a).b.c }}", &json!({})).unwrap(), "<no value>");
    assert_eq!(run("{{ $x := .a }}{{ $x.b.c }}", &json!({})).unwrap(), "<no value>");
}

#[test]
fn an_error_in_an_included_template_names_both_places() {
    let text = "{{ define \"inner\" }}\n{{ .a.b }}{{ end }}{{ include \"inner\" . }}";
    let error = run(text, &json!({})).unwrap_err();
    assert_eq!(error.frames.len(), 2);
    assert_eq!(error.place().map(|place| place.line), Some(2));
    assert!(error.to_string().contains("error calling include: template: main:2:"), "{error}");
}

#[test]
fn templates_that_a_text_defines_are_visible_to_it_only() {
    let text = r#"{{ tpl `{{ define "x" }}in{{ end }}{{ include "x" . }}` . }}{{ include "x" . }}"#;
    let error = run(text, &json!({})).unwrap_err();
    assert!(error.to_string().contains("no template \"x\""), "{error}");
}

#[test]
fn a_definition_of_space_only_does_not_replace_another() {
    let text = r#"{{ define "x" }}kept{{ end }}{{ define "x" }} {{ end }}{{ template "x" }}"#;
    assert_eq!(run(text, &json!({})).unwrap(), "kept");
}

#[test]
fn syntax_errors_name_the_line() {
    for (text, message) in [
        ("a\n{{ foo }}", "template: main:2: function \"foo\" not defined"),
        ("{{ $x }}", "template: main:1: undefined variable \"$x\""),
        ("{{ if . }}", "template: main:1: unexpected EOF"),
        ("{{ end }}", "template: main:1: unexpected {{end}}"),
        ("{{ 1 | 2 }}", "template: main:1: non executable command in pipeline stage 2"),
        ("{{ break }}", "template: main:1: {{break}} outside {{range}}"),
        ("{{ /* c */ }}", "template: main:1: unexpected \"/\" in command"),
    ] {
        assert_eq!(run(text, &json!({})).unwrap_err().to_string(), message);
    }
}
