//! Lists in pages. Pure.

/// Rows of a page: enough to scroll through, few enough to stay below 200 KB of HTML.
pub(crate) const ROWS: usize = 50;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page<T> {
    pub(crate) rows: Vec<T>,
    /// Counted from 1.
    pub(crate) number: usize,
    pub(crate) pages: usize,
    /// Rows of all pages.
    pub(crate) total: usize,
}

impl<T> Page<T> {
    /// The page with this number, or the nearest there is.
    pub(crate) fn of(all: Vec<T>, number: usize) -> Self {
        let total = all.len();
        let pages = total.div_ceil(ROWS).max(1);
        let number = number.clamp(1, pages);
        let rows = all.into_iter().skip((number - 1) * ROWS).take(ROWS).collect();
        Self { rows, number, pages, total }
    }

    /// The numbers of its first and last row, counted from 1.
    pub(crate) fn range(&self) -> (usize, usize) {
        let before = (self.number - 1) * ROWS;
        (before + usize::from(!self.rows.is_empty()), before + self.rows.len())
    }
}

/// Whether every word of `query` is in `text`, without regard to case.
pub(crate) fn matches(text: &str, query: &str) -> bool {
    let text = text.to_lowercase();
    query.split_whitespace().all(|word| text.contains(&word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_beyond_the_ends_are_the_nearest_ones() {
        let rows = || (1..=120).collect::<Vec<u32>>();
        let page = Page::of(rows(), 2);
        assert_eq!((page.rows[0], page.pages, page.range()), (51, 3, (51, 100)));
        assert_eq!(Page::of(rows(), 0).number, 1);
        let last = Page::of(rows(), usize::MAX);
        assert_eq!((last.number, last.rows.len(), last.range()), (3, 20, (101, 120)));
        let empty = Page::of(Vec::<u32>::new(), 7);
        assert_eq!((empty.number, empty.pages, empty.range()), (1, 1, (0, 0)));
    }

    #[test]
    fn a_search_needs_every_word_in_any_order() {
        let text = "quay.io/Org/app:v1 sha256:abc";
        assert!(matches(text, "") && matches(text, "APP org") && !matches(text, "app v2"));
    }
}
