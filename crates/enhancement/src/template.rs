//! The document to start from.

use jiff::civil::Date;

use crate::title::Title;

const TEMPLATE: &str = include_str!("template.md");

/// A new document: all headings, the questions each section answers, and what
/// has to be filled in before it can be taken.
pub fn fill(title: &Title, today: Date) -> String {
    TEMPLATE
        .replace("{name}", title.name())
        .replace("{date}", &today.to_string())
        .replace("{title}", title.words())
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::{Document, Group, REQUIRED_HEADINGS, Rule, Surroundings, Target};

    struct Nothing;

    impl Surroundings for Nothing {
        fn find(&self, _: &str) -> Target {
            Target::Missing
        }
    }

    #[test]
    fn a_new_document_only_lacks_what_its_author_must_say() {
        let title: Title = "Mirror *all* signatures: how?".parse().unwrap();
        let text = fill(&title, date(2026, 3, 2));
        assert!(text.starts_with("---\ntitle: mirror-all-signatures-how\n"), "{text}");
        assert_eq!(text.matches("2026-03-02").count(), 2);
        assert!(text.contains("\n# Mirror *all* signatures: how?\n"));
        let document = Document::parse("mirror-all-signatures-how.md", text);
        let findings = document.findings(&Nothing);
        let others: Vec<_> = findings
            .iter()
            .filter(|found| {
                !matches!(found.rule, Rule::People | Rule::TrackingLink | Rule::EmptySection)
            })
            .collect();
        assert!(others.is_empty(), "{others:#?}");
        let open = findings.iter().filter(|found| found.rule.group() == Group::Metadata).count();
        assert_eq!(open, 5, "four lists of people and the tracking link: {findings:#?}");
    }

    #[test]
    fn the_headings_come_in_the_order_of_the_list() {
        let mut rest = TEMPLATE;
        for heading in REQUIRED_HEADINGS {
            let line = format!("\n{heading}\n");
            let at =
                rest.find(&line).unwrap_or_else(|| panic!("{heading} is not where it belongs"));
            rest = &rest[at + 1..];
        }
    }
}
