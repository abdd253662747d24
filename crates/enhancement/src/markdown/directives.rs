//! Comments that disable and enable rules, as in markdownlint.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::Finding;
use crate::pattern::pattern;
use crate::rule::{Group, Rule};
use crate::source::Source;

/// A directive: the action, and the rules it applies to.
static DIRECTIVE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix) <!-- \s* markdownlint-
          (disable-next-line | disable-file | enable-file | disable | enable | capture | restore)
          ((?: \s+ [a-z0-9_-]+ )*) \s* -->",
    )
});

/// Whether a comment is a directive.
pub(super) fn is_directive(comment: &str) -> bool {
    DIRECTIVE.is_match(comment)
}

/// The rules that are disabled in each line. Lines share equal sets.
#[derive(Debug)]
pub(super) struct Directives {
    disabled: Vec<Rc<BTreeSet<Rule>>>,
}

impl Directives {
    pub(super) fn is_enabled(&self, finding: &Finding) -> bool {
        self.disabled.get(finding.at.line - 1).is_none_or(|rules| !rules.contains(&finding.rule))
    }
}

/// Parses the directives in the lines from `first_line` on.
pub(super) fn parse(source: &Source<'_>, first_line: usize) -> Directives {
    let lines = || (first_line..source.line_count()).map(|line| (line, source.line(line)));
    let mut disabled = BTreeSet::new();
    for (_, line) in lines() {
        for (action, names) in directives(line) {
            match action.as_str() {
                "disable-file" => disabled.extend(rules(names)),
                "enable-file" => disabled = &disabled - &rules(names),
                _ => {}
            }
        }
    }
    let mut disabled = Rc::new(disabled);
    let mut captured = Rc::clone(&disabled);
    let mut per_line = vec![Rc::default(); first_line];
    for (_, line) in lines() {
        for (action, names) in directives(line) {
            match action.as_str() {
                "disable" => disabled = Rc::new(&*disabled | &rules(names)),
                "enable" => disabled = Rc::new(&*disabled - &rules(names)),
                "capture" => captured = Rc::clone(&disabled),
                "restore" => disabled = Rc::clone(&captured),
                _ => {}
            }
        }
        per_line.push(Rc::clone(&disabled));
    }
    for (index, line) in lines() {
        for (action, names) in directives(line) {
            if action == "disable-next-line"
                && let Some(next) = per_line.get_mut(index + 1)
            {
                Rc::make_mut(next).extend(rules(names));
            }
        }
    }
    Directives { disabled: per_line }
}

fn directives(line: &str) -> impl Iterator<Item = (String, &str)> {
    DIRECTIVE.captures_iter(line).map(|found| {
        let part = |index| found.get(index).map_or("", |part| part.as_str());
        (part(1).to_ascii_lowercase(), part(2))
    })
}

/// The rules with these names; without names, all rules.
fn rules(names: &str) -> BTreeSet<Rule> {
    let is_selected = |rule: &Rule| {
        let mut names = names.split_whitespace().peekable();
        names.peek().is_none() || names.any(|name| rule.has_name(name))
    };
    Rule::ALL
        .into_iter()
        .filter(|rule| rule.group() == Group::Markdown)
        .filter(is_selected)
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::markdown::tests::assert_table;

    #[test]
    fn comments_disable_rules_for_a_line_a_range_or_a_file() {
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
        for (text, expected) in cases {
            assert_table(&[(&format!("{TITLE}{text}"), expected)]);
        }
    }
}
