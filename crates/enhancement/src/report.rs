//! What there is, by area and age, and what each document lacks.

mod html;
mod markdown;

use jiff::civil::Date;
use serde::Serialize;

use crate::document::{Document, Verdict};
use crate::finding::Finding;
use crate::rule::{Group, Severity};

/// What the JSON form is, and its version.
const SCHEMA: &str = "enhance/report";
const VERSION: u32 = 1;

/// A table of documents, by area, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    schema: &'static str,
    version: u32,
    /// The day ages are counted to.
    today: Date,
    documents: Vec<Row>,
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The folder it is in, below the one that was asked for; empty at its top.
    pub area: String,
    /// From the folder that was asked for.
    pub path: String,
    pub title: String,
    pub created: Option<Date>,
    pub updated: Option<Date>,
    /// Days since it was created.
    pub age_days: Option<i32>,
    /// Whether the community's linter takes its metadata and its headings.
    pub metadata_passes: bool,
    pub headings_pass: bool,
    pub missing_headings: Vec<String>,
    /// What is wrong with its metadata.
    pub metadata_problems: Vec<String>,
    /// Errors in Markdown and links.
    pub other_errors: usize,
    pub warnings: usize,
}

impl Row {
    /// What is said about a document. `path` is relative, with `/` between its parts.
    pub fn new(path: &str, document: &Document, findings: &[Finding], today: Date) -> Self {
        let verdict = Verdict::of(findings);
        let errors = |finding: &&Finding| finding.rule.severity() == Severity::Error;
        let is_metadata = |finding: &&Finding| finding.rule.group() == Group::Metadata;
        let is_other =
            |finding: &&Finding| matches!(finding.rule.group(), Group::Markdown | Group::Links);
        let created = document.created();
        Self {
            area: path.rsplit_once('/').map_or("", |(area, _)| area).to_owned(),
            path: path.to_owned(),
            title: document.title().to_owned(),
            created,
            updated: document.updated(),
            age_days: created.map(|day| (today - day).get_days()),
            metadata_passes: verdict.metadata,
            headings_pass: verdict.headings,
            missing_headings: document.missing_headings().iter().map(ToString::to_string).collect(),
            metadata_problems: findings
                .iter()
                .filter(is_metadata)
                .map(|finding| finding.message.clone())
                .collect(),
            other_errors: findings.iter().filter(is_other).filter(errors).count(),
            warnings: findings.iter().filter(|finding| !errors(finding)).count(),
        }
    }

    fn missing(&self) -> String {
        if self.missing_headings.is_empty() {
            return "nothing".to_owned();
        }
        let words =
            self.missing_headings.iter().map(|heading| heading.trim_start_matches(['#', ' ']));
        words.collect::<Vec<_>>().join(", ")
    }

    fn age(&self) -> String {
        match self.age_days {
            None => "unknown".to_owned(),
            Some(1) => "1 day".to_owned(),
            Some(days) if days.abs() < 60 => format!("{days} days"),
            Some(days) if days < 730 => format!("{} months", days / 30),
            Some(days) => format!("{} years", days / 365),
        }
    }

    fn day(day: Option<Date>) -> String {
        day.map_or_else(|| "unknown".to_owned(), |day| day.to_string())
    }

    fn metadata(&self) -> String {
        match self.metadata_problems.len() {
            0 => "good".to_owned(),
            1 => "1 problem".to_owned(),
            number => format!("{number} problems"),
        }
    }
}

impl Report {
    pub fn new(mut documents: Vec<Row>, today: Date) -> Self {
        // Without a date it cannot be told; those come last.
        documents.sort_by(|a, b| {
            let key = |row: &Row| (row.area.clone(), row.created.is_none(), row.created);
            key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path))
        });
        Self { schema: SCHEMA, version: VERSION, today, documents }
    }

    pub fn to_markdown(&self) -> String {
        markdown::render(self)
    }

    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// Areas in order, each with its documents.
    fn areas(&self) -> impl Iterator<Item = (&str, &[Row])> {
        self.documents.chunk_by(|a, b| a.area == b.area).map(|rows| (rows[0].area.as_str(), rows))
    }

    fn summary(&self) -> String {
        let number = self.documents.len();
        let passing = self.documents.iter().filter(|row| row.metadata_passes && row.headings_pass);
        let documents = if number == 1 { "document" } else { "documents" };
        format!(
            "{number} {documents} on {}; {} with metadata and headings complete.",
            self.today,
            passing.count()
        )
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::{REQUIRED_HEADINGS, Surroundings, Target};

    struct Everything;

    impl Surroundings for Everything {
        fn find(&self, _: &str) -> Target {
            Target::Present
        }
    }

    const TODAY: Date = date(2026, 3, 2);

    fn row(path: &str, created: &str, title: &str, headings: &[crate::Heading]) -> Row {
        let headings: String =
            headings.iter().map(|heading| format!("\n{heading}\n\nWords.\n")).collect();
        let name = path.rsplit('/').next().unwrap().trim_end_matches(".md");
        let text = format!(
            "---\ntitle: {name}\nauthors: [a]\nreviewers: [a]\napprovers: [a]\n\
             api-approvers: [TBD]\ncreation-date: {created}\nlast-updated: 2026-03-01\n\
             tracking-link: [https://x]\n---\n\n# {title}\n\nWords.\n{headings}"
        );
        let document = Document::parse(&format!("{name}.md"), text);
        let findings = document.findings(&Everything);
        Row::new(path, &document, &findings, TODAY)
    }

    fn report() -> Report {
        let all = &REQUIRED_HEADINGS;
        Report::new(
            vec![
                row("b/young.md", "2026-03-01", "Young", all),
                row("b/dateless.md", "soon", "Dateless", all),
                row("b/old.md", "2020-01-01", "Old \\<script\\> | \"q\"", &all[..24]),
                row("top.md", "2025-09-02", "Top", all),
            ],
            TODAY,
        )
    }

    #[test]
    fn documents_come_by_area_and_the_oldest_first() {
        let report = report();
        let order: Vec<&str> = report.documents.iter().map(|row| row.path.as_str()).collect();
        assert_eq!(order, ["top.md", "b/old.md", "b/young.md", "b/dateless.md"]);
    }

    #[test]
    fn ages_are_told_in_words() {
        let ages: Vec<String> = report().documents.iter().map(Row::age).collect();
        assert_eq!(ages, ["6 months", "6 years", "1 day", "unknown"]);
    }

    #[test]
    fn the_markdown_table_names_what_is_missing() {
        let text = report().to_markdown();
        assert!(text.starts_with(
            "# Enhancement documents\n\n4 documents on 2026-03-02; 0 with metadata and headings \
             complete.\n\n## (no area)\n"
        ));
        assert!(
            text.contains(
                "| [Old \\<script\\> \\| \"q\"](<b/old.md>) | 2020-01-01 | 6 years | 2026-03-01 | \
             1 problem | Operational Aspects of API Extensions, Support Procedures | nothing |\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn words_of_a_document_do_not_become_html() {
        let page = report().to_html();
        assert!(!page.contains("<script>"));
        assert!(page.contains("Old &lt;script&gt; | &quot;q&quot;"), "{page}");
        assert_eq!(page.matches("<tr>").count(), 2 + 4);
        assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
    }

    #[test]
    fn the_json_form_says_what_it_is() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["schema"], "enhance/report");
        assert_eq!(json["version"], 1);
        assert_eq!(json["documents"][1]["ageDays"], 2252);
        assert_eq!(json["documents"][1]["missingHeadings"][1], "## Support Procedures");
        assert_eq!(json["documents"][3]["created"], serde_json::Value::Null);
    }
}
