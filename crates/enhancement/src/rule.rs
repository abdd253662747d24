//! All rules: their names, groups, severities and descriptions.

use diagnostic::Severity;

/// What a rule checks. The community's linter checks metadata and headings of
/// new documents and the Markdown of all; links and advice are checked here
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    Metadata,
    Headings,
    Markdown,
    Links,
    Advice,
}

impl Group {
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Headings => "headings",
            Self::Markdown => "markdown",
            Self::Links => "links",
            Self::Advice => "advice",
        }
    }
}

/// A rule. The Markdown rules have the numbers and names of markdownlint, so
/// that its `<!-- markdownlint-disable … -->` comments apply here, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    FrontMatter,
    Yaml,
    Title,
    TrackingLink,
    People,
    MissingHeading,
    MissingTitleLine,
    HeadingIncrement,
    HeadingStyle,
    ListIndent,
    UlIndent,
    NoReversedLinks,
    LineLength,
    NoMissingSpaceAtx,
    NoMultipleSpaceAtx,
    NoMissingSpaceClosedAtx,
    NoMultipleSpaceClosedAtx,
    HeadingStartLeft,
    NoDuplicateHeading,
    NoTrailingPunctuation,
    NoMultipleSpaceBlockquote,
    NoBlanksBlockquote,
    ListMarkerSpace,
    HrStyle,
    NoSpaceInCode,
    NoSpaceInLinks,
    FencedCodeLanguage,
    FirstLineHeading,
    NoEmptyLinks,
    NoAltText,
    CodeBlockStyle,
    CodeFenceStyle,
    RelatedDocument,
    RelativeLink,
    Anchor,
    FrontMatterPlace,
    Dates,
    EmptySection,
    TemplateText,
}

/// What is documented about a rule.
struct RuleInfo {
    id: &'static str,
    group: Group,
    description: &'static str,
    /// Other names and tags by which a comment can disable it.
    aliases: &'static [&'static str],
}

const fn info(id: &'static str, group: Group, description: &'static str) -> RuleInfo {
    RuleInfo { id, group, description, aliases: &[] }
}

const fn markdown(
    id: &'static str,
    aliases: &'static [&'static str],
    description: &'static str,
) -> RuleInfo {
    RuleInfo { id, group: Group::Markdown, description, aliases }
}

impl Rule {
    /// All rules, in the order of their groups.
    pub const ALL: [Self; 39] = [
        Self::FrontMatter,
        Self::Yaml,
        Self::Title,
        Self::TrackingLink,
        Self::People,
        Self::MissingHeading,
        Self::MissingTitleLine,
        Self::HeadingIncrement,
        Self::HeadingStyle,
        Self::ListIndent,
        Self::UlIndent,
        Self::NoReversedLinks,
        Self::LineLength,
        Self::NoMissingSpaceAtx,
        Self::NoMultipleSpaceAtx,
        Self::NoMissingSpaceClosedAtx,
        Self::NoMultipleSpaceClosedAtx,
        Self::HeadingStartLeft,
        Self::NoDuplicateHeading,
        Self::NoTrailingPunctuation,
        Self::NoMultipleSpaceBlockquote,
        Self::NoBlanksBlockquote,
        Self::ListMarkerSpace,
        Self::HrStyle,
        Self::NoSpaceInCode,
        Self::NoSpaceInLinks,
        Self::FencedCodeLanguage,
        Self::FirstLineHeading,
        Self::NoEmptyLinks,
        Self::NoAltText,
        Self::CodeBlockStyle,
        Self::CodeFenceStyle,
        Self::RelatedDocument,
        Self::RelativeLink,
        Self::Anchor,
        Self::FrontMatterPlace,
        Self::Dates,
        Self::EmptySection,
        Self::TemplateText,
    ];

    /// The name that is printed and that scripts depend on.
    pub fn id(self) -> &'static str {
        self.info().id
    }

    pub fn group(self) -> Group {
        self.info().group
    }

    /// What the rule requires, in one sentence.
    pub fn description(self) -> &'static str {
        self.info().description
    }

    pub fn severity(self) -> Severity {
        match self.group() {
            Group::Advice => Severity::Warning,
            _ => Severity::Error,
        }
    }

    /// Whether `name` selects this rule in a `markdownlint-disable` comment.
    pub(crate) fn has_name(self, name: &str) -> bool {
        let RuleInfo { id, group, aliases, .. } = self.info();
        group == Group::Markdown
            && std::iter::once(&id).chain(aliases).any(|known| known.eq_ignore_ascii_case(name))
    }

    fn info(self) -> RuleInfo {
        use Group::{Advice, Headings, Links, Metadata};
        match self {
            Self::FrontMatter => info(
                "front-matter",
                Metadata,
                "The document starts with metadata between two `---` lines.",
            ),
            Self::Yaml => info(
                "metadata-yaml",
                Metadata,
                "The metadata are valid YAML: the title is a string, people and links are lists of strings.",
            ),
            Self::Title => {
                info("metadata-title", Metadata, "The title is the file name without `.md`.")
            }
            Self::TrackingLink => info(
                "metadata-tracking-link",
                Metadata,
                "`tracking-link` contains at least one URL, and no TBD.",
            ),
            Self::People => info(
                "metadata-people",
                Metadata,
                "Authors, reviewers, approvers and API approvers are listed, and none is TBD.",
            ),
            Self::MissingHeading => info(
                "missing-heading",
                Headings,
                "Every required heading of the template is present, at its level.",
            ),
            Self::MissingTitleLine => info(
                "missing-title-line",
                Headings,
                "One line starts with `# `, followed by the title.",
            ),
            Self::HeadingIncrement => markdown(
                "MD001",
                &["heading-increment", "header-increment", "headings", "headers"],
                "A heading is at most one level below the previous heading.",
            ),
            Self::HeadingStyle => markdown(
                "MD003",
                &["heading-style", "header-style", "headings", "headers"],
                "All headings have the same style.",
            ),
            Self::ListIndent => markdown(
                "MD005",
                &["list-indent", "bullet", "ul", "indentation"],
                "Items of a list have the same indentation.",
            ),
            Self::UlIndent => markdown(
                "MD007",
                &["ul-indent", "bullet", "ul", "indentation"],
                "Bullets are indented by two spaces per level.",
            ),
            Self::NoReversedLinks => markdown(
                "MD011",
                &["no-reversed-links", "links"],
                "Links are written as `[text](URL)`, not as `(text)[URL]`.",
            ),
            Self::LineLength => markdown(
                "MD013",
                &["line-length", "line_length"],
                "Lines have at most 400 characters.",
            ),
            Self::NoMissingSpaceAtx => markdown(
                "MD018",
                &["no-missing-space-atx", "headings", "headers", "atx", "spaces"],
                "A space separates the hashes and the text of a heading.",
            ),
            Self::NoMultipleSpaceAtx => markdown(
                "MD019",
                &["no-multiple-space-atx", "headings", "headers", "atx", "spaces"],
                "Only one space separates the hashes and the text of a heading.",
            ),
            Self::NoMissingSpaceClosedAtx => markdown(
                "MD020",
                &["no-missing-space-closed-atx", "headings", "headers", "atx_closed", "spaces"],
                "A space separates the text of a heading and the hashes around it.",
            ),
            Self::NoMultipleSpaceClosedAtx => markdown(
                "MD021",
                &["no-multiple-space-closed-atx", "headings", "headers", "atx_closed", "spaces"],
                "Only one space separates the text of a heading and the hashes around it.",
            ),
            Self::HeadingStartLeft => markdown(
                "MD023",
                &["heading-start-left", "header-start-left", "headings", "headers", "spaces"],
                "A heading starts at the beginning of its line.",
            ),
            Self::NoDuplicateHeading => markdown(
                "MD024",
                &["no-duplicate-heading", "no-duplicate-header", "headings", "headers"],
                "No two headings have the same text.",
            ),
            Self::NoTrailingPunctuation => markdown(
                "MD026",
                &["no-trailing-punctuation", "headings", "headers"],
                "A heading does not end with punctuation, except for a question mark.",
            ),
            Self::NoMultipleSpaceBlockquote => markdown(
                "MD027",
                &["no-multiple-space-blockquote", "blockquote", "whitespace", "indentation"],
                "One space follows the `>` of a block quote.",
            ),
            Self::NoBlanksBlockquote => markdown(
                "MD028",
                &["no-blanks-blockquote", "blockquote", "whitespace"],
                "No blank line separates two block quotes.",
            ),
            Self::ListMarkerSpace => markdown(
                "MD030",
                &["list-marker-space", "ol", "ul", "whitespace"],
                "One space follows the marker of a list item.",
            ),
            Self::HrStyle => {
                markdown("MD035", &["hr-style", "hr"], "All horizontal rules have the same style.")
            }
            Self::NoSpaceInCode => markdown(
                "MD038",
                &["no-space-in-code", "whitespace", "code"],
                "A code span neither starts nor ends with a space.",
            ),
            Self::NoSpaceInLinks => markdown(
                "MD039",
                &["no-space-in-links", "whitespace", "links"],
                "The text of a link neither starts nor ends with a space.",
            ),
            Self::FencedCodeLanguage => markdown(
                "MD040",
                &["fenced-code-language", "code", "language"],
                "A fenced code block has a language.",
            ),
            Self::FirstLineHeading => markdown(
                "MD041",
                &["first-line-heading", "first-line-h1", "headings", "headers"],
                "Without a title in the metadata, the first line is a heading of level 1.",
            ),
            Self::NoEmptyLinks => {
                markdown("MD042", &["no-empty-links", "links"], "A link has a target.")
            }
            Self::NoAltText => markdown(
                "MD045",
                &["no-alt-text", "accessibility", "images"],
                "An image has an alternative text.",
            ),
            Self::CodeBlockStyle => markdown(
                "MD046",
                &["code-block-style", "code"],
                "Code blocks are either all fenced or all indented.",
            ),
            Self::CodeFenceStyle => markdown(
                "MD048",
                &["code-fence-style", "code"],
                "Code fences are either all backticks or all tildes.",
            ),
            Self::RelatedDocument => info(
                "related-document",
                Links,
                "Documents in `see-also`, `replaces` and `superseded-by` exist.",
            ),
            Self::RelativeLink => {
                info("relative-link", Links, "Targets of relative links and images exist.")
            }
            Self::Anchor => info("anchor", Links, "Anchors in links exist."),
            Self::FrontMatterPlace => info(
                "front-matter-place",
                Advice,
                "The metadata are at the top of the document, between two lines that consist of `---`.",
            ),
            Self::Dates => info(
                "dates",
                Advice,
                "`creation-date` and `last-updated` are dates in the format yyyy-mm-dd.",
            ),
            Self::EmptySection => info(
                "empty-section",
                Advice,
                "Every section has content, at least the reason why it does not apply.",
            ),
            Self::TemplateText => info(
                "template-text",
                Advice,
                "No section contains text of the community's template.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_rules_are_sorted_by_group() {
        let ids: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
        assert_eq!(ids.len(), Rule::ALL.len());
        assert!(Rule::ALL.is_sorted());
        assert!(Rule::ALL.is_sorted_by_key(|rule| rule.group()));
    }

    #[test]
    fn comments_select_markdown_rules_by_number_name_and_tag_only() {
        assert!(Rule::UlIndent.has_name("md007"));
        assert!(Rule::UlIndent.has_name("UL-INDENT"));
        assert!(Rule::UlIndent.has_name("bullet"));
        assert!(!Rule::UlIndent.has_name("code"));
        assert!(!Rule::Title.has_name("metadata-title"));
    }
}
