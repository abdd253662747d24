//! Every rule there is: its name, what it belongs to and how much it weighs.

use std::fmt;

/// What a rule looks at. The community judges metadata and headings for new
/// documents and Markdown for all; links and advice are ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    Metadata,
    Headings,
    Markdown,
    Links,
    Advice,
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Error,
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
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

/// A rule. Those of Markdown have the numbers and names of markdownlint, so
/// that its `<!-- markdownlint-disable … -->` comments hold here too.
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
}

/// A rule as it is documented.
struct Facts {
    id: &'static str,
    group: Group,
    about: &'static str,
    /// Other names and tags by which a comment may switch it off.
    aliases: &'static [&'static str],
}

const fn facts(id: &'static str, group: Group, about: &'static str) -> Facts {
    Facts { id, group, about, aliases: &[] }
}

const fn markdown(
    id: &'static str,
    aliases: &'static [&'static str],
    about: &'static str,
) -> Facts {
    Facts { id, group: Group::Markdown, about, aliases }
}

impl Rule {
    /// All of them, in the order of their groups.
    pub const ALL: [Self; 38] = [
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
    ];

    /// The name that is printed and that scripts rely on.
    pub fn id(self) -> &'static str {
        self.facts().id
    }

    pub fn group(self) -> Group {
        self.facts().group
    }

    /// What the rule asks for, in one sentence.
    pub fn about(self) -> &'static str {
        self.facts().about
    }

    pub fn severity(self) -> Severity {
        match self.group() {
            Group::Advice => Severity::Warning,
            _ => Severity::Error,
        }
    }

    /// Whether `name` means this rule in a `markdownlint-disable` comment.
    pub(crate) fn answers_to(self, name: &str) -> bool {
        let Facts { id, group, aliases, .. } = self.facts();
        group == Group::Markdown
            && std::iter::once(&id).chain(aliases).any(|known| known.eq_ignore_ascii_case(name))
    }

    fn facts(self) -> Facts {
        use Group::{Advice, Headings, Links, Metadata};
        match self {
            Self::FrontMatter => facts(
                "front-matter",
                Metadata,
                "The document starts with metadata between two lines `---`.",
            ),
            Self::Yaml => facts(
                "metadata-yaml",
                Metadata,
                "The metadata are YAML: a text as title, lists of texts for people and links.",
            ),
            Self::Title => {
                facts("metadata-title", Metadata, "The title is the file name without `.md`.")
            }
            Self::TrackingLink => facts(
                "metadata-tracking-link",
                Metadata,
                "`tracking-link` lists at least one address, and no TBD.",
            ),
            Self::People => facts(
                "metadata-people",
                Metadata,
                "Authors, reviewers, approvers and API approvers are named, and none is TBD.",
            ),
            Self::MissingHeading => facts(
                "missing-heading",
                Headings,
                "Every heading of the template is there, at its level.",
            ),
            Self::MissingTitleLine => {
                facts("missing-title-line", Headings, "A line starts with `# ` and the title.")
            }
            Self::HeadingIncrement => markdown(
                "MD001",
                &["heading-increment", "header-increment", "headings", "headers"],
                "A heading is at most one level below the one before it.",
            ),
            Self::HeadingStyle => markdown(
                "MD003",
                &["heading-style", "header-style", "headings", "headers"],
                "All headings are written in one style.",
            ),
            Self::ListIndent => markdown(
                "MD005",
                &["list-indent", "bullet", "ul", "indentation"],
                "Items of one list are indented alike.",
            ),
            Self::UlIndent => markdown(
                "MD007",
                &["ul-indent", "bullet", "ul", "indentation"],
                "Bullets are indented by two spaces per level.",
            ),
            Self::NoReversedLinks => markdown(
                "MD011",
                &["no-reversed-links", "links"],
                "Links are written [text](address), not (text)[address].",
            ),
            Self::LineLength => markdown(
                "MD013",
                &["line-length", "line_length"],
                "Lines are at most 400 characters long.",
            ),
            Self::NoMissingSpaceAtx => markdown(
                "MD018",
                &["no-missing-space-atx", "headings", "headers", "atx", "spaces"],
                "A space stands between the hashes and the text of a heading.",
            ),
            Self::NoMultipleSpaceAtx => markdown(
                "MD019",
                &["no-multiple-space-atx", "headings", "headers", "atx", "spaces"],
                "One space stands between the hashes and the text of a heading.",
            ),
            Self::NoMissingSpaceClosedAtx => markdown(
                "MD020",
                &["no-missing-space-closed-atx", "headings", "headers", "atx_closed", "spaces"],
                "A space stands between the text of a heading and the hashes around it.",
            ),
            Self::NoMultipleSpaceClosedAtx => markdown(
                "MD021",
                &["no-multiple-space-closed-atx", "headings", "headers", "atx_closed", "spaces"],
                "One space stands between the text of a heading and the hashes around it.",
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
                "A heading does not end in punctuation; a question mark is fine.",
            ),
            Self::NoMultipleSpaceBlockquote => markdown(
                "MD027",
                &["no-multiple-space-blockquote", "blockquote", "whitespace", "indentation"],
                "One space follows the `>` of a quotation.",
            ),
            Self::NoBlanksBlockquote => markdown(
                "MD028",
                &["no-blanks-blockquote", "blockquote", "whitespace"],
                "No blank line separates two quotations.",
            ),
            Self::ListMarkerSpace => markdown(
                "MD030",
                &["list-marker-space", "ol", "ul", "whitespace"],
                "One space follows the marker of a list item.",
            ),
            Self::HrStyle => {
                markdown("MD035", &["hr-style", "hr"], "All horizontal rules are written alike.")
            }
            Self::NoSpaceInCode => markdown(
                "MD038",
                &["no-space-in-code", "whitespace", "code"],
                "Code between backticks neither starts nor ends with a space.",
            ),
            Self::NoSpaceInLinks => markdown(
                "MD039",
                &["no-space-in-links", "whitespace", "links"],
                "The text of a link neither starts nor ends with a space.",
            ),
            Self::FencedCodeLanguage => markdown(
                "MD040",
                &["fenced-code-language", "code", "language"],
                "A fenced code block names its language.",
            ),
            Self::FirstLineHeading => markdown(
                "MD041",
                &["first-line-heading", "first-line-h1", "headings", "headers"],
                "Without a title in the metadata, the first line is a heading of level 1.",
            ),
            Self::NoEmptyLinks => {
                markdown("MD042", &["no-empty-links", "links"], "A link leads somewhere.")
            }
            Self::NoAltText => markdown(
                "MD045",
                &["no-alt-text", "accessibility", "images"],
                "An image has a text for those who cannot see it.",
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
            Self::RelatedDocument => facts(
                "related-document",
                Links,
                "Documents named in see-also, replaces and superseded-by exist.",
            ),
            Self::RelativeLink => {
                facts("relative-link", Links, "Files that links and images name exist.")
            }
            Self::Anchor => facts("anchor", Links, "Headings that links name exist."),
            Self::FrontMatterPlace => facts(
                "front-matter-place",
                Advice,
                "The metadata are at the top, between two lines that are `---` and nothing else.",
            ),
            Self::Dates => facts(
                "dates",
                Advice,
                "`creation-date` and `last-updated` are days, written yyyy-mm-dd.",
            ),
            Self::EmptySection => facts(
                "empty-section",
                Advice,
                "Every section says something, be it why it does not apply.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_the_order_is_that_of_the_list() {
        let ids: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
        assert_eq!(ids.len(), Rule::ALL.len());
        assert!(Rule::ALL.is_sorted());
        assert!(Rule::ALL.is_sorted_by_key(|rule| rule.group()));
    }

    #[test]
    fn comments_reach_markdown_rules_by_number_name_and_tag_only() {
        assert!(Rule::UlIndent.answers_to("md007"));
        assert!(Rule::UlIndent.answers_to("UL-INDENT"));
        assert!(Rule::UlIndent.answers_to("bullet"));
        assert!(!Rule::UlIndent.answers_to("code"));
        assert!(!Rule::Title.answers_to("metadata-title"));
    }
}
