//! A map for a few entries, of which there are many thousands: a sorted list. A tree has room for
//! eleven entries from the first on.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A sorted list of keys with their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallMap<K, V>(Box<[(K, V)]>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<K, V> SmallMap<K, V> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// In the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    pub fn contains_key(&self, key: &K) -> bool {
        self.position(key).is_ok()
    }

    /// Adds an entry; one that has the same key is replaced.
    pub fn insert(&mut self, key: K, value: V) {
        match self.position(&key) {
            Ok(known) => self.0[known].1 = value,
            Err(place) => {
                let mut entries = std::mem::take(&mut self.0).into_vec();
                entries.reserve_exact(1);
                entries.insert(place, (key, value));
                self.0 = entries.into();
            }
        }
    }

    pub fn remove(&mut self, key: &K) {
        if let Ok(known) = self.position(key) {
            let mut entries = std::mem::take(&mut self.0).into_vec();
            entries.remove(known);
            self.0 = entries.into();
        }
    }

    fn position(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key))
    }
}

impl<K: Serialize, V: Serialize> Serialize for SmallMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for SmallMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::deserialize(deserializer)?;
        Ok(Self(entries.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_tree_does(steps in prop::collection::vec((any::<bool>(), 0..6_u8, any::<u8>()), 0..40)) {
            let (mut small, mut tree) = (SmallMap::default(), BTreeMap::new());
            for (inserts, key, value) in steps {
                let key = key.to_string();
                if inserts {
                    small.insert(key.clone(), value);
                    tree.insert(key.clone(), value);
                } else {
                    small.remove(&key);
                    tree.remove(&key);
                }
                prop_assert_eq!(small.contains_key(&key), tree.contains_key(&key));
            }
            prop_assert_eq!(small.is_empty(), tree.is_empty());
            prop_assert!(small.keys().eq(tree.keys()) && small.values().eq(tree.values()));
            let text = serde_json::to_string(&small).unwrap();
            prop_assert_eq!(&text, &serde_json::to_string(&tree).unwrap());
            prop_assert_eq!(serde_json::from_str::<SmallMap<String, u8>>(&text).unwrap(), small);
        }
    }

    #[test]
    fn of_entries_with_the_same_key_the_last_is_read() {
        let read: SmallMap<String, u8> = serde_json::from_str(r#"{"b":1,"a":2,"b":3}"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"a":2,"b":3}"#);
    }
}
