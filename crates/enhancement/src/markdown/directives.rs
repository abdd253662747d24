//! Comments that switch rules off and on again, as markdownlint knows them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;

use crate::finding::Finding;
use crate::pattern::pattern;
use crate::rule::{Group, Rule};
use crate::source::Source;

/// Such a comment: what to do, and for which rules.
static DIRECTIVE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix) <!-- \s* markdownlint-
          (disable-next-line | disable-file | enable-file | disable | enable | capture | restore)
          ((?: \s+ [a-z0-9_-]+ )*) \s* -->",
    )
});

/// Whether a comment switches something.
pub(super) fn is_directive(comment: &str) -> bool {
    DIRECTIVE.is_match(comment)
}

/// Which rules are off in which line. Lines with the same ones share them.
#[derive(Debug)]
pub(super) struct Allowed {
    off: Vec<Rc<BTreeSet<Rule>>>,
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
    let mut off = Rc::new(off);
    let mut captured = Rc::clone(&off);
    let mut per_line = vec![Rc::default(); first_line];
    for (_, line) in lines() {
        for (action, names) in directives(line) {
            match action.as_str() {
                "disable" => off = Rc::new(&*off | &rules(names)),
                "enable" => off = Rc::new(&*off - &rules(names)),
                "capture" => captured = Rc::clone(&off),
                "restore" => off = Rc::clone(&captured),
                _ => {}
            }
        }
        per_line.push(Rc::clone(&off));
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
    Allowed { off: per_line }
}

fn directives(line: &str) -> impl Iterator<Item = (String, &str)> {
    DIRECTIVE.captures_iter(line).map(|found| {
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
