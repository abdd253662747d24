//! Whatever a file holds, it is judged.

use enhancement::{Document, Surroundings, Target};
use proptest::prelude::*;

struct Nothing;

impl Surroundings for Nothing {
    fn find(&self, _: &str) -> Target {
        Target::Missing
    }
}

/// Pieces that mean something somewhere, and some that mean nothing anywhere.
fn piece() -> impl Strategy<Value = &'static str> {
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
    fn a_text_of_any_pieces_is_judged_and_every_place_is_in_it(
        pieces in prop::collection::vec(piece(), 0..60)
    ) {
        let text = pieces.concat();
        let lines = text.split('\n').count();
        for finding in Document::parse("x.md", text).findings(&Nothing) {
            prop_assert!((1..=lines).contains(&finding.at.line), "{finding}");
            prop_assert!(finding.at.column >= 1, "{finding}");
        }
    }
}
