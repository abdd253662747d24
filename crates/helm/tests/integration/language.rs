//! The language of templates, compared with Go through Helm.

use serde_json::Value as Json;

use crate::functions::values;
use crate::reference::{with_helm, with_ours};

/// Templates are separated by lines of `=====`; those that begin with `!` must fail.
const CASES: &str = include_str!("language/cases.txt");

/// Files of a case: a partial, so that it may define templates, and one that writes its output.
fn files(index: usize, case: &str) -> [(String, String); 2] {
    let partial = format!("_case{index}.tpl");
    let writer = format!(
        "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: c{index}\n\
         v{index}: {{{{ include \"sample/templates/{partial}\" . | toJson }}}}\n"
    );
    [(partial, case.to_owned()), (format!("case{index}.yaml"), writer)]
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

fn texts(output: &str) -> std::collections::BTreeMap<usize, String> {
    crate::reference::texts_in(output)
}

#[test]
fn templates_give_what_go_gives() {
    let cases: Vec<&str> = CASES.split("=====\n").filter(|case| !case.starts_with('!')).collect();
    let all: Vec<(String, String)> =
        cases.iter().enumerate().flat_map(|(index, case)| files(index, case)).collect();
    let templates = borrowed(&all);
    let values: Json = values();
    let theirs = texts(&with_helm(&templates, &values).unwrap());
    let ours = texts(&with_ours(&templates, &values).unwrap());
    assert_eq!(theirs.len(), cases.len(), "Helm wrote every case");
    let mut differences = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let (theirs, ours) = (theirs.get(&index), ours.get(&index));
        if theirs != ours {
            differences.push(format!("{case}\n  Helm: {theirs:?}\n  ours: {ours:?}"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn templates_fail_where_go_fails() {
    let mut differences = Vec::new();
    for case in CASES.split("=====\n").filter_map(|case| case.strip_prefix('!')) {
        let files = files(0, case);
        let templates = borrowed(&files);
        for (who, result) in
            [("Helm", with_helm(&templates, &values())), ("ours", with_ours(&templates, &values()))]
        {
            if let Ok(output) = result {
                differences.push(format!("{case}\n  {who}: {:?}", texts(&output)));
            }
        }
    }
    assert!(differences.is_empty(), "{} succeed:\n{}", differences.len(), differences.join("\n"));
}
