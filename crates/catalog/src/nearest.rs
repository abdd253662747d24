//! What a mistyped name may have meant.

/// How many names are offered.
const OFFERED: usize = 3;

/// The `known` names that `word` may be a slip or a part of, nearest first.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let word = word.to_ascii_lowercase();
    // One slip in three letters is still a slip; more is another word.
    let limit = (word.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = known
        .filter_map(|known| {
            let folded = known.to_ascii_lowercase();
            let distance = strsim::damerau_levenshtein(&word, &folded);
            let is_part = word.len() >= 3 && (folded.contains(&word) || word.contains(&folded));
            let is_near = distance <= limit || is_part || begins_like(&folded, &word);
            is_near.then_some((distance, known))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().take(OFFERED).map(|(_, name)| name.to_owned()).collect()
}

/// Whether a name begins with `word`, but for one slip: many names end in `-operator`, and few people
/// write that.
fn begins_like(name: &str, word: &str) -> bool {
    let length = word.chars().count();
    let beginning = |length: usize| name.chars().take(length).collect::<String>();
    length >= 4
        && [length - 1, length, length + 1]
            .into_iter()
            .any(|length| strsim::damerau_levenshtein(word, &beginning(length)) <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_parts_are_offered_and_other_names_are_not() {
        let known = ["odf-operator", "mcg-operator", "cincinnati-operator", "nfd"];
        let offered = |word| nearest(word, known.into_iter());
        assert_eq!(offered("odf-operater"), ["odf-operator", "mcg-operator"]);
        assert_eq!(offered("cincinnati"), ["cincinnati-operator"]);
        assert_eq!(offered("cincinati"), ["cincinnati-operator"]);
        assert_eq!(offered("NFD"), ["nfd"]);
        assert!(offered("quay").is_empty());
    }
}
