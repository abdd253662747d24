//! The start of a line: spaces and the markers of block quotes.

/// The number of bytes before the text of a line.
pub(super) fn margin(line: &str) -> usize {
    line.len() - line.trim_start_matches(|c: char| c.is_whitespace() || c == '>').len()
}

/// The indentation of a line in its innermost block quote. The space after the
/// marker is part of the block quote.
pub(super) fn indent(line: &str) -> usize {
    let margin = &line[..margin(line)];
    let inner = margin.rfind('>').map_or(margin, |mark| {
        let following = &margin[mark + 1..];
        following.strip_prefix(' ').unwrap_or(following)
    });
    inner.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_of_a_block_quote_is_not_indentation() {
        for (line, bytes, characters) in [
            ("words", 0, 0),
            ("  words", 2, 2),
            ("\twords", 1, 1),
            ("> words", 2, 0),
            (">   words", 4, 2),
            (" > >  words", 6, 1),
            ("a > b", 0, 0),
        ] {
            assert_eq!((margin(line), indent(line)), (bytes, characters), "{line:?}");
        }
    }
}
