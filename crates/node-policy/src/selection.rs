//! Which policies are for which nodes. On a node they are applied in the order of their names.

use std::collections::BTreeMap;

/// Labels of a node, or those that a policy requires.
pub type Labels = BTreeMap<String, String>;

/// Whether a node has all required labels. Without any, every node matches.
pub fn matches(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn all_labels_must_be_there_with_their_values() {
        let table = [
            (vec![], vec![], true),
            (vec![], vec![("a", "1")], true),
            (vec![("a", "1")], vec![("a", "1")], true),
            (vec![("a", "1")], vec![("a", "1"), ("b", "2")], true),
            (vec![("a", "1"), ("b", "2")], vec![("a", "1")], false),
            (vec![("a", "1")], vec![("a", "2")], false),
            (vec![("a", "1")], vec![], false),
            (vec![("a", "")], vec![("a", "")], true),
            (vec![("a", "")], vec![], false),
        ];
        for (selector, has, expected) in table {
            assert_eq!(
                matches(&labels(&selector), &labels(&has)),
                expected,
                "{selector:?} {has:?}"
            );
        }
    }
}
