//! A real API server with OpenShift's own types validates what releases need in a cluster.

use crate::support;

use std::collections::BTreeMap;
use std::fs;

use lab::data_tier;
use lab::registry::{LabRegistry, Settings};
use lab::releases::Release;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use serde_json::Value;

use support::Site;
use support::releases::{World, channel};

const NAMESPACES: &str = "---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-update-service}
---
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config-managed}
";

const LINE: &str = "-c isc.yaml --workspace file://data docker://registry.example.com:5000/ocp";

/// Two releases with their graph, mirrored.
struct Mirrored {
    world: World,
    releases: Vec<Release>,
    site: Site,
    _target: LabRegistry,
}

impl Mirrored {
    fn new() -> Self {
        let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
        world.offer_graph_data();
        let site = world.site();
        let platform = channel("stable-4.16", "      full: true\n")
            .replace("platform:\n", "platform:\n    graph: true\n");
        site.image_set("isc.yaml", &platform);
        let target = LabRegistry::start(Settings::default()).unwrap();
        site.redirect("registry.example.com:5000", target.address());
        world.succeeds(&site, LINE);
        Self { world, releases, site, _target: target }
    }

    /// The resources for the cluster by file name.
    fn resources(&self) -> BTreeMap<String, String> {
        let directory = self.site.path("data/working-dir/cluster-resources");
        fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .filter(|(name, _)| !name.starts_with('.'))
            .collect()
    }
}

fn is_update_service(text: &str) -> bool {
    text.lines().any(|line| line == "kind: UpdateService")
}

/// Data tier: no Go module has the CRD.
#[tokio::test]
async fn an_api_server_takes_the_update_service() {
    let Some(crds) = data_tier("cluster-crds") else { return };
    let server = ApiServer::start().await.unwrap();
    let crd = fs::read_to_string(crds.join("updateservices.yaml")).unwrap();
    server.client().load_crd_text(&crd).await.unwrap();
    server.apply(NAMESPACES, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    let resources = Mirrored::new().resources();
    let services: Vec<&String> =
        resources.values().filter(|text| is_update_service(text)).collect();
    assert_eq!(services.len(), 1, "{resources:?}");
    server.apply(services[0], Persistence::Stored, FieldValidation::Strict).await.unwrap();
}

#[tokio::test]
async fn an_api_server_takes_every_resource_of_a_release() {
    let mirrored = Mirrored::new();
    let resources = mirrored.resources();
    let server = ApiServer::start().await.unwrap();
    server.load_cluster_crds().await.unwrap();
    server.apply(NAMESPACES, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    let mut objects: Vec<Value> = Vec::new();
    for (name, text) in &resources {
        // The server of this test lacks that kind; only the content is checked.
        if is_update_service(text) {
            objects.push(serde_saphyr::from_str(text).unwrap());
            continue;
        }
        let made = server.apply(text, Persistence::Stored, FieldValidation::Strict).await;
        objects.extend(made.unwrap_or_else(|error| panic!("{name}: {error:?}\n{text}")));
    }
    let of = |kind: &str| {
        let found: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
        assert!(!found.is_empty(), "no {kind} in {:?}", resources.keys());
        found[0].clone()
    };
    let mirrors = |object: &Value, list: &str, source: &str| {
        let entries = object["spec"][list].as_array().unwrap();
        let found = entries.iter().find(|entry| entry["source"] == source);
        found.unwrap_or_else(|| panic!("{source} is not in {entries:?}"))["mirrors"].clone()
    };
    let below = |path: &str| serde_json::json!([format!("registry.example.com:5000/ocp/{path}")]);
    let digests = of("ImageDigestMirrorSet");
    assert_eq!(digests["metadata"]["name"], "idms-release-0");
    let payloads = lab::releases::PAYLOADS;
    let images = below("openshift/release-images");
    assert_eq!(mirrors(&digests, "imageDigestMirrors", payloads), images);
    let components = lab::releases::COMPONENTS;
    assert_eq!(mirrors(&digests, "imageDigestMirrors", components), below("openshift/release"));
    assert_eq!(mirrors(&of("ImageTagMirrorSet"), "imageTagMirrors", payloads), images);
    let service = of("UpdateService");
    assert_eq!(service["metadata"]["name"], "update-service-oc-mirror");
    assert_eq!(service["metadata"]["namespace"], "openshift-update-service");
    assert_eq!(service["spec"]["replicas"], 2);
    let at = "registry.example.com:5000/ocp/openshift";
    assert_eq!(service["spec"]["releases"], format!("{at}/release-images"));
    assert_eq!(service["spec"]["graphDataImage"], format!("{at}/graph-image:latest"));
    let signatures = of("ConfigMap");
    assert_eq!(signatures["metadata"]["name"], "mirrored-release-signatures");
    assert_eq!(signatures["metadata"]["namespace"], "openshift-config-managed");
    let label = &signatures["metadata"]["labels"]["release.openshift.io/verification-signatures"];
    assert_eq!(label, "");
    for release in &mirrored.releases {
        let key = format!("sha256-{}-1", release.payload.digest().hex());
        assert!(signatures["binaryData"][&key].is_string(), "{key}: {signatures}");
    }

    // A second run changes nothing: there is nothing new to apply.
    mirrored.world.succeeds(&mirrored.site, LINE);
    assert_eq!(mirrored.resources(), resources);
}
