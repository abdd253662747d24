//! No text makes the parser or the executor panic.

use go_template::Limits;
use proptest::prelude::*;
use serde_json::json;

use crate::setup::run_with;

/// Pieces that templates consist of, so that many combinations parse.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "{{",
        "}}",
        "{{- ",
        " -}}",
        "{{ if .a }}",
        "{{ else }}",
        "{{ end }}",
        "{{ range $i, $e := .l }}",
        "{{ with .m }}",
        "{{ define \"x\" }}",
        "{{ template \"x\" . }}",
        "{{ include \"x\" . }}",
        "{{/* c */}}",
        "{{ $x := 1 }}",
        "{{ $x }}",
        "{{ $x = .b }}",
        "{{ .m.k }}",
        "{{ (index .l 0).z }}",
        "{{ printf \"%*d\" .n 3 }}",
        "{{ slice .s 1 2 }}",
        "{{ .a | print | len }}",
        "{{ break }}",
        "{{ continue }}",
        "{{ eq 1 .n }}",
        " ",
        "\n",
        "text",
        "$",
        ".",
        "|",
        ":=",
        "(",
        ")",
        "\"",
        "`",
        "'",
        "-",
        "0x",
        "1e",
        "é",
        "nil",
        "true",
        "index",
        "{{ tpl .s . }}",
    ];
    prop_oneof![
        8 => proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,5}",
    ]
}

proptest! {
    #[test]
    fn any_text_gives_a_result_or_an_error(pieces in proptest::collection::vec(piece(), 0..25)) {
        let text = pieces.concat();
        let data = json!({
            "a": true, "b": null, "n": 3, "s": "{{ .n }}é", "l": [1, "x", {"z": 1}, null], "m": {"k": "v"},
        });
        let limits = Limits { steps: 20_000, output_bytes: 100_000, value_size: 100_000, ..Limits::default() };
        let _ = run_with(limits, &text, &data);
    }

    #[test]
    fn any_format_prints(format in "[%a-zA-Z0-9.+\\-#* \\[\\]é]{0,12}", number in any::<i64>(), float in any::<f64>()) {
        let data = json!({"f": format, "i": number, "g": float, "s": "é\u{0}", "l": [1, null]});
        let _ = run_with(Limits::default(), "{{ printf .f .i .g .s .l nil }}", &data);
    }
}
