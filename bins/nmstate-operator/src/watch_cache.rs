//! A cache of the objects of one kind, filled by a watch.
//!
//! kube's `reflector` keeps whole objects, and does not accept the result of an own write before the watch
//! delivers it. The coordinator keeps a fraction of each object, and decides about what it has just
//! written.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// The stored part of the objects of one kind, by name.
#[derive(Debug)]
pub(crate) struct WatchCache<T> {
    objects: BTreeMap<String, Versioned<T>>,
    /// The objects of a list in progress.
    listed: Option<BTreeMap<String, Versioned<T>>>,
    is_complete: bool,
}

#[derive(Debug, Clone)]
struct Versioned<T> {
    version: Option<u64>,
    object: T,
}

impl<T> Default for WatchCache<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listed: None, is_complete: false }
    }
}

impl<T: Clone> WatchCache<T> {
    /// Applies an event; `keep` selects the stored part of an object.
    pub(crate) fn take<K: ResourceExt>(&mut self, event: Event<K>, keep: impl Fn(K) -> T) {
        match event {
            Event::Init => self.listed = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                let (name, object) = versioned(object, keep);
                // Our own write can be newer than a list that started before it.
                let object = match self.objects.get(&name) {
                    Some(held) if held.version > object.version => held.clone(),
                    _ => object,
                };
                self.listed.get_or_insert_default().insert(name, object);
            }
            Event::InitDone => {
                self.objects = self.listed.take().unwrap_or_default();
                self.is_complete = true;
            }
            Event::Apply(object) => {
                let (name, object) = versioned(object, keep);
                self.put(name, object);
            }
            Event::Delete(object) => {
                let (name, object) = versioned(object, keep);
                if self.objects.get(&name).is_none_or(|held| held.version <= object.version) {
                    self.objects.remove(&name);
                }
            }
        }
    }

    /// Stores an object that the server just returned, before the watch delivers it.
    pub(crate) fn wrote<K: ResourceExt>(&mut self, object: K, keep: impl Fn(K) -> T) {
        let (name, object) = versioned(object, keep);
        self.put(name, object);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.objects.remove(name);
    }

    /// An event older than the stored object is ignored.
    fn put(&mut self, name: String, object: Versioned<T>) {
        if self.objects.get(&name).is_none_or(|held| held.version <= object.version) {
            self.objects.insert(name, object);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.objects.get(name).map(|held| &held.object)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.objects.iter().map(|(name, held)| (name.as_str(), &held.object))
    }

    /// Whether the initial list is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }
}

/// Versions are numbers that grow, from Kubernetes 1.35 on by contract.
fn versioned<K: ResourceExt, T>(object: K, keep: impl Fn(K) -> T) -> (String, Versioned<T>) {
    let version = object.resource_version().and_then(|text| text.parse().ok());
    (object.name_any(), Versioned { version, object: keep(object) })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(name: &str, version: u64) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.resource_version = Some(version.to_string());
        node
    }

    fn names(cache: &WatchCache<u64>) -> Vec<(&str, u64)> {
        cache.iter().map(|(name, version)| (name, *version)).collect()
    }

    fn keep(node: Node) -> u64 {
        node.metadata.resource_version.unwrap().parse().unwrap()
    }

    #[test]
    fn a_list_replaces_the_stored_objects() {
        let mut cache = WatchCache::default();
        for event in [
            Event::Init,
            Event::InitApply(node("a", 1)),
            Event::InitApply(node("b", 2)),
            Event::InitDone,
        ] {
            assert!(!cache.is_complete());
            cache.take(event, keep);
        }
        assert!(cache.is_complete());
        cache.take(Event::Init, keep);
        cache.take(Event::InitApply(node("b", 3)), keep);
        assert_eq!(names(&cache), [("a", 1), ("b", 2)], "until the list is complete");
        cache.take(Event::InitDone, keep);
        assert_eq!(names(&cache), [("b", 3)]);
    }

    #[test]
    fn events_of_older_versions_are_ignored() {
        let mut cache = WatchCache::default();
        cache.wrote(node("a", 12), keep);
        cache.take(Event::Apply(node("a", 9)), keep);
        cache.take(Event::Delete(node("a", 10)), keep);
        assert_eq!(names(&cache), [("a", 12)]);
        cache.take(Event::Delete(node("a", 13)), keep);
        assert_eq!(names(&cache), []);
    }
}
