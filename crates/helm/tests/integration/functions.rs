//! Every function at least three times, compared with Helm.

use std::collections::{BTreeMap, BTreeSet};

use go_template::Functions;
use helm::functions::{Environment, library};
use regex::Regex;
use serde_json::{Value as Json, json};

use crate::reference::{lines_of, texts_in, with_helm, with_ours};

const TABLE: &str = include_str!("functions/table.txt");

/// The functions of text/template, of Sprig 3.3.0 without `env` and `expandenv`, and of Helm 3.22.0.
const NAMES: &str = include_str!("functions/names.txt");

const PARTIAL: &str = r#"{{ define "shared" }}shared {{ .Values.s }}{{ end }}
{{- define "failing" }}{{ .Values.s.x.y }}{{ end }}"#;

pub(crate) fn values() -> Json {
    json!({
        "s": "hello", "n": 3, "f": 2.5, "b": true, "nothing": null, "big": 1_000_000, "empty": "",
        "list": [1, "a", null, true, {"x": "y"}], "map": {"a": 1, "b": {"c": 2}},
    })
}

enum Row {
    Same(&'static str),
    Fails(&'static str),
    Shape(Regex, &'static str),
}

fn rows() -> Vec<Row> {
    TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
        .map(|line| {
            if let Some(expression) = line.strip_prefix("! ") {
                return Row::Fails(expression);
            }
            match line.strip_prefix("~ ").and_then(|rest| rest.split_once(" ~ ")) {
                Some((shape, expression)) => {
                    Row::Shape(Regex::new(shape).expect("a shape"), expression)
                }
                None => Row::Same(line),
            }
        })
        .collect()
}

#[test]
fn every_function_is_in_the_table_three_times() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows() {
        let (Row::Same(expression) | Row::Fails(expression) | Row::Shape(_, expression)) = row;
        for word in expression.split(|c: char| !c.is_alphanumeric() && c != '_') {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    let functions: Functions = library(Environment { now: 0, seed: 0 });
    let ours: BTreeSet<&str> = functions.names().collect();
    let theirs: BTreeSet<&str> = NAMES.lines().filter(|name| !name.is_empty()).collect();
    let differing: Vec<&&str> = ours.symmetric_difference(&theirs).collect();
    assert!(differing.is_empty(), "only one of both has {differing:?}");
    let is_rare = |name: &&&str| counts.get(**name).copied().unwrap_or(0) < 3;
    let missing: Vec<&&str> = theirs.iter().filter(is_rare).collect();
    assert!(missing.is_empty(), "less than three calls of {missing:?}");
}

#[test]
fn expressions_give_what_helm_gives() {
    let rows = rows();
    let expressions: Vec<&str> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Same(expression) | Row::Shape(_, expression) => Some(*expression),
            Row::Fails(_) => None,
        })
        .collect();
    let text = lines_of(&expressions);
    let templates = [("_partial.tpl", PARTIAL), ("all.yaml", text.as_str())];
    let theirs = texts_in(&with_helm(&templates, &values()).unwrap());
    let ours = texts_in(&with_ours(&templates, &values()).unwrap());
    assert_eq!(theirs.len(), expressions.len(), "Helm wrote every line");
    let mut differences = Vec::new();
    let compared = rows.iter().filter(|row| !matches!(row, Row::Fails(_)));
    for (index, row) in compared.enumerate() {
        let (theirs, ours) = (theirs.get(&index), ours.get(&index));
        match row {
            Row::Shape(shape, expression) => {
                for (who, text) in [("Helm", theirs), ("ours", ours)] {
                    if !text.is_some_and(|text| shape.is_match(text)) {
                        differences.push(format!("{expression}\n  {who}: {text:?}"));
                    }
                }
            }
            Row::Same(expression) if theirs != ours => {
                differences.push(format!("{expression}\n  Helm: {theirs:?}\n  ours: {ours:?}"));
            }
            _ => {}
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn expressions_fail_where_helm_fails() {
    let mut differences = Vec::new();
    for row in rows() {
        let Row::Fails(expression) = row else { continue };
        let text = lines_of(&[expression]);
        let templates = [("_partial.tpl", PARTIAL), ("one.yaml", text.as_str())];
        if let Ok(output) = with_helm(&templates, &values()) {
            differences.push(format!("{expression}\n  Helm: {:?}", texts_in(&output)));
        }
        if let Ok(output) = with_ours(&templates, &values()) {
            differences.push(format!("{expression}\n  ours: {:?}", texts_in(&output)));
        }
    }
    assert!(differences.is_empty(), "{} succeed:\n{}", differences.len(), differences.join("\n"));
}
