//! Which sub-charts take part, under which names, and which values they give to their parents.
//!
//! In Helm's order: aliases first, then tags, then conditions, each chart before its sub-charts; at
//! last values are imported, each chart after its sub-charts.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::chart::{Chart, Dependency, ImportValue};
use crate::values::{
    self, Nulls, Table, Tree, ValuesError, combine, complete, leaf_at, table_at, to_map,
};
use crate::version::{Constraint, version};

/// How many sub-charts may take part. Each alias is one, and each has values of its own.
const MAX_CHARTS: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum DependencyError {
    #[error(
        "Chart.yaml declares sub-charts that are not in charts/: {}; run `helm dependency update`",
        .0.join(", ")
    )]
    Missing(Vec<String>),
    #[error("the chart has more than {MAX_CHARTS} sub-charts, aliases included")]
    Many,
    #[error(transparent)]
    Values(#[from] ValuesError),
}

/// A setting that Helm only warns about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    #[error("the condition {path:?} of the sub-chart {chart:?} is not a boolean")]
    Condition { chart: String, path: String },
    #[error("the tag {tag:?} of the sub-chart {chart:?} is not a boolean")]
    Tag { chart: String, tag: String },
    #[error("the sub-chart {chart:?} has no table {path:?} to import")]
    Import { chart: String, path: String },
}

/// Removes sub-charts that are disabled, renames those with an alias, and imports values. `given` are
/// the user's values.
pub fn process(
    chart: &mut Chart,
    given: &Map<String, Value>,
) -> Result<Vec<Warning>, DependencyError> {
    let declared = chart.metadata.dependencies.iter().flatten();
    let is_missing = |dependency: &&Dependency| {
        !chart.charts.iter().any(|child| child.name() == dependency.name)
    };
    let missing: Vec<String> = declared.filter(is_missing).map(|d| d.name.clone()).collect();
    if !missing.is_empty() {
        return Err(DependencyError::Missing(missing));
    }
    let mut warnings = Vec::new();
    enable(chart, given, "", &mut warnings)?;
    if count(chart) > MAX_CHARTS {
        return Err(DependencyError::Many);
    }
    import(chart, &mut warnings)?;
    Ok(warnings)
}

fn enable(
    chart: &mut Chart,
    given: &Map<String, Value>,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<(), DependencyError> {
    let Some(mut declared) = chart.metadata.dependencies.take() else { return Ok(()) };
    if declared.len() + chart.charts.len() > MAX_CHARTS {
        return Err(DependencyError::Many);
    }
    let mut charts: Vec<Chart> = Vec::new();
    for child in &chart.charts {
        if !declared.iter().any(|dependency| is_meant(dependency, child)) {
            charts.push(child.clone());
        }
    }
    for dependency in &mut declared {
        let child = chart.charts.iter().find(|child| is_meant(dependency, child));
        if let Some(child) = child {
            let mut child = child.clone();
            child.metadata.name = dependency.effective_name().to_owned();
            charts.push(child);
        }
        dependency.name = dependency.effective_name().to_owned();
        dependency.enabled = true;
    }
    chart.charts = charts;
    let seen = values::coalesce(chart, given)?;
    apply_tags(&mut declared, &seen, warnings);
    apply_conditions(&mut declared, &seen, path, warnings);
    let (declared, disabled): (Vec<_>, Vec<_>) =
        declared.into_iter().partition(|dependency| dependency.enabled);
    let disabled: BTreeSet<String> = disabled.into_iter().map(|d| d.name).collect();
    chart.charts.retain(|child| !disabled.contains(child.name()));
    let seen = to_map(&seen);
    for child in &mut chart.charts {
        let below = format!("{path}{}.", child.name());
        enable(child, &seen, &below, warnings)?;
    }
    let declared: Vec<Dependency> =
        declared.into_iter().filter(|dependency| !disabled.contains(&dependency.name)).collect();
    chart.metadata.dependencies = (!declared.is_empty()).then_some(declared);
    Ok(())
}

fn count(chart: &Chart) -> usize {
    chart.charts.iter().map(|child| 1 + count(child)).sum()
}

fn is_meant(dependency: &Dependency, child: &Chart) -> bool {
    let is_in_range = || {
        let constraint = Constraint::parse(&dependency.version).ok()?;
        Some(constraint.matches(&version(&child.metadata.version).ok()?))
    };
    child.name() == dependency.name && is_in_range().unwrap_or(false)
}

fn apply_tags(declared: &mut [Dependency], seen: &Table, warnings: &mut Vec<Warning>) {
    let Some(tags) = table_at(seen, &["tags"]) else { return };
    for dependency in declared {
        let (mut is_on, mut is_off) = (false, false);
        for tag in &dependency.tags {
            match tags.borrow().get(tag) {
                Some(Tree::Leaf(Value::Bool(true))) => is_on = true,
                Some(Tree::Leaf(Value::Bool(false))) => is_off = true,
                Some(_) => {
                    let (chart, tag) = (dependency.name.clone(), tag.clone());
                    warnings.push(Warning::Tag { chart, tag });
                }
                None => {}
            }
        }
        dependency.enabled = is_on || !is_off;
    }
}

/// Conditions win over tags.
fn apply_conditions(
    declared: &mut [Dependency],
    seen: &Table,
    prefix: &str,
    warnings: &mut Vec<Warning>,
) {
    for dependency in declared {
        for path in dependency.condition.trim().split(',').filter(|path| !path.is_empty()) {
            match leaf_at(seen, &format!("{prefix}{path}")) {
                Some(Value::Bool(value)) => {
                    dependency.enabled = value;
                    break;
                }
                Some(_) => {
                    let (chart, path) = (dependency.name.clone(), path.to_owned());
                    warnings.push(Warning::Condition { chart, path });
                }
                None => {}
            }
        }
    }
}

fn import(chart: &mut Chart, warnings: &mut Vec<Warning>) -> Result<(), ValuesError> {
    for child in &mut chart.charts {
        import(child, warnings)?;
    }
    let Some(declared) = &chart.metadata.dependencies else { return Ok(()) };
    let seen = combine(chart, &Map::new())?;
    let imported = Table::default();
    for dependency in declared {
        for import in &dependency.import_values {
            let (child, parent) = match import {
                ImportValue::Export(name) => (format!("exports.{name}"), "."),
                ImportValue::Table { child, parent } => (child.clone(), parent.as_str()),
                ImportValue::Other(_) => continue,
            };
            let path: Vec<&str> =
                std::iter::once(dependency.name.as_str()).chain(child.split('.')).collect();
            match table_at(&seen, &path) {
                // A copy: tables that are imported into each other could form a cycle.
                Some(found) => {
                    let copy = values::table(&to_map(&found));
                    complete(&imported, &nested(parent, copy), Nulls::Keep);
                }
                None => {
                    let chart = dependency.name.clone();
                    warnings.push(Warning::Import { chart, path: child });
                }
            }
        }
    }
    // Values of the parent override imported ones.
    let own = values::table(&to_map(&seen));
    complete(&own, &imported, Nulls::Keep);
    chart.values = to_map(&own);
    Ok(())
}

/// The table below the keys of a path; `.` is the table itself.
fn nested(path: &str, table: Table) -> Table {
    if path == "." {
        return table;
    }
    path.split('.').rev().fold(table, |below, key| {
        let above = Table::default();
        above.borrow_mut().insert(key.to_owned(), Tree::Table(Rc::clone(&below)));
        above
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(files: &[(&str, &str)]) -> Chart {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        Chart::from_folder(&files.collect()).unwrap()
    }

    const SUB: &str = "apiVersion: v2\nname: sub\nversion: 1.2.0\n";
    const OTHER: &str = "apiVersion: v2\nname: other\nversion: 0.1.0\n";

    fn top(dependencies: &str, values: &str, sub_values: &str) -> Chart {
        let top =
            format!("apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies:\n{dependencies}");
        chart(&[
            ("Chart.yaml", &top),
            ("values.yaml", values),
            ("charts/sub/Chart.yaml", SUB),
            ("charts/sub/values.yaml", sub_values),
            ("charts/other/Chart.yaml", OTHER),
        ])
    }

    fn names(chart: &Chart) -> Vec<&str> {
        chart.charts.iter().map(Chart::name).collect()
    }

    #[test]
    fn charts_that_are_not_declared_stay() {
        let mut chart = top("- {name: sub, version: ^1}\n", "", "");
        process(&mut chart, &Map::new()).unwrap();
        assert_eq!(names(&chart), ["other", "sub"]);
    }

    #[test]
    fn a_declared_chart_that_is_missing_is_an_error() {
        let mut chart = top("- {name: db, version: 1.x}\n- {name: cache, version: '*'}\n", "", "");
        let error = process(&mut chart, &Map::new()).unwrap_err().to_string();
        assert!(error.contains("not in charts/: db, cache"), "{error}");
    }

    #[test]
    fn conditions_win_over_tags_and_the_first_boolean_decides() {
        for (values, expected) in [
            ("", &["other", "sub"][..]),
            ("sub: {enabled: false}", &["other"]),
            ("sub: {enabled: true}\nother: {used: false}", &["other", "sub"]),
            ("sub: {enabled: x}\nother: {used: false}", &["other"]),
            ("tags: {back: false}", &["other"]),
            ("tags: {back: false, front: true}", &["other", "sub"]),
            ("tags: {back: false}\nsub: {enabled: true}", &["other", "sub"]),
        ] {
            let dependencies = "- name: sub\n  version: '>=1'\n  condition: sub.enabled,other.used\n  \
                                tags: [back, front]\n";
            let mut chart = top(dependencies, values, "");
            let warnings = process(&mut chart, &Map::new()).unwrap();
            assert_eq!(names(&chart), expected, "{values}");
            assert_eq!(warnings.is_empty(), !values.contains('x'), "{values}");
        }
    }

    #[test]
    fn a_chart_may_appear_under_several_aliases() {
        let dependencies = "- {name: sub, version: ~1.2, alias: first}\n\
                            - {name: sub, version: ~1.2, alias: second, condition: second.enabled}\n";
        let mut chart = top(dependencies, "second: {enabled: true}", "");
        process(&mut chart, &Map::new()).unwrap();
        assert_eq!(names(&chart), ["other", "first", "second"]);
    }

    #[test]
    fn a_chart_of_another_version_is_kept_as_if_not_declared() {
        let mut chart = top("- {name: sub, version: ^2, condition: with}\n", "with: false", "");
        process(&mut chart, &Map::new()).unwrap();
        // As in Helm: not meant by the declaration, but switched off by its name.
        assert_eq!(names(&chart), ["other"]);
    }

    #[test]
    fn values_are_imported_below_values_of_the_parent() {
        let dependencies = "- name: sub\n  version: 1.2.0\n  import-values:\n  - data\n  \
                            - {child: deep.x, parent: mine.y}\n  - nothing\n";
        let sub = "exports: {data: {port: 80, host: a}}\ndeep: {x: {k: 1}}\n";
        let mut chart = top(dependencies, "host: b\n", sub);
        let warnings = process(&mut chart, &Map::new()).unwrap();
        assert_eq!(chart.values["port"], 80);
        assert_eq!(chart.values["host"], "b");
        assert_eq!(chart.values["mine"]["y"]["k"], 1);
        let missing = Warning::Import { chart: "sub".into(), path: "exports.nothing".into() };
        assert_eq!(warnings, [missing]);
    }
}
