//! Paginated lists: repositories and tags.

use std::cmp::Ordering;

/// The longest page. A client that sends no number gets this many, and a
/// `Link` to the rest.
pub(crate) const MAX_PAGE: usize = 10_000;

/// Which part of a list is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// How many entries.
    pub(crate) count: usize,
    /// Start after this entry. It need not exist: it may have been removed since the
    /// previous page was sent.
    pub(crate) after: Option<String>,
}

/// The order of lists: case-insensitive first, as the distribution specification
/// requires, then by bytes so that `V1` and `v1` have an order too.
pub(crate) fn lexical(a: &str, b: &str) -> Ordering {
    let folded = |byte: u8| byte.to_ascii_lowercase();
    a.bytes().map(folded).cmp(b.bytes().map(folded)).then_with(|| a.cmp(b))
}

impl Page {
    /// Reads `n` and `last` of a query.
    pub(crate) fn parse(query: &str) -> Result<Self, PageError> {
        let mut page = Self { count: MAX_PAGE, after: None };
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "n" => {
                    let count: u64 =
                        value.parse().map_err(|_| PageError { value: value.into_owned() })?;
                    page.count = usize::try_from(count).unwrap_or(MAX_PAGE).min(MAX_PAGE);
                }
                "last" => page.after = Some(value.into_owned()),
                _ => {}
            }
        }
        Ok(page)
    }

    /// Cuts the page out of a list in [`lexical`] order. Also returns whether more
    /// follows; never after an empty page, as there would be no position to continue from.
    pub(crate) fn cut<'a>(&self, all: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, bool) {
        let mut rest = all.skip_while(|entry| {
            self.after.as_deref().is_some_and(|after| lexical(entry, after) != Ordering::Greater)
        });
        let page: Vec<&str> = rest.by_ref().take(self.count).collect();
        let more = !page.is_empty() && rest.next().is_some();
        (page, more)
    }

    /// The `Link` header of the page after `last`.
    pub(crate) fn next_link(&self, path: &str, last: &str) -> String {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("n", &self.count.to_string())
            .append_pair("last", last)
            .finish();
        format!("<{path}?{query}>; rel=\"next\"")
    }
}

/// An `n` that is not a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("n={value:?} is not a number of entries")]
pub(crate) struct PageError {
    value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(query: &str, all: &[&str]) -> (Vec<String>, bool) {
        let (page, more) = Page::parse(query).unwrap().cut(all.iter().copied());
        (page.into_iter().map(String::from).collect(), more)
    }

    #[test]
    fn pages_join_to_the_whole_list() {
        let all = ["a", "B", "b", "c", "d"];
        assert_eq!(cut("", &all), (all.map(String::from).to_vec(), false));
        assert_eq!(cut("n=2", &all), (vec!["a".into(), "B".into()], true));
        assert_eq!(cut("n=2&last=B", &all), (vec!["b".into(), "c".into()], true));
        assert_eq!(cut("n=2&last=c", &all), (vec!["d".into()], false));
        assert_eq!(cut("n=2&last=d", &all), (vec![], false));
    }

    #[test]
    fn a_list_continues_after_an_entry_that_no_longer_exists() {
        assert_eq!(cut("last=bb", &["a", "b", "c"]), (vec!["c".into()], false));
    }

    #[test]
    fn an_empty_page_has_no_successor() {
        assert_eq!(cut("n=0", &["a"]), (vec![], false));
    }

    #[test]
    fn an_invalid_number_is_rejected_and_a_large_one_is_capped() {
        for bad in ["n=x", "n=-1", "n=", "n=99999999999999999999999"] {
            assert!(Page::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Page::parse("n=18446744073709551615").unwrap().count, MAX_PAGE);
    }

    #[test]
    fn a_link_is_parsed_as_it_was_written() {
        let page = Page::parse("n=7").unwrap();
        let link = page.next_link("/v2/_catalog", "a/b&c");
        let query = link.strip_prefix("</v2/_catalog?").unwrap();
        let query = query.strip_suffix(">; rel=\"next\"").unwrap();
        let next = Page::parse(query).unwrap();
        assert_eq!(next, Page { count: 7, after: Some("a/b&c".into()) });
    }

    #[test]
    fn the_order_ignores_case_first() {
        let mut tags = ["b", "A", "a", "Z", "latest", "1.0"];
        tags.sort_by(|a, b| lexical(a, b));
        assert_eq!(tags, ["1.0", "A", "a", "b", "latest", "Z"]);
    }
}
