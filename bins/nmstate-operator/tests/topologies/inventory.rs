//! Everything there is in a cluster: every object of every kind.

use std::collections::BTreeSet;

use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Client, ResourceExt as _};

/// Kind, namespace and name of every object, each kind in one version.
pub(crate) async fn everything(client: &Client) -> BTreeSet<String> {
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let mut found = BTreeSet::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            // What happened is told for an hour, and in two groups.
            if resource.kind == "Event" {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in api.list(&ListParams::default()).await.unwrap() {
                let namespace = object.namespace().unwrap_or_default();
                found.insert(format!(
                    "{} {namespace}/{} {}",
                    resource.kind,
                    object.name_any(),
                    resource.group
                ));
            }
        }
    }
    found
}
