//! Everything there is in a cluster: every object of every kind.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Client, ResourceExt as _};

/// All objects. A server may need a moment for the first request for a kind.
async fn list(api: &Api<DynamicObject>) -> Vec<DynamicObject> {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        match api.list(&ListParams::default()).await {
            Ok(list) => return list.items,
            Err(kube::Error::Api(status)) if status.code == 429 && Instant::now() < end => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Kind, namespace and name of every object, each kind in one version.
pub(crate) async fn everything(client: &Client) -> BTreeSet<String> {
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let mut found = BTreeSet::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            // Events are kept for an hour, and are in two groups.
            if resource.kind == "Event" {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in list(&api).await {
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
