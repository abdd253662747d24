//! Files of a chart: which are rendered, and what failures affect.

use serde_json::json;

use crate::functions::values;
use crate::reference::{with_helm, with_ours};

#[test]
fn a_parent_replaces_what_a_partial_defines_in_the_order_of_helm() {
    let templates = [
        ("_a.tpl", r#"{{ define "name" }}from a{{ end }}"#),
        ("_b.tpl", r#"{{ define "name" }}from b{{ end }}"#),
        ("sub/_c.tpl", r#"{{ define "name" }}from c{{ end }}"#),
        ("out.yaml", "kind: A\napiVersion: v1\nv0: {{ include \"name\" . | toJson }}\n"),
    ];
    let texts = |output: String| crate::reference::texts_in(&output);
    let theirs = texts(with_helm(&templates, &json!({})).unwrap());
    assert_eq!(texts(with_ours(&templates, &json!({})).unwrap()), theirs);
    assert_eq!(theirs.len(), 1);
}

#[test]
fn a_change_of_values_is_seen_by_templates_that_are_rendered_later() {
    let templates = [
        ("a.yaml", "kind: A\napiVersion: v1\nv0: {{ .Values.s | toJson }}\n"),
        ("z.yaml", "{{ $_ := set .Values \"s\" \"changed\" }}"),
    ];
    let texts = |output: String| crate::reference::texts_in(&output);
    let theirs = texts(with_helm(&templates, &values()).unwrap());
    assert_eq!(theirs.get(&0).map(String::as_str), Some("changed"));
    assert_eq!(texts(with_ours(&templates, &values()).unwrap()), theirs);
}

#[test]
fn a_failure_names_file_line_and_reason() {
    let templates = [("bad.yaml", "a: 1\nb: {{ .Values.s.deeper.still }}\n")];
    let ours = with_ours(&templates, &values()).unwrap_err();
    let theirs = with_helm(&templates, &values()).unwrap_err();
    let reason = "can't evaluate field deeper in type interface {}";
    assert!(theirs.contains("sample/templates/bad.yaml:2:") && theirs.contains(reason), "{theirs}");
    assert!(ours.contains("sample/templates/bad.yaml:2:"), "{ours}");
    assert!(ours.contains("can't evaluate field deeper in type"), "{ours}");
}
