//! Comments that switch rules off and on again, as markdownlint knows them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::Finding;
use crate::rule::{Group, Rule};
use crate::source::Source;

/// Such a comment: what to do, and for which rules.
pub(super) const DIRECTIVE: &str = r"(?i)<!--\s*markdownlint-(disable-next-line|disable-file|enable-file|disable|enable|capture|restore)((?:\s+[a-z0-9_-]+)*)\s*-->";

static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    #[expect(clippy::unwrap_used, reason = "a constant pattern, which every test compiles")]
    Regex::new(DIRECTIVE).unwrap()
});

/// Which rules are off in which line.
#[derive(Debug)]
pub(super) struct Allowed {
    off: Vec<BTreeSet<Rule>>,
}

impl Allowed {
    pub(super) fn is_checked(&self, finding: &Finding) -> bool {
        self.off.get(finding.at.line - 1).is_none_or(|off| !off.contains(&finding.rule))
    }
}

/// Reads the comments of the lines from `first_line` on.
pub(super) fn read(source: &Source<'_>, first_line: usize) -> Allowed {
    let lines = || (first_line..source.line_count()).map(|line| (line, source.line(line)));
    let mut off = BTreeSet::new();
    for (_, line) in lines() {
        for (action, names) in directives(line) {
            match action.as_str() {
                "disable-file" => off.extend(rules(names)),
                "enable-file" => off = &off - &rules(names),
                _ => {}
            }
        }
    }
    let mut captured = off.clone();
    let mut per_line = vec![BTreeSet::new(); first_line];
    for (_, line) in lines() {
        for (action, names) in directives(line) {
            match action.as_str() {
                "disable" => off.extend(rules(names)),
                "enable" => off = &off - &rules(names),
                "capture" => captured.clone_from(&off),
                "restore" => off.clone_from(&captured),
                _ => {}
            }
        }
        per_line.push(off.clone());
    }
    for (index, line) in lines() {
        for (action, names) in directives(line) {
            if action == "disable-next-line"
                && let Some(next) = per_line.get_mut(index + 1)
            {
                next.extend(rules(names));
            }
        }
    }
    Allowed { off: per_line }
}

fn directives(line: &str) -> impl Iterator<Item = (String, &str)> {
    PATTERN.captures_iter(line).map(|found| {
        let part = |index| found.get(index).map_or("", |part| part.as_str());
        (part(1).to_ascii_lowercase(), part(2))
    })
}

/// The rules that are named; all of them when none is.
fn rules(names: &str) -> BTreeSet<Rule> {
    let is_meant = |rule: &Rule| {
        let mut names = names.split_whitespace().peekable();
        names.peek().is_none() || names.any(|name| rule.answers_to(name))
    };
    Rule::ALL.into_iter().filter(|rule| rule.group() == Group::Markdown).filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use crate::markdown::tests::assert_table;

    #[test]
    fn comments_switch_rules_off_for_a_line_a_stretch_or_a_file() {
        const TITLE: &str = "# T\n";
        let cases: [(&str, &[&str]); 7] = [
            ("##a\n", &["2:1 MD018"]),
            ("<!-- markdownlint-disable-next-line -->\n##a\n\n##b\n", &["5:1 MD018"]),
            (
                "<!-- markdownlint-disable MD018 -->\n##a\n\n<!-- markdownlint-enable no-missing-space-atx -->\n##b\n",
                &["6:1 MD018"],
            ),
            ("##a\n\n<!-- MARKDOWNLINT-DISABLE-FILE spaces -->\n", &[]),
            ("<!-- markdownlint-disable MD001 -->\n##a\n", &["3:1 MD018"]),
            (
                "<!-- markdownlint-capture -->\n<!-- markdownlint-disable -->\n##a\n<!-- markdownlint-restore -->\n##b\n",
                &["6:1 MD018"],
            ),
            ("<!-- markdownlint-disable unheard-of -->\n##a\n", &["3:1 MD018"]),
        ];
        for (text, wanted) in cases {
            assert_table(&[(&format!("{TITLE}{text}"), wanted)]);
        }
    }
}
