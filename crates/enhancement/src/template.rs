//! The template of a new document.

use jiff::civil::Date;

use crate::title::Title;

const TEMPLATE: &str = include_str!("template.md");

/// Creates a document with all headings, a comment in each section with the
/// questions that it answers, and placeholders in the metadata.
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
    use crate::{
        Document, Group, LinkResolver, LinkTarget, REQUIRED_HEADINGS, Rule, TemplateSentences,
    };

    struct NoLinkResolves;

    impl LinkResolver for NoLinkResolves {
        fn resolve(&self, _: &str) -> LinkTarget {
            LinkTarget::Missing
        }
    }

    #[test]
    fn a_new_document_lacks_only_what_its_author_must_write() {
        let title: Title = "Mirror *all* signatures: how?".parse().unwrap();
        let text = fill(&title, date(2026, 3, 2));
        assert!(text.starts_with("---\ntitle: mirror-all-signatures-how\n"), "{text}");
        assert_eq!(text.matches("2026-03-02").count(), 2);
        assert!(text.contains("\n# Mirror *all* signatures: how?\n"));
        let document = Document::parse("mirror-all-signatures-how.md", text);
        let findings = document.findings(&NoLinkResolves, &TemplateSentences::community());
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
    fn the_headings_have_the_order_of_the_list() {
        let mut rest = TEMPLATE;
        for heading in REQUIRED_HEADINGS {
            let line = format!("\n{heading}\n");
            let at =
                rest.find(&line).unwrap_or_else(|| panic!("{heading} is missing or out of order"));
            rest = &rest[at + 1..];
        }
    }
}
