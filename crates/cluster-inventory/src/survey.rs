//! A survey of a cluster: collects objects one by one, and returns an inventory.

use semver::Version;
use serde::Deserialize;
use serde_json::Value;

use crate::document::{
    CatalogSource, Cluster, Installed, Inventory, MirrorSet, PastUpdate, Reason, Subscription,
    Unread,
};
use crate::kind::Kind;
use crate::object;

/// The name of the only ClusterVersion that is read.
const CLUSTER_VERSION: &str = "version";
const COPIED_FROM: &str = "olm.copiedFrom";
/// A cluster has up to a hundred; older ones are not needed.
const HISTORY: usize = 10;

/// What was read of a cluster so far. Objects may be added in any order.
#[derive(Debug, Default)]
pub struct Survey {
    inventory: Inventory,
    node_architecture: Option<String>,
}

impl Survey {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object of the cluster. One that does not have the fields of its kind is recorded as unread.
    pub fn add(&mut self, kind: Kind, object: &Value) {
        let added = match kind {
            Kind::ClusterVersion => read(object).map(|object| self.cluster_version(object)),
            Kind::Node => read(object).map(|object| self.node(object)),
            Kind::Subscription => read(object).map(|object| self.subscription(object)),
            Kind::ClusterServiceVersion => read(object).map(|object| self.installed(object)),
            Kind::CatalogSource => read(object).map(|object| self.catalog_source(object)),
            Kind::ImageDigestMirrorSet
            | Kind::ImageTagMirrorSet
            | Kind::ImageContentSourcePolicy => {
                read(object).map(|object| self.mirror_set(kind, object))
            }
        };
        if let Err(error) = added {
            let name = object["metadata"]["name"].as_str().unwrap_or("an object without a name");
            self.could_not_read(kind, Reason::Malformed, format!("{name}: {error}"));
        }
    }

    /// Records that objects of a kind could not be read.
    pub fn could_not_read(&mut self, kind: Kind, reason: Reason, message: String) {
        self.inventory.unread.push(Unread { kind: kind.to_string(), reason, message });
    }

    /// The inventory, with sorted lists.
    pub fn inventory(self) -> Inventory {
        let Self { mut inventory, node_architecture } = self;
        if let Some(cluster) = &mut inventory.cluster {
            // Only a release for several architectures states them; others have that of the nodes.
            cluster.architecture = cluster.architecture.take().or(node_architecture);
        }
        inventory.subscriptions.sort();
        inventory.cluster_service_versions.sort();
        inventory.catalog_sources.sort();
        inventory.mirror_sets.sort();
        inventory.unread.sort();
        inventory
    }

    fn cluster_version(&mut self, object: object::ClusterVersion) {
        if object.metadata.name != CLUSTER_VERSION {
            return;
        }
        let history = object.status.history.unwrap_or_default();
        let reached = history.iter().find(|update| update.state == "Completed");
        let version = reached.and_then(|update| self.release(&update.version));
        let newest = history.first().filter(|update| update.state != "Completed");
        let updating_to = newest.and_then(|update| self.release(&update.version));
        let architecture = given(object.status.desired.architecture);
        let history = history.into_iter().take(HISTORY).map(|update| PastUpdate {
            version: update.version,
            state: update.state,
            image: update.image,
        });
        self.inventory.cluster = Some(Cluster {
            version,
            updating_to,
            channel: given(object.spec.channel),
            architecture: architecture.map(|name| name.to_ascii_lowercase()),
            update_service: given(object.spec.upstream),
            history: history.collect(),
        });
    }

    fn release(&mut self, text: &str) -> Option<Version> {
        let parsed = Version::parse(text);
        if let Err(error) = &parsed {
            let message = format!("the release {text:?}: {error}");
            self.could_not_read(Kind::ClusterVersion, Reason::Malformed, message);
        }
        parsed.ok()
    }

    fn node(&mut self, object: object::Node) {
        let architecture = given(object.status.node_info.architecture);
        self.node_architecture = self.node_architecture.take().or(architecture);
    }

    fn subscription(&mut self, object: object::Subscription) {
        let object::Subscription { metadata, spec, status } = object;
        self.inventory.subscriptions.push(Subscription {
            namespace: metadata.namespace,
            name: metadata.name,
            package: spec.package,
            channel: given(spec.channel),
            source: spec.source,
            source_namespace: spec.source_namespace,
            installed_csv: given(status.installed_csv),
            current_csv: given(status.current_csv),
            approval: given(spec.install_plan_approval),
        });
    }

    fn installed(&mut self, object: object::ClusterServiceVersion) {
        let object::ClusterServiceVersion { metadata, spec, status } = object;
        let is_copy =
            metadata.labels.contains_key(COPIED_FROM) || status.reason.as_deref() == Some("Copied");
        if is_copy {
            return;
        }
        self.inventory.cluster_service_versions.push(Installed {
            namespace: metadata.namespace,
            name: metadata.name,
            version: given(spec.version).and_then(|text| Version::parse(&text).ok()),
            phase: given(status.phase),
        });
    }

    fn catalog_source(&mut self, object: object::CatalogSource) {
        self.inventory.catalog_sources.push(CatalogSource {
            namespace: object.metadata.namespace,
            name: object.metadata.name,
            image: given(object.spec.image),
        });
    }

    fn mirror_set(&mut self, kind: Kind, object: object::MirrorSet) {
        let mirrors = match kind {
            Kind::ImageDigestMirrorSet => object.spec.image_digest_mirrors,
            Kind::ImageTagMirrorSet => object.spec.image_tag_mirrors,
            _ => object.spec.repository_digest_mirrors,
        };
        let name = object.metadata.name;
        self.inventory.mirror_sets.push(MirrorSet { kind: kind.to_string(), name, mirrors });
    }
}

fn read<'a, T: Deserialize<'a>>(object: &'a Value) -> Result<T, serde_json::Error> {
    T::deserialize(object)
}

/// Empty text is the same as none.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster_version(history: &Value) -> Value {
        json!({
            "metadata": { "name": "version" },
            "spec": { "channel": "stable-4.16", "clusterID": "x", "upstream": "https://osus.lan" },
            "status": { "desired": { "version": "4.16.9" }, "history": history },
        })
    }

    #[test]
    fn the_version_is_the_last_one_that_was_reached_completely() {
        let history = json!([
            { "version": "4.16.9", "state": "Partial", "image": "a@sha256:1" },
            { "version": "4.16.3", "state": "Completed", "image": "a@sha256:2" },
            { "version": "4.15.1", "state": "Completed", "image": "a@sha256:3" },
        ]);
        let mut survey = Survey::new();
        survey.add(
            Kind::Node,
            &json!({"status": {"nodeInfo": {"architecture": "arm64", "osImage": "x"}}}),
        );
        survey.add(Kind::ClusterVersion, &cluster_version(&history));
        let inventory = survey.inventory();
        let cluster = inventory.cluster.unwrap();
        assert_eq!(cluster.version, Some(Version::new(4, 16, 3)));
        assert_eq!(cluster.updating_to, Some(Version::new(4, 16, 9)));
        assert_eq!(cluster.architecture.as_deref(), Some("arm64"));
        assert_eq!(cluster.update_service.as_deref(), Some("https://osus.lan"));
        assert_eq!(cluster.history.len(), 3);
        assert_eq!(inventory.unread, []);
    }

    #[test]
    fn a_release_for_several_architectures_takes_precedence_over_a_node() {
        let mut object = cluster_version(&Value::Null);
        object["status"]["desired"]["architecture"] = "Multi".into();
        let mut survey = Survey::new();
        survey.add(Kind::ClusterVersion, &object);
        survey.add(Kind::Node, &json!({"status": {"nodeInfo": {"architecture": "amd64"}}}));
        let cluster = survey.inventory().cluster.unwrap();
        assert_eq!(cluster.architecture.as_deref(), Some("multi"));
        assert_eq!(cluster.version, None, "it is not installed completely");
    }

    #[test]
    fn copies_of_olm_are_left_out() {
        let own = json!({
            "metadata": { "name": "a.v1.0.0", "namespace": "own" },
            "spec": { "version": "1.0.0" },
            "status": { "phase": "Succeeded" },
        });
        let mut by_label = own.clone();
        by_label["metadata"]["labels"] = json!({ "olm.copiedFrom": "own" });
        let mut by_reason = own.clone();
        by_reason["status"]["reason"] = "Copied".into();
        let mut survey = Survey::new();
        for object in [&by_label, &own, &by_reason] {
            survey.add(Kind::ClusterServiceVersion, object);
        }
        let found = survey.inventory().cluster_service_versions;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].version, Some(Version::new(1, 0, 0)));
    }

    #[test]
    fn a_malformed_object_is_recorded_and_the_others_are_added() {
        let good = json!({
            "metadata": { "name": "good", "namespace": "ns" },
            "spec": { "name": "p", "source": "s", "sourceNamespace": "m", "channel": "" },
        });
        let mut survey = Survey::new();
        survey.add(Kind::Subscription, &json!({ "metadata": { "name": "bad" }, "spec": [] }));
        survey.add(Kind::Subscription, &good);
        survey.add(Kind::Node, &json!("nonsense"));
        let inventory = survey.inventory();
        assert_eq!(inventory.subscriptions.len(), 1);
        assert_eq!(inventory.subscriptions[0].channel, None);
        let unread: Vec<&str> =
            inventory.unread.iter().map(|unread| unread.kind.as_str()).collect();
        assert_eq!(unread, ["Node", "Subscription"]);
        assert!(inventory.unread[1].message.starts_with("bad: "), "{:?}", inventory.unread);
    }

    #[test]
    fn the_order_of_objects_does_not_matter() {
        let source = |name: &str| json!({ "metadata": { "name": name, "namespace": "ns" } });
        let order = |names: &[&str]| {
            let mut survey = Survey::new();
            names.iter().for_each(|name| survey.add(Kind::CatalogSource, &source(name)));
            survey.inventory()
        };
        assert_eq!(order(&["a", "b", "c"]), order(&["c", "a", "b"]));
    }
}
