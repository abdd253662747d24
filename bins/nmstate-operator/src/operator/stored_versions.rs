//! Objects that are stored in a version that a later CRD will not list any more.
//!
//! The API server rejects a CRD that drops a version named in `status.storedVersions`, and the
//! cluster-version operator stops there. So every object is written once in the current version,
//! and the previous ones are removed from that list.

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Crd;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use nmstate_api::{GROUP, crd};
use serde_json::json;

use crate::requests::within;

/// Objects that are read at a time.
const PAGE: u32 = 100;

/// Migrates the objects of all kinds. Does nothing if no migration is needed.
pub(super) async fn migrate(client: &Client) -> Result<()> {
    let crds: Api<Crd> = Api::all(client.clone());
    for definition in crd::all() {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let doing = || format!("migrating the stored versions of {name}");
        let found = within(crds.get_opt(name)).await.with_context(doing)?.with_context(doing)?;
        let Some(found) = found else { continue };
        let Some(plan) = Migration::of(&found) else { continue };
        tracing::info!(crd = name, former = plan.former.join(", "), "migrating stored objects");
        rewrite(client, &plan).await.with_context(doing)?;
        // Rejected if another client changed the list in the meantime.
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": found.metadata.resource_version },
            "status": { "storedVersions": [plan.resource.version] },
        }));
        within(crds.patch_status(name, &PatchParams::default(), &patch))
            .await
            .with_context(doing)?
            .with_context(doing)?;
    }
    Ok(())
}

/// What is to be migrated of one kind.
#[derive(Debug, PartialEq)]
struct Migration {
    resource: ApiResource,
    former: Vec<String>,
}

impl Migration {
    fn of(crd: &Crd) -> Option<Self> {
        let version = crd.spec.versions.iter().find(|version| version.storage)?.name.clone();
        let stored = crd.status.as_ref()?.stored_versions.as_ref()?;
        let former: Vec<String> = stored.iter().filter(|it| **it != version).cloned().collect();
        let resource = ApiResource {
            group: GROUP.to_owned(),
            api_version: format!("{GROUP}/{version}"),
            version,
            kind: crd.spec.names.kind.clone(),
            plural: crd.spec.names.plural.clone(),
        };
        (!former.is_empty()).then_some(Self { resource, former })
    }
}

/// Writes every object unchanged. A patch of the status that changes nothing is enough: the server
/// compares what it would store with what is stored, and the versions differ.
async fn rewrite(client: &Client, plan: &Migration) -> Result<()> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &plan.resource);
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = within(api.list_metadata(&page)).await??;
        for object in &list.items {
            let name = object.name_any();
            let patch = Patch::Merge(json!({}));
            match within(api.patch_status(&name, &PatchParams::default(), &patch)).await? {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => drop(result.with_context(|| format!("writing {name}"))?),
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(stored: &[&str]) -> Crd {
        serde_json::from_value(json!({
            "metadata": { "name": "nodenetworkstates.nmstate.io" },
            "spec": {
                "group": GROUP,
                "scope": "Cluster",
                "names": { "kind": "NodeNetworkState", "plural": "nodenetworkstates" },
                "versions": [
                    { "name": "v1beta1", "served": true, "storage": true },
                    { "name": "v1alpha1", "served": false, "storage": false },
                ],
            },
            "status": { "storedVersions": stored },
        }))
        .unwrap()
    }

    #[test]
    fn only_kinds_with_objects_in_a_former_version_are_migrated() {
        assert_eq!(Migration::of(&crd(&["v1beta1"])), None);
        let plan = Migration::of(&crd(&["v1alpha1", "v1beta1"])).unwrap();
        assert_eq!(plan.former, ["v1alpha1"]);
        assert_eq!(plan.resource.api_version, "nmstate.io/v1beta1");
    }
}
