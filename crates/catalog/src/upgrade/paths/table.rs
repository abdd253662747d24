//! Upgrade paths of operators as a person reads them on a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use drawing::columns;

use super::{Hop, Reached, UpgradePaths};

impl UpgradePaths {
    /// Tables, what is deprecated, and advice.
    pub fn table(&self) -> String {
        let mut text = match (&self.from, &self.to) {
            (Some(_), Some(_)) => self.path_table(),
            _ => self.reached_table(),
        };
        let deprecated = self.deprecated();
        if !deprecated.is_empty() {
            text += "\nDEPRECATED\n";
            for (bundle, message) in deprecated {
                let _ = writeln!(text, "  {bundle}: {}", one_line(message));
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

    fn place(&self) -> String {
        format!("channel {} of {}", self.channel, self.package)
    }

    fn path_table(&self) -> String {
        if self.hops.is_empty() {
            return "Nothing to do: both are the same version.\n".to_owned();
        }
        let row = |(hop, number): (&Hop, usize)| {
            [
                number.to_string(),
                hop.from.to_string(),
                hop.to.to_string(),
                hop.bundle.clone(),
                one_line(&hop.because),
            ]
        };
        let rows: Vec<_> = self.hops.iter().zip(1..).map(row).collect();
        let head = format!("{} in {}\n", counted(rows.len(), "hop"), self.place());
        head + &columns(["HOP", "FROM", "TO", "BUNDLE", "BECAUSE IT"], &rows)
    }

    fn reached_table(&self) -> String {
        let count = counted(self.versions.len(), "version");
        let place = self.place();
        let text = match (&self.from, &self.to) {
            (Some(from), _) if self.versions.is_empty() => {
                return format!("{from} is the head of {place}: nothing is newer.\n");
            }
            (Some(from), _) => format!("{count} of {place} can be reached from {from}\n"),
            (None, Some(to)) if self.versions.is_empty() => {
                return format!("No other version of {place} leads to {to}.\n");
            }
            (None, Some(to)) => format!("{to} of {place} can be reached from {count}\n"),
            (None, None) => String::new(),
        };
        let row = |reached: &Reached| {
            let mark = if reached.head { " (head)" } else { "" };
            let olm = match reached.automatic {
                true => "goes there",
                false => "passes by",
            };
            [
                reached.hops.to_string(),
                format!("{}{mark}", reached.version),
                reached.via.to_string(),
                olm.to_owned(),
                one_line(&reached.because),
            ]
        };
        let rows: Vec<_> = self.versions.iter().map(row).collect();
        let because = if self.from.is_some() { "BECAUSE IT" } else { "BECAUSE THE NEXT" };
        let mut text = text + &columns(["HOPS", "VERSION", "VIA", "OLM", because], &rows);
        if self.versions.iter().any(|reached| !reached.automatic) {
            text += "\nWhat OLM passes by is reached with a catalog that ends there: mirror with maxVersion.\n";
        }
        text
    }

    fn deprecated(&self) -> BTreeMap<&str, &str> {
        let hops = self.hops.iter().map(|hop| (&hop.bundle, &hop.deprecation));
        let reached = self.versions.iter().map(|reached| (&reached.bundle, &reached.deprecation));
        let all = hops.chain(reached);
        all.filter_map(|(bundle, why)| Some((bundle.as_str(), why.as_deref()?))).collect()
    }
}

fn counted(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// Text of a catalog stays on its line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
