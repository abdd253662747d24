//! Upgrade paths as a person reads them on a terminal.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use drawing::columns;

use super::{Hop, Reached, Route, UpgradePaths};

/// How many channels are named before only the number of the others is printed.
const NAMED_CHANNELS: usize = 3;

impl UpgradePaths {
    /// Tables, the risks they name, and advice.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (count, route) in self.routes.iter().enumerate() {
            if count > 0 {
                text.push('\n');
            }
            text += &self.route(route);
        }
        if self.routes.is_empty() {
            text += &self.reached();
        }
        if !self.risks.is_empty() {
            text += "\nRISKS\n";
            for risk in &self.risks {
                let _ = writeln!(
                    text,
                    "  {}: {}\n    {}",
                    risk.name,
                    one_line(&risk.message),
                    risk.url
                );
            }
        }
        if !self.advice.is_empty() {
            text.push('\n');
            for advice in &self.advice {
                let _ = writeln!(text, "{advice}");
            }
        }
        text
    }

    fn route(&self, route: &Route) -> String {
        let kind = match route.without_risks {
            true => "no known risks",
            false => "with known risks",
        };
        if route.hops.is_empty() {
            return "Nothing to do: both are the same release.\n".to_owned();
        }
        let mut text = format!("{}, {kind}\n", counted(route.hops.len(), "hop"));
        let row = |(hop, number): (&Hop, usize)| {
            let extended = hop.extended.as_ref();
            [
                number.to_string(),
                hop.from.to_string(),
                hop.to.to_string(),
                channels(&hop.channels),
                extended.map(|eus| format!("{} to {}", eus.from, eus.to)).unwrap_or_default(),
                hop.risks.join(", "),
            ]
        };
        let rows: Vec<_> = route.hops.iter().zip(1..).map(row).collect();
        if route.hops.iter().any(|hop| hop.extended.is_some()) {
            text += &columns(["HOP", "FROM", "TO", "CHANNELS", "EUS", "RISKS"], &rows);
        } else {
            let rows = rows
                .into_iter()
                .map(|[hop, from, to, channels, _, risks]| [hop, from, to, channels, risks]);
            let rows: Vec<_> = rows.collect();
            text += &columns(["HOP", "FROM", "TO", "CHANNELS", "RISKS"], &rows);
        }
        text
    }

    fn reached(&self) -> String {
        let mut text = match (&self.from, &self.to) {
            (Some(from), _) => match self.releases.len() {
                0 => format!("No updates lead on from {from}.\n"),
                many => format!("{} can be reached from {from}\n", counted(many, "release")),
            },
            (None, Some(to)) => match self.releases.len() {
                0 => format!("No updates lead to {to}.\n"),
                many => format!("{to} can be reached from {}\n", counted(many, "release")),
            },
            (None, None) => String::new(),
        };
        if self.releases.is_empty() {
            return text;
        }
        let row = |reached: &Reached| {
            let mark = if reached.head { " (head)" } else { "" };
            [
                reached.hops.to_string(),
                format!("{}{mark}", reached.version),
                reached.via.to_string(),
                channels(&reached.channels),
                reached.risks.join(", "),
            ]
        };
        let rows: Vec<_> = self.releases.iter().map(row).collect();
        text += &columns(["HOPS", "VERSION", "VIA", "CHANNELS", "RISKS"], &rows);
        text
    }
}

fn counted(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

fn channels(names: &BTreeSet<String>) -> String {
    let mut named: Vec<&str> = names.iter().map(String::as_str).collect();
    // What most clusters are on, first.
    named.sort_by_key(|name| (!name.starts_with("stable"), !name.starts_with("eus")));
    let more = named.len().saturating_sub(NAMED_CHANNELS);
    named.truncate(NAMED_CHANNELS);
    let shown = named.join(",");
    if more == 0 { shown } else { format!("{shown},+{more}") }
}

/// Messages come from a server; they stay on their line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
