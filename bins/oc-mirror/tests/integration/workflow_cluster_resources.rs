//! A real API server with OpenShift's own types validates the manifests made for the cluster.

use crate::support;

use std::fs;

use lab::images::Image;
use lab::registry::{LabRegistry, Settings};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};

use support::{Site, redirection};

/// The mirror sets of a run with images by tag, by digest and under other names.
fn resources(site: &Site) -> Vec<(String, String)> {
    let source = LabRegistry::start(Settings::default()).unwrap();
    let target = LabRegistry::start(Settings::default()).unwrap();
    let mut images = Vec::new();
    for name in ["one", "two", "three"] {
        let image = Image::tiny(name).unwrap();
        source.put_image(&image, &format!("org/{name}"), "v1").unwrap();
        images.push(image.digest());
    }
    site.image_set(
        "isc.yaml",
        &format!(
            "  additionalImages:
  - name: quay.io/org/one:v1
  - name: quay.io/org/two@{}
  - name: quay.io/org/three:v1
    targetRepo: other/name
",
            images[1]
        ),
    );
    let conf = redirection("quay.io", &source.address().to_string())
        + &redirection("registry.example.com:5000", &target.address().to_string());
    site.write("home/.config/containers/registries.conf", &conf);
    site.succeeds(
        "-c isc.yaml --icsp --workspace file://data docker://registry.example.com:5000/ocp",
    );
    let directory = site.path("data/working-dir/cluster-resources");
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    // What `oc apply -f DIR` reads, hidden files included.
    let read = |name: &str| [".json", ".yaml", ".yml"].iter().any(|end| name.ends_with(end));
    let mut files: Vec<(String, String)> = entries
        .filter(|entry| read(entry.file_name().to_str().unwrap()))
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn an_api_server_takes_every_resource_and_finds_the_mirrors_in_it() {
    let site = Site::new();
    let files = resources(&site);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"idms-oc-mirror.yaml"), "{names:?}");
    assert!(names.contains(&"itms-oc-mirror.yaml"), "{names:?}");
    assert_eq!(names.len(), 3, "{names:?}");

    let server = ApiServer::start().await.unwrap();
    server.load_cluster_crds().await.unwrap();
    let mut kinds = Vec::new();
    for (name, yaml) in &files {
        let made = server.apply(yaml, Persistence::Stored, FieldValidation::Strict).await;
        let made = made.unwrap_or_else(|error| panic!("{name}: {error:?}\n{yaml}"));
        for object in made {
            let kind = object["kind"].as_str().unwrap().to_owned();
            let entries = match kind.as_str() {
                "ImageDigestMirrorSet" => &object["spec"]["imageDigestMirrors"],
                "ImageTagMirrorSet" => &object["spec"]["imageTagMirrors"],
                _ => &object["spec"]["repositoryDigestMirrors"],
            };
            let mirrors = |source: &str| {
                let entries = entries.as_array().unwrap().iter();
                let found = entries.filter(|entry| entry["source"] == source);
                found.map(|entry| entry["mirrors"].clone()).collect::<Vec<_>>()
            };
            let below = |path: &str| {
                vec![serde_json::json!([format!("registry.example.com:5000/ocp/{path}")])]
            };
            match kind.as_str() {
                "ImageTagMirrorSet" => {
                    assert_eq!(mirrors("quay.io/org"), below("org"));
                    assert_eq!(mirrors("quay.io/org/three"), below("other/name"));
                }
                _ => assert_eq!(mirrors("quay.io/org"), below("org")),
            }
            kinds.push(kind);
        }
    }
    kinds.sort();
    assert_eq!(kinds, ["ImageContentSourcePolicy", "ImageDigestMirrorSet", "ImageTagMirrorSet"]);
}
