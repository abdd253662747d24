//! Objects of one kind as a watch shows them.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// What is kept of the objects of one kind, by name.
#[derive(Debug)]
pub(crate) struct Shown<T> {
    objects: BTreeMap<String, Versioned<T>>,
    /// What a list that is under way has brought so far.
    listed: Option<BTreeMap<String, Versioned<T>>>,
    is_complete: bool,
}

#[derive(Debug, Clone)]
struct Versioned<T> {
    version: Option<u64>,
    object: T,
}

impl<T> Default for Shown<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listed: None, is_complete: false }
    }
}

impl<T: Clone> Shown<T> {
    /// Takes an event; `keep` says what is kept of an object.
    pub(crate) fn take<K: ResourceExt>(&mut self, event: Event<K>, keep: impl Fn(K) -> T) {
        match event {
            Event::Init => self.listed = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                let (name, object) = versioned(object, keep);
                // What we wrote ourselves may be newer than a list that began before.
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

    /// Keeps an object that the server has just given us, before the watch shows it.
    pub(crate) fn wrote<K: ResourceExt>(&mut self, object: K, keep: impl Fn(K) -> T) {
        let (name, object) = versioned(object, keep);
        self.put(name, object);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.objects.remove(name);
    }

    /// An echo of something older than what is held says nothing new.
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

    /// Whether everything there was at the beginning has been shown.
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

    fn names(shown: &Shown<u64>) -> Vec<(&str, u64)> {
        shown.iter().map(|(name, version)| (name, *version)).collect()
    }

    fn keep(node: Node) -> u64 {
        node.metadata.resource_version.unwrap().parse().unwrap()
    }

    #[test]
    fn a_list_replaces_what_was_shown_before() {
        let mut shown = Shown::default();
        for event in [
            Event::Init,
            Event::InitApply(node("a", 1)),
            Event::InitApply(node("b", 2)),
            Event::InitDone,
        ] {
            assert!(!shown.is_complete());
            shown.take(event, keep);
        }
        assert!(shown.is_complete());
        shown.take(Event::Init, keep);
        shown.take(Event::InitApply(node("b", 3)), keep);
        assert_eq!(names(&shown), [("a", 1), ("b", 2)], "until the list is whole");
        shown.take(Event::InitDone, keep);
        assert_eq!(names(&shown), [("b", 3)]);
    }

    #[test]
    fn echoes_of_older_versions_are_not_believed() {
        let mut shown = Shown::default();
        shown.wrote(node("a", 12), keep);
        shown.take(Event::Apply(node("a", 9)), keep);
        shown.take(Event::Delete(node("a", 10)), keep);
        assert_eq!(names(&shown), [("a", 12)]);
        shown.take(Event::Delete(node("a", 13)), keep);
        assert_eq!(names(&shown), []);
    }
}
