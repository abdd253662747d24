//! Comma-separated values as RFC 4180 and spreadsheets write them.

use super::TableProblem;

/// A table with names of columns in its first row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// One row below the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// As a spreadsheet counts: the first row is 1. With fields of several lines this is the line.
    pub number: usize,
    pub fields: Vec<String>,
}

impl Table {
    /// Reads a table. Rows without any text are skipped.
    pub fn parse(text: &str) -> Result<Self, Vec<TableProblem>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let first = text.lines().next().unwrap_or_default();
        let separator = [',', ';', '\t'].into_iter().find(|it| first.contains(*it)).unwrap_or(',');
        let mut rows = records(text, separator).map_err(|problem| vec![problem])?.into_iter();
        let columns = rows.next().ok_or_else(|| vec![TableProblem::Empty])?.fields;
        let mut problems = Vec::new();
        let mut kept = Vec::new();
        for row in rows {
            if row.fields.len() == columns.len() {
                kept.push(row);
            } else {
                let (expected, found) = (columns.len(), row.fields.len());
                problems.push(TableProblem::Fields { row: row.number, expected, found });
            }
        }
        if problems.is_empty() { Ok(Self { columns, rows: kept }) } else { Err(problems) }
    }

    /// The value of a row in a column.
    pub fn field<'r>(&self, row: &'r Row, column: &str) -> Option<&'r str> {
        let place = self.columns.iter().position(|name| name == column)?;
        row.fields.get(place).map(String::as_str)
    }
}

fn records(text: &str, separator: char) -> Result<Vec<Row>, TableProblem> {
    let mut records = Vec::new();
    let mut fields = vec![String::new()];
    let (mut line, mut start) = (1, 1);
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    let finish = |fields: &mut Vec<String>, number: usize, records: &mut Vec<Row>| {
        let fields: Vec<String> = std::mem::replace(fields, vec![String::new()])
            .into_iter()
            .map(|field| field.trim().to_owned())
            .collect();
        if fields.iter().any(|field| !field.is_empty()) {
            records.push(Row { number, fields });
        }
    };
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        let field = fields.last_mut();
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.into_iter().for_each(|field| field.push('"'));
            }
            '"' if is_quoted => is_quoted = false,
            '"' if field.as_ref().is_some_and(|field| field.trim().is_empty()) => is_quoted = true,
            letter if letter == separator && !is_quoted => fields.push(String::new()),
            '\n' if !is_quoted => {
                finish(&mut fields, start, &mut records);
                start = line;
            }
            letter => field.into_iter().for_each(|field| field.push(letter)),
        }
    }
    if is_quoted {
        return Err(TableProblem::Quote { row: start });
    }
    finish(&mut fields, start, &mut records);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_protect_separators_line_ends_and_quotes() {
        let table = Table::parse("a,b\n\"1,2\",\"x \"\"y\"\"\"\n3,\"4\n5\"\n6,7\n").unwrap();
        let fields: Vec<(usize, Vec<&str>)> = table
            .rows
            .iter()
            .map(|row| (row.number, row.fields.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            fields,
            [(2, vec!["1,2", "x \"y\""]), (3, vec!["3", "4\n5"]), (5, vec!["6", "7"])]
        );
    }
}
