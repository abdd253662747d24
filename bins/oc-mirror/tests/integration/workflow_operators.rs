//! Operator catalogs to a disk, across the gap, and directly; opm verifies what arrives.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use http::Method;
use lab::data_tier;
use lab::docker_registry::{DockerRegistry, Settings};
use lab::images::Image;
use lab::netns::Isolated;
use lab::operators::{CATALOG, HOST, Operators, TAG};
use lab::registry::{Effect, Fault, LabRegistry};
use lab::tools::{self, Tool};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use serde_json::Value;

use support::operators::{catalog_image, package};
use support::{PLAIN, Ran, Site, chunks, timeless_resources, visible_names};

/// Two versions of `foo`, which include the one between them; `baz` with its defaults.
const SELECTION: &str = "    packages:
    - name: foo
      channels:
      - name: beta
        minVersion: 0.2.0
        maxVersion: 0.3.1
    - name: baz
";

/// A catalog of the configuration; `rest` follows its name.
fn operators(rest: &str) -> String {
    format!("  operators:\n  - catalog: {HOST}/{CATALOG}:{TAG}\n{rest}")
}

/// A registry with all operators, and a machine that finds it.
fn world() -> (LabRegistry, Operators, Site) {
    let quay = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let operators = Operators::generate().unwrap();
    operators.put(&quay).unwrap();
    let site = site(&quay);
    (quay, operators, site)
}

fn site(quay: &LabRegistry) -> Site {
    let site = Site::new();
    site.redirect(HOST, quay.address());
    site
}

/// Another machine, with the archives of `connected` and nothing else.
fn across(connected: &Site) -> Site {
    let site = Site::new();
    fs::create_dir(site.path("data")).unwrap();
    for chunk in chunks(&connected.path("data")) {
        fs::copy(&chunk, site.path("data").join(chunk.file_name().unwrap())).unwrap();
    }
    site
}

/// What opm finds in a catalog: documents by schema, package and name.
type Rendered = BTreeMap<(String, String, String), Value>;

fn opm(site: &Site, arguments: &[&str]) -> Vec<u8> {
    let opm = tools::path(Tool::Opm).unwrap();
    site.judge(opm.to_str().unwrap(), arguments)
}

fn rendered(json: &[u8]) -> Rendered {
    let documents = serde_json::Deserializer::from_slice(json).into_iter::<Value>();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    documents
        .map(|document| {
            let document = document.unwrap();
            let key =
                (text(&document["schema"]), text(&document["package"]), text(&document["name"]));
            (key, document)
        })
        .collect()
}

/// The catalog in an image at a registry, as opm reads it.
fn rendered_image(site: &Site, reference: &str) -> Rendered {
    rendered(&opm(site, &["render", "--use-http", "--output=json", reference]))
}

fn names(rendered: &Rendered, schema: &str) -> Vec<String> {
    let of = rendered.keys().filter(|(known, ..)| known == schema);
    of.map(|(_, package, name)| match package.is_empty() {
        true => name.clone(),
        false => format!("{package}/{name}"),
    })
    .collect()
}

/// Every tag of the operators' repositories at a registry, with its digest.
fn content(site: &Site, at: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let parts = ["foo", "bar", "baz", "foo-bundle", "bar-bundle", "baz-bundle", "shared"];
    let repositories = parts.iter().map(|part| format!("lab/{part}")).chain([CATALOG.to_owned()]);
    for repository in repositories {
        let name = format!("docker://{at}/{repository}");
        let tags = site.try_judge("skopeo", &["list-tags", "--tls-verify=false", &name]);
        if !tags.status.success() {
            continue;
        }
        let tags: Value = serde_json::from_slice(&tags.stdout).unwrap();
        for tag in tags["Tags"].as_array().unwrap() {
            let tag = tag.as_str().unwrap();
            let raw = site.raw(&format!("{name}:{tag}"), &["--tls-verify=false"]);
            found.insert(format!("{repository}:{tag}"), oci::Digest::of(&raw).to_string());
        }
    }
    found
}

/// The cluster resources without the lines that contain time and target.
fn resources(site: &Site, target: &str) -> BTreeMap<String, String> {
    timeless_resources(&site.path("data/working-dir/cluster-resources"), target)
}

#[test]
fn a_selection_arrives_the_same_in_both_modes_and_opm_reads_just_that() {
    let (quay, operators, connected) = world();
    connected.image_set("isc.yaml", &self::operators(SELECTION));
    connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));

    let disconnected = across(&connected);
    disconnected.image_set("isc.yaml", &self::operators(SELECTION));
    let target = DockerRegistry::start(&Settings::default()).unwrap();
    let to = format!("{}/ocp", target.address());
    quay.forget_requests();
    disconnected.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    assert_eq!(quay.requests().count(), 0, "the disconnected side sends no request");

    let straight = site(&quay);
    straight.image_set("isc.yaml", &self::operators(SELECTION));
    let other = DockerRegistry::start(&Settings::default()).unwrap();
    let there = format!("{}/ocp", other.address());
    straight.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{there}"));

    let arrived = content(&disconnected, &to);
    assert_eq!(arrived, content(&straight, &there));
    // Own images by digest, others as the bundles name them.
    let own = |package: &str, tag: &str| {
        let image = operators.image(&format!("lab/{package}-bundle"), tag).unwrap();
        format!("lab/{package}-bundle:{}", image.digest().as_tag_text())
    };
    let shared = operators.image("lab/shared", "v1").unwrap().digest();
    let expected: BTreeSet<String> = [
        format!("{CATALOG}:{TAG}"),
        own("foo", "v0.2.0"),
        own("foo", "v0.3.0"),
        own("foo", "v0.3.1"),
        own("baz", "v1.1.0"),
        "lab/foo:v0.2.0".to_owned(),
        "lab/foo:v0.3.0".to_owned(),
        "lab/foo:v0.3.1".to_owned(),
        "lab/baz:v1.1.0".to_owned(),
        format!("lab/shared:{}", shared.as_tag_text()),
    ]
    .into();
    assert_eq!(arrived.keys().cloned().collect::<BTreeSet<_>>(), expected);
    assert_eq!(resources(&disconnected, &to), resources(&straight, &there));

    // opm reads what was selected, each document as it was.
    let image = format!("{to}/{CATALOG}:{TAG}");
    let catalog = rendered_image(&disconnected, &image);
    assert_eq!(names(&catalog, "olm.package"), ["baz", "foo"]);
    assert_eq!(names(&catalog, "olm.channel"), ["baz/stable", "foo/beta"]);
    let bundles = ["baz/baz.v1.1.0", "foo/foo.v0.2.0", "foo/foo.v0.3.0", "foo/foo.v0.3.1"];
    assert_eq!(names(&catalog, "olm.bundle"), bundles);
    operators.write(&disconnected.path("whole")).unwrap();
    let whole = rendered(&opm(&disconnected, &["render", "--output=json", "whole"]));
    for (key, document) in catalog.iter().filter(|((schema, ..), _)| schema == "olm.bundle") {
        assert_eq!(document, &whole[key]);
    }
    let channel = &catalog[&("olm.channel".into(), "foo".into(), "beta".into())];
    let entries: Vec<&str> = channel["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["name"].as_str().unwrap())
        .collect();
    assert_eq!(entries, ["foo.v0.2.0", "foo.v0.3.0", "foo.v0.3.1"]);
    // For every platform, with all layers in place.
    disconnected.pull(&format!("docker://{image}"), &["--src-tls-verify=false"]);
    let list: Value = serde_json::from_slice(
        &disconnected.raw(&format!("docker://{image}"), &["--tls-verify=false"]),
    )
    .unwrap();
    let platforms: Vec<&str> = list["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|child| child["platform"]["architecture"].as_str().unwrap())
        .collect();
    assert_eq!(platforms, ["amd64", "arm64"]);

    // Nothing is left to do, and nothing changes.
    let again =
        straight.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{there}"));
    assert_eq!((again.total("copied"), again.total("blobs")), (0, 0));
    assert_eq!(content(&straight, &there), arrived);
    let again = connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!((again.total("copied"), again.total("bytes")), (0, 0), "{}", again.out);
}

#[test]
fn the_workspace_is_laid_out_for_people() {
    let (_quay, operators, site) = world();
    site.image_set("isc.yaml", &self::operators(SELECTION));
    site.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    for platform in ["linux-amd64", "linux-arm64"] {
        let folder = format!("data/operator-index-cache/operator-index/{TAG}-{platform}/configs");
        for (path, bytes) in &operators.files {
            assert_eq!(fs::read(site.path(&folder).join(path)).unwrap(), *bytes, "{path}");
        }
    }
    let bundle = site.path("data/operator-images/foo/foo.v0.3.1");
    let mut images: Vec<String> = fs::read_dir(&bundle)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    images.sort();
    let digest = |repository: &str, tag: &str| {
        operators.image(repository, tag).unwrap().digest().as_tag_text()
    };
    let mut expected =
        vec!["operator".to_owned(), digest("lab/foo-bundle", "v0.3.1"), digest("lab/shared", "v1")];
    expected.sort();
    assert_eq!(images, expected);
    site.skopeo(&["inspect", &format!("oci:{}", bundle.join("operator").display())]);
    // The pinned configuration names the catalog.
    let entries = fs::read_dir(site.path("data/working-dir")).unwrap().map(Result::unwrap);
    let pinned = entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("isc_pinned_"));
    let pinned = fs::read_to_string(pinned.unwrap()).unwrap();
    let catalog = format!("{HOST}/{CATALOG}@{}", operators.catalog.digest());
    assert!(pinned.contains(&catalog), "{pinned}");
    assert!(pinned.contains(&format!("targetTag: {TAG}")), "{pinned}");
}

#[test]
fn a_smaller_selection_is_made_offline_from_the_transferred_catalog() {
    let (_quay, _, connected) = world();
    connected.image_set("isc.yaml", &operators(SELECTION));
    connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let inside = Isolated::new().unwrap();
    let target = DockerRegistry::start_in(&inside, &Settings::default()).unwrap();
    let to = target.address();
    let site = across(&connected);
    let smaller = "    packages:\n    - name: foo\n      channels:\n      - name: beta\n";
    site.image_set("smaller.yaml", &operators(smaller));
    let line = format!("--output=json -c smaller.yaml {PLAIN} --from file://data docker://{to}");
    let ran = Ran::of(site.command_in(&inside, &line).output().unwrap());
    assert_eq!(ran.code, 0, "{}\n{}", ran.err, ran.out);
    assert_eq!(ran.total("copied"), 4, "two images of one bundle, one that all share, the catalog");
    let output = inside
        .command(tools::path(Tool::Opm).unwrap().to_str().unwrap())
        .args(["render", "--use-http", "--output=json", &format!("{to}/{CATALOG}:{TAG}")])
        .env("HOME", site.path("home"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let catalog = rendered(&output.stdout);
    assert_eq!(names(&catalog, "olm.bundle"), ["foo/foo.v0.3.1"]);
    assert_eq!(names(&catalog, "olm.channel"), ["foo/beta"]);
}

#[test]
fn the_newest_archive_alone_is_enough_to_select_again() {
    let (_quay, _, connected) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    connected.image_set("isc.yaml", &operators(SELECTION));
    connected.succeeds(&format!("-c isc.yaml {PLAIN} file://data"));
    let first = across(&connected);
    first.image_set("isc.yaml", &operators(SELECTION));
    first.succeeds(&format!("-c isc.yaml {PLAIN} --from file://data docker://{to}"));
    let more = operators("    packages:\n    - name: baz\n    - name: bar\n");
    connected.image_set("more.yaml", &more);
    let ran = connected.succeeds(&format!("-c more.yaml {PLAIN} file://data"));
    assert_eq!(ran.report()["archive"]["base"], 1);
    // The catalog is that of the first run, whose archive was not kept.
    let second = Site::new();
    fs::create_dir(second.path("data")).unwrap();
    let chunk = chunks(&connected.path("data")).pop().unwrap();
    fs::copy(&chunk, second.path("data").join(chunk.file_name().unwrap())).unwrap();
    second.image_set("more.yaml", &more);
    second.succeeds(&format!("-c more.yaml {PLAIN} --from file://data docker://{to}"));
    let catalog = rendered_image(&second, &format!("{to}/{CATALOG}:{TAG}"));
    assert_eq!(names(&catalog, "olm.bundle"), ["bar/bar.v1.0.0", "baz/baz.v1.1.0"]);
}

#[test]
fn a_catalog_is_the_same_on_every_machine_and_an_untouched_one_keeps_its_digest() {
    let (quay, operators, one) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let digest = |site: &Site, isc: &str, namespace: &str, rest: &str| {
        site.image_set(isc, &self::operators(rest));
        let to = format!("{}/{namespace}", target.address());
        let workspace = isc.trim_end_matches(".yaml");
        site.succeeds(&format!("-c {isc} {PLAIN} --workspace file://{workspace} docker://{to}"));
        let name = format!("docker://{to}/{CATALOG}:{TAG}");
        oci::Digest::of(&site.raw(&name, &["--tls-verify=false"]))
    };
    let selected = digest(&one, "a.yaml", "a", SELECTION);
    assert_eq!(digest(&one, "b.yaml", "b", SELECTION), selected);
    assert_eq!(digest(&site(&quay), "c.yaml", "c", SELECTION), selected);
    assert_ne!(digest(&one, "d.yaml", "d", "    packages:\n    - name: baz\n"), selected);
    let whole = digest(&one, "e.yaml", "e", "    full: true\n");
    assert_eq!(whole, operators.catalog.digest());
}

#[test]
fn catalogs_come_from_layouts_by_digest_for_some_platforms_and_under_other_names() {
    let (_quay, operators, site) = world();
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let to = target.address();
    let from = format!("docker://{}/{CATALOG}:{TAG}", _quay.address());
    let layout = site.path("index-on-disk");
    let into = format!("oci:{}", layout.display());
    site.skopeo(&["copy", "--quiet", "--all", "--src-tls-verify=false", &from, &into]);
    let baz = "    packages:\n    - name: baz\n";
    let digest = operators.catalog.digest();
    let configuration = format!(
        "  operators:\n  - catalog: oci://{}\n{baz}  - catalog: {HOST}/{CATALOG}@{digest}\n{baz}  \
         - catalog: {HOST}/{CATALOG}:{TAG}\n    targetCatalog: mine/index\n    targetTag: v2026\n    \
         platforms:\n    - os: linux\n      architecture: amd64\n{baz}",
        layout.display()
    );
    site.image_set("isc.yaml", &configuration);
    let ran = site.succeeds(&format!("-c isc.yaml {PLAIN} --workspace file://data docker://{to}"));
    let report = ran.report();
    let mut places: Vec<String> = report["images"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|image| image["kind"] == "catalog")
        .map(|image| image["destination"].as_str().unwrap().to_owned())
        .collect();
    places.sort();
    let [layout, by_digest, renamed] = &places[..] else { panic!("{places:?}") };
    assert_eq!(*layout, format!("{to}/index-on-disk:latest"));
    assert!(by_digest.starts_with(&format!("{to}/{CATALOG}:sha256-")), "{by_digest}");
    let now = oci::Digest::of(&site.raw(&format!("docker://{by_digest}"), &["--tls-verify=false"]));
    assert!(by_digest.ends_with(&now.as_tag_text()), "the tag is the digest it has now");
    assert_eq!(*renamed, format!("{to}/mine/index:v2026"));
    for place in &places {
        assert_eq!(names(&rendered_image(&site, place), "olm.bundle"), ["baz/baz.v1.1.0"]);
    }
    let list = site.raw(&format!("docker://{renamed}"), &["--tls-verify=false"]);
    let list: Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(list["manifests"][0]["platform"]["architecture"], "amd64");
}

#[test]
fn the_example_selects_the_versions_in_its_comments() {
    let redhat = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let versions: [(&str, &str, &[&str]); 3] = [
        ("local-storage-operator", "stable", &["4.18.0", "4.18.1"]),
        ("cluster-logging", "stable-6.2", &["6.2.0", "6.2.1", "6.2.2"]),
        ("elasticsearch-operator", "stable", &["5.8.0", "5.8.1", "5.8.2", "5.8.3"]),
    ];
    let mut files = Vec::new();
    for (name, channel, versions) in versions {
        let entries: Vec<(&str, Value)> = versions
            .iter()
            .enumerate()
            .map(|(at, version)| match at.checked_sub(1) {
                Some(below) => (
                    *version,
                    serde_json::json!({"replaces": format!("{name}.v{}", versions[below])}),
                ),
                None => (*version, Value::Null),
            })
            .collect();
        files.push((format!("{name}/catalog.json"), package(name, channel, &entries)));
        for version in versions {
            let image = Image::tiny(&format!("{name}:{version}")).unwrap();
            redhat.put_image(&image, &format!("org/{name}"), version).unwrap();
        }
    }
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_bytes())).collect();
    redhat.put_image(&catalog_image(&files), "redhat/redhat-operator-index", "v4.18").unwrap();
    let site = Site::new();
    site.redirect("registry.redhat.io", redhat.address());
    site.redirect("quay.io", redhat.address());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/operators.yaml");
    site.succeeds(&format!("-c {} {PLAIN} --dry-run file://data", example.display()));
    let mapping = site.read("data/working-dir/dry-run/mapping.txt");
    let mut selected: Vec<&str> = mapping
        .lines()
        .filter_map(|line| line.split("=docker://localhost:55000/org/").nth(1))
        .collect();
    selected.sort_unstable();
    let expected = [
        "cluster-logging:6.2.1",
        "cluster-logging:6.2.2",
        "elasticsearch-operator:5.8.1",
        "elasticsearch-operator:5.8.2",
        "elasticsearch-operator:5.8.3",
        "local-storage-operator:4.18.1",
    ];
    assert_eq!(selected, expected, "{mapping}");
    assert!(
        mapping.contains("=docker://localhost:55000/redhat/redhat-operator-index:v4.18\n"),
        "{mapping}"
    );
    assert!(!site.path("data/operator-index-cache").exists(), "a dry run leaves nothing else");
}

/// The resources for the cluster, by file name, of a run with a template for the catalog source.
fn cluster_resources() -> BTreeMap<String, String> {
    let (_quay, _, site) = world();
    let template = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\n\
                    metadata: {name: any}\nspec:\n  displayName: Ours\n  updateStrategy:\n    \
                    registryPoll: {interval: 30m}\n";
    site.write("template.yaml", template);
    let mirror = operators(&format!("    targetCatalogSourceTemplate: template.yaml\n{SELECTION}"));
    site.image_set("isc.yaml", &mirror);
    let target = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    site.redirect("registry.example.com:5000", target.address());
    let line = "-c isc.yaml --workspace file://data docker://registry.example.com:5000/ocp";
    site.succeeds(line);
    let directory = site.path("data/working-dir/cluster-resources");
    let read = |name: String| {
        let text = fs::read_to_string(directory.join(&name)).unwrap();
        (name, text)
    };
    visible_names(&directory).into_iter().map(read).collect()
}

fn is_cluster_catalog(text: &str) -> bool {
    text.lines().any(|line| line == "kind: ClusterCatalog")
}

/// Data tier: no Go module has the CRD.
#[tokio::test]
async fn an_api_server_takes_the_cluster_catalog() {
    let Some(crds) = data_tier("cluster-crds") else { return };
    let server = ApiServer::start().await.unwrap();
    let crd = fs::read_to_string(crds.join("clustercatalogs.yaml")).unwrap();
    server.client().load_crd_text(&crd).await.unwrap();
    let resources = cluster_resources();
    let catalogs: Vec<&String> =
        resources.values().filter(|text| is_cluster_catalog(text)).collect();
    assert_eq!(catalogs.len(), 1, "{resources:?}");
    server.apply(catalogs[0], Persistence::Stored, FieldValidation::Strict).await.unwrap();
}

#[tokio::test]
async fn an_api_server_takes_every_resource_of_an_operator() {
    let server = ApiServer::start().await.unwrap();
    server.load_cluster_crds().await.unwrap();
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: openshift-marketplace}\n";
    server.apply(namespace, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    let mut objects: BTreeMap<String, Value> = BTreeMap::new();
    for (name, text) in cluster_resources() {
        // The server of this test lacks that kind; only the content is checked.
        if is_cluster_catalog(&text) {
            objects.insert("ClusterCatalog".into(), serde_saphyr::from_str(&text).unwrap());
            continue;
        }
        let made = server.apply(&text, Persistence::Stored, FieldValidation::Strict).await;
        for object in made.unwrap_or_else(|error| panic!("{name}: {error:?}\n{text}")) {
            objects.insert(object["kind"].as_str().unwrap().to_owned(), object);
        }
    }
    let kinds: Vec<&str> = objects.keys().map(String::as_str).collect();
    let expected = ["CatalogSource", "ClusterCatalog", "ImageDigestMirrorSet", "ImageTagMirrorSet"];
    assert_eq!(kinds, expected);
    let at = "registry.example.com:5000/ocp";
    let source = &objects["CatalogSource"];
    assert_eq!(source["metadata"]["name"], "cs-operator-index-v4-16");
    assert_eq!(source["metadata"]["namespace"], "openshift-marketplace");
    assert_eq!(source["spec"]["image"], format!("{at}/{CATALOG}:{TAG}"));
    assert_eq!(source["spec"]["sourceType"], "grpc");
    assert_eq!(source["spec"]["displayName"], "Ours");
    let catalog = &objects["ClusterCatalog"];
    assert_eq!(catalog["metadata"]["name"], "cc-operator-index-v4-16");
    assert_eq!(catalog["spec"]["source"]["image"]["ref"], format!("{at}/{CATALOG}:{TAG}"));
    for (kind, list, name) in [
        ("ImageDigestMirrorSet", "imageDigestMirrors", "idms-operator-0"),
        ("ImageTagMirrorSet", "imageTagMirrors", "itms-operator-0"),
    ] {
        assert_eq!(objects[kind]["metadata"]["name"], name);
        let entry = &objects[kind]["spec"][list][0];
        assert_eq!(entry["source"], format!("{HOST}/lab"));
        assert_eq!(entry["mirrors"][0], format!("{at}/lab"));
    }
}

#[test]
fn catalogs_are_fetched_at_the_same_time_and_reported_in_the_order_of_the_configuration() {
    let quay = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let names = ["one", "two", "three"];
    let mut section = "  operators:\n".to_owned();
    for name in names {
        let documents = package(name, "stable", &[("1.0.0", serde_json::json!({}))]);
        let image = catalog_image(&[("catalog.json", documents.as_bytes())]);
        quay.put_image(&image, &format!("catalogs/{name}"), "v1").unwrap();
        // A package that the catalog does not have: nothing but the catalog is requested.
        section += &format!(
            "  - catalog: {HOST}/catalogs/{name}:v1\n    packages:\n    - name: absent-{name}\n"
        );
    }
    let site = site(&quay);
    site.image_set("isc.yaml", &section);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    let errors = ran.errors();
    let places = names.map(|name| errors.find(&format!("absent-{name}")).unwrap());
    assert!(places.is_sorted(), "{errors}");

    let paths: Vec<String> = quay.requests().0.into_iter().map(|request| request.path).collect();
    let of = |name: &'static str| {
        let folder = format!("/catalogs/{name}/");
        paths.iter().enumerate().filter(move |(_, path)| path.contains(&folder)).map(|(at, _)| at)
    };
    let (last, first) = (of("one").max().unwrap(), of("three").min().unwrap());
    assert!(first < last, "the third catalog waits for the first one: {paths:#?}");
    let layers = paths.iter().filter(|path| path.contains("/blobs/")).collect::<BTreeSet<_>>();
    let requests = paths.iter().filter(|path| path.contains("/blobs/")).count();
    assert_eq!(layers.len(), requests, "a blob is fetched twice: {paths:#?}");
}

#[test]
fn catalogs_that_share_a_layer_do_not_wait_for_each_other() {
    let quay = LabRegistry::start(lab::registry::Settings::default()).unwrap();
    let documents = package("shared", "stable", &[("1.0.0", serde_json::json!({}))]);
    let image = catalog_image(&[("catalog.json", documents.as_bytes())]);
    let mut section = "  operators:\n".to_owned();
    for name in ["one", "two", "three"] {
        quay.put_image(&image, &format!("catalogs/{name}"), "v1").unwrap();
        section += &format!(
            "  - catalog: {HOST}/catalogs/{name}:v1\n    packages:\n    - name: absent-{name}\n"
        );
    }
    // Two of them wait for the layer that the other one fetches.
    let slow = Effect::Delay(std::time::Duration::from_millis(300));
    quay.fault(Fault::on(Method::GET, "/blobs/").does(slow));
    let site = site(&quay);
    site.image_set("isc.yaml", &section);
    let ran = site.run(&format!("-c isc.yaml {PLAIN} file://data"));
    assert_eq!(ran.code, 4, "{}\n{}", ran.err, ran.out);
    let errors = ran.errors();
    let missing = ["one", "two", "three"].map(|name| errors.contains(&format!("absent-{name}")));
    assert_eq!(missing, [true; 3], "{errors}");
}
