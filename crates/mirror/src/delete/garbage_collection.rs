//! How each registry frees the space of deleted manifests: deleting one frees nothing by itself.

use registry::Product;
use serde::Serialize;

/// What to do at the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GarbageCollection {
    pub registry: String,
    pub instruction: String,
    /// Whether we know it from the product's documentation only.
    pub from_documentation: bool,
}

/// What frees the space at a registry.
pub fn garbage_collection(product: Product) -> GarbageCollection {
    let (instruction, from_documentation) = match product {
        Product::Distribution => (
            "stop the registry or make it read-only, then run `registry garbage-collect /etc/docker/registry/config.yml` (Debian: `docker-registry garbage-collect`); do not add --delete-untagged to version 2, which deletes the images of multi-architecture lists",
            false,
        ),
        Product::Quay => (
            "nothing to run: Quay's garbage collection worker removes manifests without tags after the time machine period of the organization, and their blobs after that",
            true,
        ),
        Product::Harbor => (
            "in Harbor, Administration > Clean Up > Garbage Collection > GC Now, with \"Allow garbage collection on untagged artifacts\"",
            true,
        ),
        Product::Nexus => (
            "in Nexus, run the tasks \"Docker - Delete unused manifests and images\", then \"Admin - Compact blob store\"",
            true,
        ),
        Product::Artifactory => (
            "in Artifactory, Administration > Artifactory > Maintenance > Garbage Collection > Run Now",
            true,
        ),
        Product::OpenShift => ("run `oc adm prune images --prune-registry --confirm`", true),
        Product::Unknown => {
            ("run the garbage collection of the registry; see its documentation", true)
        }
    };
    let registry = product.to_string();
    GarbageCollection { registry, instruction: instruction.to_owned(), from_documentation }
}
