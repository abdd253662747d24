//! What stands before the words of a line: spaces and the marks of quotations.

/// How many bytes that is.
pub(super) fn margin(line: &str) -> usize {
    line.len() - line.trim_start_matches(|c: char| c.is_whitespace() || c == '>').len()
}

/// How far a line is indented, in the innermost quotation it belongs to. The
/// space behind the mark is the quotation's.
pub(super) fn indent(line: &str) -> usize {
    let margin = &line[..margin(line)];
    let inner = margin.rfind('>').map_or(margin, |mark| {
        let behind = &margin[mark + 1..];
        behind.strip_prefix(' ').unwrap_or(behind)
    });
    inner.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_of_a_quotation_is_not_indentation() {
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
