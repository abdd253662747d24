//! Tests of the report and its formats.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::civil::date;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::{Heading, LinkResolver, LinkTarget, REQUIRED_HEADINGS, TemplateSentences};

struct AllLinksResolve;

impl LinkResolver for AllLinksResolve {
    fn resolve(&self, _: &str) -> LinkTarget {
        LinkTarget::Present
    }
}

const TODAY: Date = date(2026, 3, 2);

fn entry(path: &str, created: &str, title: &str, headings: &[Heading]) -> ReportEntry {
    let headings: String =
        headings.iter().map(|heading| format!("\n{heading}\n\nText.\n")).collect();
    let name = path.rsplit('/').next().unwrap().trim_end_matches(".md");
    let text = format!(
        "---\ntitle: {name}\nauthors: [a]\nreviewers: [a]\napprovers: [a]\n\
         api-approvers: [TBD]\ncreation-date: {created}\nlast-updated: 2026-03-01\n\
         tracking-link: [https://x]\n---\n\n# {title}\n\nText.\n{headings}"
    );
    let document = Document::parse(&format!("{name}.md"), text);
    let findings = document.findings(&AllLinksResolve, &TemplateSentences::default());
    ReportEntry::new(path, &document, findings, TODAY)
}

/// What an author could write to break out of the page.
const HOSTILE: &str = "Old \\<script\\>alert(1)\\</script\\> | \"q\" 'r' \\<img src=x\\>";

fn entries() -> Vec<ReportEntry> {
    let all = &REQUIRED_HEADINGS;
    vec![
        entry("b/young.md", "2026-03-01", "Young", all),
        entry("b/dateless.md", "soon", "Dateless", all),
        entry("b/old.md", "2020-01-01", HOSTILE, &all[..24])
            .with_url("https://github.com/x/y/blob/abc/b/old.md".to_owned(), true),
        entry("top.md", "2025-09-02", "Top", all).with_url("file:///srv/top.md".to_owned(), false),
    ]
}

fn report() -> Report {
    let skipped = vec![SkippedDocument {
        path: "b/<skipped>.md".to_owned(),
        reason: "listed in hack/lint-ignores".to_owned(),
    }];
    let revision = Revision {
        repository: "https://github.com/x/y".to_owned(),
        commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
    };
    Report::new(entries(), skipped, Some(revision), TODAY)
}

#[test]
fn documents_are_sorted_by_area_and_the_oldest_first() {
    let report = report();
    let order: Vec<&str> = report.documents.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(order, ["top.md", "b/old.md", "b/young.md", "b/dateless.md"]);
}

#[test]
fn ages_are_printed_in_words() {
    let ages: Vec<String> = report().documents.iter().map(ReportEntry::age).collect();
    assert_eq!(ages, ["6 months", "6 years", "1 day", "unknown"]);
}

#[test]
fn each_area_has_its_numbers() {
    let report = report();
    let [top, b] = report.areas.as_slice() else { panic!("{:#?}", report.areas) };
    assert_eq!((top.name(), top.documents, top.with_missing_headings), ("(no area)", 1, 0));
    // `api-approvers` is TBD in each document; `creation-date` is wrong in one.
    let expected = AreaSummary {
        area: "b".to_owned(),
        documents: 3,
        complete: 0,
        with_metadata_problems: 3,
        with_missing_headings: 1,
        other_errors: 0,
        warnings: 1,
    };
    assert_eq!(*b, expected);
    assert_eq!(report.total().documents, 4);
}

#[test]
fn rules_are_counted_by_findings_and_by_documents() {
    let counts: Vec<(&str, usize, usize)> = report()
        .rule_counts()
        .iter()
        .map(|count| (count.rule.id(), count.findings, count.documents))
        .collect();
    assert_eq!(counts, [("metadata-people", 4, 4), ("missing-heading", 2, 1), ("dates", 1, 1)]);
}

#[test]
fn the_markdown_format_lists_areas_and_what_is_missing() {
    let text = report().to_markdown();
    assert!(
        text.starts_with(
            "# Enhancement documents\n\n4 documents on 2026-03-02; 0 with complete metadata and \
             headings; 1 skipped.\n\n| area | documents | complete | metadata problems | missing \
             headings | errors | warnings |\n|---|---|---|---|---|---|---|\n| (no area) | 1 | 0 | 1 \
             | 0 | 0 | 0 |\n| b | 3 | 0 | 3 | 1 | 0 | 1 |\n\n## (no area)\n"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "| [Old \\<script\\>alert(1)\\</script\\> \\| \"q\" 'r' \\<img src=x\\>](<b/old.md>) | \
             2020-01-01 | 6 years | 2026-03-01 | 1 problem | Operational Aspects of API \
             Extensions, Support Procedures | none |\n"
        ),
        "{text}"
    );
    assert!(
        text.ends_with(
            "\n## Skipped documents\n\n- `b/<skipped>.md`: listed in hack/lint-ignores\n"
        ),
        "{text}"
    );
}

#[test]
fn text_of_a_document_does_not_become_html() {
    let page = report().to_html();
    assert_eq!(page.matches("<script").count(), 1, "only the script of the page");
    assert_eq!(page.matches("<img").count(), 0);
    assert!(
        page.contains("Old &lt;script&gt;alert(1)&lt;/script&gt; | &quot;q&quot; 'r' &lt;img"),
        "{page}"
    );
    assert!(page.contains("b/&lt;skipped&gt;.md"));
}

#[test]
fn every_document_of_the_page_has_its_own_details() {
    let page = report().to_html();
    assert_eq!(page.matches("<details class=\"document\"").count(), 4);
    assert_eq!(page.matches("<details").count(), page.matches("</details>").count());
    assert_eq!(page.matches("<summary").count(), page.matches("</summary>").count());
    for (area, anchor) in [("(no area)", "area-1"), ("b", "area-2")] {
        assert!(page.contains(&format!("<a href=\"#{anchor}\">{area}</a>")), "{area}: {page}");
        assert!(page.contains(&format!("id=\"{anchor}\"")), "{area}: {page}");
    }
}

#[test]
fn links_are_absolute_and_lines_are_linked_where_the_host_supports_it() {
    let page = report().to_html();
    for link in page.split("href=\"").skip(1) {
        let address = link.split('"').next().unwrap();
        let is_absolute = ["https://", "file:///", "#"].iter().any(|it| address.starts_with(it));
        assert!(is_absolute, "{address}");
    }
    assert!(page.contains("href=\"https://github.com/x/y/blob/abc/b/old.md\""), "{page}");
    assert!(
        page.contains("href=\"https://github.com/x/y/blob/abc/b/old.md?plain=1#L6\">line 6</a>"),
        "{page}"
    );
    assert!(page.contains("href=\"file:///srv/top.md\""));
    assert!(!page.contains("top.md?plain=1"), "a file does not have line anchors");
    assert!(page.contains("https://github.com/x/y/tree/0123456789abcdef0123456789abcdef01234567"));
}

/// The policy allows exactly the style and the script of the page. A changed
/// style or script without a new hash is not applied by browsers.
#[test]
fn the_content_security_policy_allows_only_what_the_page_contains() {
    let page = report().to_html();
    let between = |start: &str, end: &str| {
        let (_, rest) = page.split_once(start).unwrap();
        rest.split_once(end).unwrap().0
    };
    let policy = between("http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(Sha256::digest(text)));
    let style = hash(between("<style>", "</style>"));
    let script = hash(between("<script>", "</script>"));
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; \
             form-action 'none'"
        )
    );
    assert!(!page.contains(" style=\""), "inline styles are blocked by the policy");
    for handler in [" onclick", " onload", " oninput", "javascript:"] {
        assert!(!page.contains(handler), "{handler}");
    }
}

#[test]
fn the_same_documents_give_the_same_page() {
    let mut reversed = entries();
    reversed.reverse();
    let report = report();
    let Report { skipped, revision, .. } = report.clone();
    assert_eq!(Report::new(reversed, skipped, revision, TODAY).to_html(), report.to_html());
}

#[test]
fn a_report_without_documents_is_rendered() {
    let report = Report::new(Vec::new(), Vec::new(), None, TODAY);
    assert!(report.to_html().contains("No documents"));
    assert!(report.to_markdown().contains("0 documents on 2026-03-02"));
}

#[test]
fn the_json_format_has_a_schema_and_a_version() {
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["schema"], "enhance/report");
    assert_eq!(json["version"], 1);
    assert_eq!(json["documents"][1]["ageDays"], 2252);
    assert_eq!(json["documents"][1]["missingHeadings"][1], "## Support Procedures");
    assert_eq!(json["documents"][1]["url"], "https://github.com/x/y/blob/abc/b/old.md");
    assert_eq!(json["documents"][3]["created"], serde_json::Value::Null);
    assert_eq!(json["areas"][1]["withMissingHeadings"], 1);
    assert_eq!(json["skipped"][0]["reason"], "listed in hack/lint-ignores");
}
