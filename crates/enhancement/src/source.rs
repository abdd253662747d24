//! A text with an index of its lines.

use std::ops::Range;

use crate::finding::Position;

/// A text and the start of each of its lines. Lines are counted from 0 here.
#[derive(Debug, Clone)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    pub(crate) fn line_count(&self) -> usize {
        self.starts.len()
    }

    /// A line without its end; empty after the last line.
    pub(crate) fn line(&self, index: usize) -> &'a str {
        let line = &self.text[self.range(index)];
        line.strip_suffix('\r').unwrap_or(line)
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a str> {
        (0..self.line_count()).map(|index| self.line(index))
    }

    /// The line that contains the byte at `offset`.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// The first byte of a line.
    pub(crate) fn line_start(&self, index: usize) -> usize {
        self.range(index).start
    }

    pub(crate) fn position(&self, offset: usize) -> Position {
        let line = self.line_at(offset);
        self.position_in_line(line, offset - self.starts[line])
    }

    /// The position `offset` bytes into a line.
    pub(crate) fn position_in_line(&self, line: usize, offset: usize) -> Position {
        let before = self.line(line).get(..offset).unwrap_or_else(|| self.line(line));
        Position { line: line + 1, column: before.chars().count() + 1 }
    }

    /// The lines that overlap `range`, without blank lines at its end.
    pub(crate) fn lines_of(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.line_at(range.start);
        let mut end = self.line_at(range.end.saturating_sub(1).max(range.start)) + 1;
        while end > first + 1 && self.line(end - 1).trim().is_empty() {
            end -= 1;
        }
        first..end
    }

    fn range(&self, index: usize) -> Range<usize> {
        let end = self.starts.get(index + 1).map_or(self.text.len(), |next| next - 1);
        self.starts.get(index).map_or(end..end, |start| *start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_no_ends_and_offsets_map_to_positions() {
        let source = Source::new("ä b\r\n\nlast");
        assert_eq!(source.lines().collect::<Vec<_>>(), ["ä b", "", "last"]);
        assert_eq!(source.line(9), "");
        for (offset, line, column) in [(0, 1, 1), (2, 1, 2), (6, 2, 1), (7, 3, 1), (10, 3, 4)] {
            assert_eq!(source.position(offset), Position { line, column }, "{offset}");
        }
    }

    #[test]
    fn blank_lines_at_the_end_are_not_part_of_a_block() {
        let source = Source::new("a\nb\n\n  \nc\n");
        assert_eq!(source.lines_of(&(0..5)), 0..2);
        assert_eq!(source.lines_of(&(2..2)), 1..2);
    }
}
