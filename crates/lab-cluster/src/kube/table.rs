//! Lists as `oc get` prints them. The server itself renders the rows.

use std::fmt;

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::client::{ApiError, Client, send};

/// Requests rows in place of objects.
const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const GAP: usize = 3;

/// A list, ready to be printed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Column {
    name: String,
    /// Those above 0 are for wide terminals.
    priority: i32,
}

#[derive(Debug, Deserialize)]
struct Row {
    cells: Vec<Value>,
}

impl Client {
    /// The list, or the object, at a path such as `/api/v1/nodes`.
    pub async fn table(&self, path: &str) -> Result<Table, ApiError> {
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let url = self.url(segments);
        let request = self.request_as(Method::GET, url, AS_TABLE);
        send(request, format!("listing {path}")).await
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<usize> = self
            .column_definitions
            .iter()
            .enumerate()
            .filter(|(_, column)| column.priority == 0)
            .map(|(place, _)| place)
            .collect();
        let head = shown.iter().map(|place| self.column_definitions[*place].name.to_uppercase());
        let mut lines: Vec<Vec<String>> = vec![head.collect()];
        for row in &self.rows {
            lines.push(shown.iter().map(|place| text(row.cells.get(*place))).collect());
        }
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max();
        let widths: Vec<usize> =
            (0..shown.len()).map(|column| width(column).unwrap_or(0) + GAP).collect();
        for line in &lines {
            let cells = line.iter().zip(&widths);
            let padded: String = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
            writeln!(f, "{}", padded.trim_end())?;
        }
        Ok(())
    }
}

fn text(cell: Option<&Value>) -> String {
    match cell {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be_and_wide_ones_are_left_out() {
        let table: Table = serde_json::from_value(json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0},
                {"name": "Owner", "priority": 1},
                {"name": "Status", "priority": 0},
            ],
            "rows": [
                {"cells": ["storage", "you", "Available"]},
                {"cells": ["dns", "me", null]},
                {"cells": ["a-longer-name", "we", 7]},
            ],
        }))
        .unwrap();
        let expected = "\
NAME            STATUS
storage         Available
dns
a-longer-name   7
";
        assert_eq!(table.to_string(), expected);
    }
}
