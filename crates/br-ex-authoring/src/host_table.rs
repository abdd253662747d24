//! Many hosts from one table: a row per host, and a template that every row fills in.
//!
//! ```text
//! host,role,address          interfaces:
//! worker-0,worker,192.0.2.10 …  - ip: ${address}
//! ```
//!
//! Nothing is returned while anything is wrong; every problem names its row and column.

mod csv;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use br_ex::layout::Interface;
use br_ex::{ClusterFacts, Document, Severity, check};
use machine_config::Role;

use crate::inventory::DocumentName;

pub use csv::{Row, Table};

/// The column with the host's name.
const HOST: &str = "host";
/// The column with its role; need not be there.
const ROLE: &str = "role";

/// What is wrong, and where in the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum TableProblem {
    #[error("the table is empty; expected a first row with names of columns, one of them `host`")]
    Empty,
    #[error("the table has no hosts; expected a row for each host below the names of columns")]
    NoRows,
    #[error("row 1: column `{name}` is missing, which {user}; columns are {columns}")]
    NoColumn { name: String, user: String, columns: String },
    #[error("row 1: column `{name}` is given twice")]
    ColumnTwice { name: String },
    #[error("row {row}: expected {expected} fields, found {found}")]
    Fields { row: usize, expected: usize, found: usize },
    #[error("row {row}: a quoted field does not end")]
    Quote { row: usize },
    #[error("row {row}, column {column}: {problem}")]
    Field { row: usize, column: String, problem: String },
    #[error("row {row}: {problem}")]
    Row { row: usize, problem: String },
    #[error("template, line {line}: `${{` without `}}`")]
    Placeholder { line: usize },
    #[error("template, line {line}: {what} is the same for every host; expected a column for it")]
    SameForAll { line: usize, what: String },
}

/// A document to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFile {
    pub row: usize,
    /// `<role>/<host>.yml`, or `<host>.yml` without a role.
    pub path: String,
    pub text: String,
    /// What is worth knowing about it; errors are problems instead.
    pub warnings: Vec<String>,
}

/// Fills in the template for every row.
pub fn host_files(
    table: &Table,
    template: &str,
    around: &ClusterFacts,
) -> Result<Vec<HostFile>, Vec<TableProblem>> {
    let mut problems = check_columns(table, template);
    if table.rows.is_empty() {
        problems.push(TableProblem::NoRows);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut files = Vec::new();
    let mut paths: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = Seen::default();
    for row in &table.rows {
        let own = check_fields(table, row);
        if !own.is_empty() {
            problems.extend(own);
            continue;
        }
        let path = match path_of(table, row) {
            Ok(path) => path,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        // Names select documents whatever their role.
        let stem = path.rsplit('/').next().unwrap_or(&path).to_owned();
        if let Some(first) = paths.insert(stem, row.number) {
            let problem = format!("row {first} is for the same host");
            problems.push(field(row, HOST, problem));
        }
        let text = filled(template, |name| table.field(row, name).unwrap_or_default());
        let document = Document::parse(text.as_bytes());
        let mut warnings = Vec::new();
        for finding in check(&document, around) {
            let line = finding.at.line;
            match finding.severity {
                Severity::Error => {
                    problems.push(problem_of_line(row.number, template, line, &finding.message));
                }
                Severity::Warning => warnings.push(format!("{path}:{finding}")),
                Severity::Info => {}
            }
        }
        problems.extend(seen.check(table, row, template, &document));
        files.push(HostFile { row: row.number, path, text, warnings });
    }
    problems.sort();
    problems.dedup();
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

fn field(row: &Row, column: &str, problem: String) -> TableProblem {
    TableProblem::Field { row: row.number, column: column.to_owned(), problem }
}

/// An error of a filled-in document, in the column that the value of the line comes from.
pub fn problem_of_line(row: usize, template: &str, line: usize, message: &str) -> TableProblem {
    let text = template.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let problem = format!("template line {line}: {message}");
    match names(text).into_iter().next() {
        Some(column) => TableProblem::Field { row, column, problem },
        None => TableProblem::Row { row, problem },
    }
}

fn check_columns(table: &Table, template: &str) -> Vec<TableProblem> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for name in &table.columns {
        if !seen.insert(name) {
            problems.push(TableProblem::ColumnTwice { name: name.clone() });
        }
    }
    let columns = table.columns.join(", ");
    let mut need = |name: &str, user: String| {
        if !table.columns.iter().any(|column| column == name) {
            let (name, columns) = (name.to_owned(), columns.clone());
            problems.push(TableProblem::NoColumn { name, user, columns });
        }
    };
    need(HOST, "names the host".to_owned());
    let mut needed = BTreeSet::new();
    for (index, line) in template.lines().enumerate() {
        for name in names(line) {
            if needed.insert(name.clone()) {
                need(&name, format!("line {} of the template uses", index + 1));
            }
        }
    }
    for (index, line) in template.lines().enumerate() {
        if line.matches("${").count() > names(line).len() {
            problems.push(TableProblem::Placeholder { line: index + 1 });
        }
    }
    problems
}

/// The names of the placeholders in a line.
fn names(line: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        names.push(name.trim().to_owned());
        rest = behind;
    }
    names
}

/// The template with every `${name}` replaced.
fn filled<'v>(template: &str, value: impl Fn(&str) -> &'v str) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        text.push_str(before);
        text.push_str(value(name.trim()));
        rest = behind;
    }
    text.push_str(rest);
    text
}

/// A value is put into YAML as it is, so it must not be able to become anything else.
fn check_fields(table: &Table, row: &Row) -> Vec<TableProblem> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/,@+=-".contains(c);
    let mut problems = Vec::new();
    for (column, value) in table.columns.iter().zip(&row.fields) {
        let problem = match value.chars().find(|c| !is_plain(*c)) {
            Some(c) => format!("expected letters, digits and ._:/,@+=-, found {c:?}"),
            None if value.is_empty() && column != ROLE => "expected a value, found none".to_owned(),
            None => continue,
        };
        problems.push(field(row, column, problem));
    }
    problems
}

fn path_of(table: &Table, row: &Row) -> Result<String, TableProblem> {
    let host = table.field(row, HOST).unwrap_or_default();
    let stem = DocumentName::of_host(host).map_err(|error| field(row, HOST, error.to_string()))?;
    if stem.is_cluster() {
        return Err(field(row, HOST, "a host cannot be named `cluster`".to_owned()));
    }
    match table.field(row, ROLE).filter(|role| !role.is_empty()) {
        None => Ok(format!("{stem}.yml")),
        Some(role) => match role.parse::<Role>() {
            Ok(role) => match role.almost() {
                None => Ok(format!("{role}/{stem}.yml")),
                Some(meant) => {
                    let problem =
                        format!("expected {meant}, or a role with another name, found {role}");
                    Err(field(row, ROLE, problem))
                }
            },
            Err(error) => Err(field(row, ROLE, error.to_string())),
        },
    }
}

/// Addresses of hosts, and the first row with each.
#[derive(Debug, Default)]
struct Seen(BTreeMap<String, usize>);

impl Seen {
    fn check(
        &mut self,
        table: &Table,
        row: &Row,
        template: &str,
        document: &Document,
    ) -> Vec<TableProblem> {
        let mut problems = Vec::new();
        let Some(layout) = document.layout() else { return problems };
        let mut own: BTreeMap<String, usize> = BTreeMap::new();
        for iface in layout.interfaces.iter().filter(|iface| !iface.is_absent()) {
            for address in iface.ips().flat_map(|ip| &ip.addresses) {
                let ip = address.net.addr();
                if !is_link_local(ip) {
                    own.insert(ip.to_string(), address.at.line);
                }
            }
            let mac = Interface::text(iface, "mac-address");
            own.extend(mac.map(|mac| (mac.value.to_ascii_lowercase(), mac.at.line)));
        }
        for (value, line) in own {
            let first = *self.0.entry(value.clone()).or_insert(row.number);
            if first == row.number {
                continue;
            }
            let text = template.lines().nth(line.saturating_sub(1)).unwrap_or_default();
            let columns = names(text);
            problems.push(match columns.iter().find(|name| table.field(row, name).is_some()) {
                Some(column) => field(row, column, format!("{value} is in row {first}, too")),
                None => TableProblem::SameForAll { line, what: value },
            });
        }
        problems
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "\
# brex-match: mac=${mac}
interfaces:
- name: eno1
  type: ethernet
  state: up
  ipv4: {enabled: false}
  ipv6: {enabled: false}
- name: br-ex
  type: ovs-bridge
  state: up
  bridge:
    allow-extra-patch-ports: true
    options: {mcast-snooping-enable: true}
    port: [{name: eno1}, {name: br-ex}]
- name: br-ex
  type: ovs-interface
  state: up
  copy-mac-from: eno1
  ipv4: {enabled: true, address: [{ip: '${address}', prefix-length: 24}]}
  ipv6: {enabled: false}
dns-resolver: {config: {server: ['192.0.2.1']}}
routes:
  config:
  - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: br-ex, metric: 48}
";

    fn made(table: &str, template: &str) -> Result<Vec<HostFile>, Vec<String>> {
        let output = |problems: Vec<TableProblem>| -> Vec<String> {
            problems.iter().map(ToString::to_string).collect()
        };
        let table = Table::parse(table).map_err(output)?;
        host_files(&table, template, &ClusterFacts::default()).map_err(output)
    }

    #[test]
    fn every_row_becomes_a_document_that_keeps_the_rules() {
        let table = "host,role,address,mac\nworker-0.example.com,worker,192.0.2.10,52:54:00:00:00:01\n\
                     \n\"db1\",,\"192.0.2.11\",52:54:00:00:00:02\n";
        let files = made(table, TEMPLATE).unwrap();
        let paths: Vec<(usize, &str)> =
            files.iter().map(|file| (file.row, file.path.as_str())).collect();
        assert_eq!(paths, [(2, "worker/worker-0.yml"), (4, "db1.yml")]);
        assert!(files[0].text.starts_with("# brex-match: mac=52:54:00:00:00:01\n"));
        assert!(files[1].text.contains("ip: '192.0.2.11'"), "{}", files[1].text);
        assert!(files.iter().all(|file| file.warnings.is_empty()), "{files:?}");
    }

    #[test]
    fn problems_name_their_row_and_column() {
        let head = "host,address,mac\n";
        let good = "w0,192.0.2.10,52:54:00:00:00:01\n";
        for (table, expected) in [
            (String::new(), "the table is empty"),
            (head.to_owned(), "the table has no hosts; expected a row for each host"),
            (
                "host,role,address,mac\nw0,workr,192.0.2.10,52:54:00:00:00:01\n".to_owned(),
                "row 2, column role: expected worker, or a role with another name, found workr",
            ),
            (
                "host,address\nw0,192.0.2.10\n".to_owned(),
                "row 1: column `mac` is missing, which line 1 of the template uses; columns are host, \
                 address",
            ),
            ("name,address,mac\nw0,1,2\n".to_owned(), "row 1: column `host` is missing"),
            (format!("{head}{good}w1,192.0.2.11\n"), "row 3: expected 3 fields, found 2"),
            (
                format!("{head}{good}w1,,52:54:00:00:00:02\n"),
                "row 3, column address: expected a value",
            ),
            (
                format!("{head}{good}w1,192.0.2.10,52:54:00:00:00:02\n"),
                "row 3, column address: 192.0.2.10 is in row 2, too",
            ),
            (
                format!("{head}{good}w0,192.0.2.11,52:54:00:00:00:02\n"),
                "row 3, column host: row 2 is for the same host",
            ),
            (
                format!("{head}W0,192.0.2.10,52:54:00:00:00:01\n"),
                "row 2, column host: \"W0\" is not a short host name",
            ),
            (
                format!("{head}w0,192.0.2.300,52:54:00:00:00:01\n"),
                "row 2, column address: template line 19: ",
            ),
            (
                format!("{head}w0,192.0.2.10 # x,52:54:00:00:00:01\n"),
                "row 2, column address: expected letters, digits and ._:/,@+=-, found ' '",
            ),
            (format!("{head}\"w0,192.0.2.10\n"), "row 2: a quoted field does not end"),
        ] {
            let problems = made(&table, TEMPLATE).unwrap_err();
            assert!(problems[0].starts_with(expected), "{table}: {problems:?}");
        }
    }

    #[test]
    fn an_address_that_the_template_gives_to_all_is_named_with_its_line() {
        let template = TEMPLATE.replace("'${address}'", "192.0.2.10");
        let table = "host,mac\nw0,52:54:00:00:00:01\nw1,52:54:00:00:00:02\n";
        let problems = made(table, &template).unwrap_err();
        assert_eq!(
            problems,
            ["template, line 19: 192.0.2.10 is the same for every host; expected a column for it"]
        );
    }

    #[test]
    fn fields_may_be_separated_by_semicolons() {
        let table = "\u{feff}host;address;mac\r\nw0;192.0.2.10;52:54:00:00:00:01\r\n";
        assert_eq!(made(table, TEMPLATE).unwrap().len(), 1);
    }
}
