//! The operator's own records, in ConfigMaps of its namespace.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use nmstate_deployment::names::{NAMESPACE, OPERATOR, PART_OF, PART_OF_LABEL};

use crate::requests::within;

/// Replaces the complete content of a ConfigMap.
pub(super) async fn write(
    client: &Client,
    name: &str,
    data: BTreeMap<String, String>,
) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(PART_OF_LABEL.to_owned(), PART_OF.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    };
    let parameters = PatchParams::apply(OPERATOR).force();
    within(maps.patch(name, &parameters, &Patch::Apply(&map)))
        .await?
        .with_context(|| format!("writing the ConfigMap {name}"))?;
    Ok(())
}
