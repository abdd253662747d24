//! Every text can be checked.

use enhancement::{Document, LinkResolver, LinkTarget, TemplateSentences};
use proptest::prelude::*;

struct NoLinkResolves;

impl LinkResolver for NoLinkResolves {
    fn resolve(&self, _: &str) -> LinkTarget {
        LinkTarget::Missing
    }
}

/// Text with a meaning in some format, and text without.
fn fragment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "---",
        "\n",
        "\n",
        "\r\n",
        "\r",
        " ",
        "  ",
        "\t",
        "# ",
        "#",
        "> ",
        "- ",
        "* ",
        "1. ",
        "`",
        "```",
        "~~~",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        "<!--",
        "-->",
        "!",
        "|",
        "|---|",
        "title: ",
        "authors:",
        "@",
        "\"",
        "'",
        "&x ",
        "*x",
        "{",
        ":",
        "\u{feff}",
        "ä",
        "\u{a0}",
        "#\u{fe0f}\u{20e3}",
        "word",
        "TBD",
        "%",
        "%20",
        "===",
        "\\",
        "<!-- markdownlint-disable -->",
        "see-also: ",
        "/x.md#y",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_is_checked_and_every_position_is_inside_it(
        fragments in prop::collection::vec(fragment(), 0..60)
    ) {
        let text = fragments.concat();
        let template = TemplateSentences::community();
        let lines = text.split('\n').count();
        for finding in Document::parse("x.md", text).findings(&NoLinkResolves, &template) {
            prop_assert!((1..=lines).contains(&finding.at.line), "{finding}");
            prop_assert!(finding.at.column >= 1, "{finding}");
        }
    }
}
