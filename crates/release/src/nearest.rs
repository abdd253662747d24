//! The names that a mistyped one was probably meant to be.

use semver::Version;

/// How many names are offered at most.
const OFFERED: usize = 3;

/// Names that one would write for `word` by a slip, best first.
pub(crate) fn names<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let word = word.to_ascii_lowercase();
    // One slip in three letters is still a slip; more is another word.
    let limit = (word.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter(|known| known.chars().count().abs_diff(word.chars().count()) <= limit)
        .map(|known| (strsim::damerau_levenshtein(&word, &known.to_ascii_lowercase()), known))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(OFFERED).map(|(_, name)| name.to_owned()).collect()
}

/// The versions next to `wanted` in `known`, which ascends: the last one below
/// it, the first one above it, and the newest.
pub(crate) fn versions<'a>(
    wanted: &Version,
    known: impl IntoIterator<Item = &'a Version>,
) -> Vec<Version> {
    let (mut below, mut above, mut newest) = (None, None, None);
    for version in known {
        match version.cmp_precedence(wanted) {
            std::cmp::Ordering::Less => below = Some(version),
            _ => above = above.or(Some(version)),
        }
        newest = Some(version);
    }
    let mut near: Vec<Version> = [below, above, newest].into_iter().flatten().cloned().collect();
    near.dedup();
    near
}

/// `; did you mean a, b or c?`, or nothing when there is nothing to offer.
pub(crate) fn suggestion(near: &[impl std::fmt::Display]) -> String {
    match list(near, "or") {
        Some(list) => format!("; did you mean {list}?"),
        None => String::new(),
    }
}

/// `; the nearest are a, b and c`, or nothing.
pub(crate) fn remark(near: &[impl std::fmt::Display]) -> String {
    match (list(near, "and"), near.len()) {
        (Some(list), 1) => format!("; the nearest is {list}"),
        (Some(list), _) => format!("; the nearest are {list}"),
        (None, _) => String::new(),
    }
}

fn list(items: &[impl std::fmt::Display], word: &str) -> Option<String> {
    let (last, rest) = items.split_last()?;
    if rest.is_empty() {
        return Some(last.to_string());
    }
    let rest: Vec<String> = rest.iter().map(ToString::to_string).collect();
    Some(format!("{} {word} {last}", rest.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognized_and_another_word_is_not() {
        let known = ["stable-4.16", "fast-4.16", "eus-4.16"];
        assert_eq!(names("stabel-4.16", known), ["stable-4.16"]);
        assert_eq!(names("Stable-4.16", known), ["stable-4.16"]);
        assert!(names("nightly", known).is_empty());
    }

    #[test]
    fn the_neighbours_of_a_version_are_offered_with_the_newest() {
        let known: Vec<Version> =
            ["4.12.0", "4.12.2", "4.12.9"].map(|text| text.parse().unwrap()).into();
        let near = |text: &str| -> Vec<String> {
            versions(&text.parse().unwrap(), &known).iter().map(ToString::to_string).collect()
        };
        assert_eq!(near("4.12.1"), ["4.12.0", "4.12.2", "4.12.9"]);
        assert_eq!(near("4.12.5"), ["4.12.2", "4.12.9"]);
        assert_eq!(near("4.13.0"), ["4.12.9"]);
        assert_eq!(near("4.11.0"), ["4.12.0", "4.12.9"]);
        assert_eq!(
            remark(&versions(&"4.13.0".parse().unwrap(), &known)),
            "; the nearest is 4.12.9"
        );
        assert_eq!(suggestion(&["a", "b", "c"]), "; did you mean a, b or c?");
        let none: [&str; 0] = [];
        assert_eq!(suggestion(&none), "");
    }
}
