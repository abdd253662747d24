//! A real API server with OpenShift's own types judges what releases need in a cluster.

use crate::support;

use std::fs;

use lab::data_tier;
use lab::kube::{ApiServer, FieldValidation, Persistence};
use lab::registry::{LabRegistry, Settings};

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

#[tokio::test]
async fn an_api_server_takes_every_resource_of_a_release() {
    let Some(crds) = data_tier("cluster-crds") else { return };
    let (world, releases) = World::with(&["4.16.1", "4.16.2"]);
    world.offer_graph_data();
    let site = world.site();
    let platform = channel("stable-4.16", "      full: true\n")
        .replace("platform:\n", "platform:\n    graph: true\n");
    site.image_set("isc.yaml", &platform);
    let target = LabRegistry::start(Settings::default()).unwrap();
    site.redirect("registry.example.com:5000", target.address());
    let line = "-c isc.yaml --workspace file://data docker://registry.example.com:5000/ocp";
    world.succeeds(&site, line);
    let directory = site.path("data/working-dir/cluster-resources");

    let server = ApiServer::start().await.unwrap();
    server.load_crds(&crds).await.unwrap();
    server.apply(NAMESPACES, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    let mut objects = Vec::new();
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    for name in &names {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        let made = server.apply(&text, Persistence::Stored, FieldValidation::Strict).await;
        objects.extend(made.unwrap_or_else(|error| panic!("{name}: {error:?}\n{text}")));
    }
    let of = |kind: &str| {
        let found: Vec<_> = objects.iter().filter(|object| object["kind"] == kind).collect();
        assert!(!found.is_empty(), "no {kind} in {names:?}");
        found[0].clone()
    };
    let mirrors = |object: &serde_json::Value, list: &str, source: &str| {
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
    for release in &releases {
        let key = format!("sha256-{}-1", release.payload.digest().hex());
        assert!(signatures["binaryData"][&key].is_string(), "{key}: {signatures}");
    }

    // A second run changes nothing, so that nobody applies anything.
    let read = |name: &String| fs::read_to_string(directory.join(name)).unwrap();
    let before: Vec<String> = names.iter().map(read).collect();
    world.succeeds(&site, line);
    assert_eq!(names.iter().map(read).collect::<Vec<_>>(), before);
}
