//! What a cluster has is written down with an account that may read and nothing else; on the
//! connected side it becomes a configuration that mirrors what the cluster needs next.

use crate::support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lab::images::Image;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use serde_json::{Value, json};

use lab::proxy::Proxy;
use lab::update_service::Graph;
use support::operators::{catalog_image, package};
use support::releases::World;
use support::{PLAIN, Ran, Site};

/// The lab's registries are reached without TLS.
const PLAIN_SOURCE: &str = "--src-tls-verify=false";

/// Generous: the machine may compile at the same time.
const DEADLINE: Duration = Duration::from_secs(120);

/// The account, as a site makes it.
const READER: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inventory-reader.yaml"));

const NAMESPACES: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: openshift-config}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: openshift-marketplace}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: logging}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}
";

/// A namespace's account that may see operators, and nothing of the cluster.
const NARROW: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: narrow}
rules:
- apiGroups: [operators.coreos.com]
  resources: [subscriptions, clusterserviceversions, catalogsources]
  verbs: [list]
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: narrow, namespace: elsewhere}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: narrow}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: narrow}
subjects:
- {kind: ServiceAccount, name: narrow, namespace: elsewhere}
";

const OBJECTS: &str = "
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec:
  channel: stable-4.16
  clusterID: 3e7c1a52-5b1f-4c4e-9d0e-6f7a0e6f7a0e
  upstream: https://osus.example.com/api/upgrades_info/v1/graph
---
apiVersion: v1
kind: Node
metadata: {name: master-0}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: cs-redhat-operator-index-v4-16, namespace: openshift-marketplace}
spec:
  sourceType: grpc
  image: registry.example.com:5000/ocp/redhat/redhat-operator-index:v4.16
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: cluster-logging, namespace: logging}
spec:
  name: cluster-logging
  channel: stable-5.9
  source: cs-redhat-operator-index-v4-16
  sourceNamespace: openshift-marketplace
  installPlanApproval: Manual
---
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-release-0}
spec:
  imageDigestMirrors:
  - source: quay.io/openshift-release-dev/ocp-release
    mirrors: [registry.example.com:5000/ocp/openshift/release-images]
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: itms-generic-0}
spec:
  imageTagMirrors:
  - source: registry.redhat.io/ubi9
    mirrors: [registry.example.com:5000/ocp/ubi9]
";

const STATUSES: &str = "
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
status:
  availableUpdates: null
  observedGeneration: 1
  versionHash: x
  desired: {version: 4.16.3, image: quay.io/openshift-release-dev/ocp-release@sha256:aa}
  history:
  - state: Completed
    startedTime: 2026-01-02T03:04:05Z
    completionTime: 2026-01-02T04:04:05Z
    version: 4.16.3
    image: quay.io/openshift-release-dev/ocp-release@sha256:aa
    verified: true
  - state: Completed
    startedTime: 2025-01-02T03:04:05Z
    completionTime: 2025-01-02T04:04:05Z
    version: 4.15.20
    image: quay.io/openshift-release-dev/ocp-release@sha256:bb
    verified: true
---
apiVersion: v1
kind: Node
metadata: {name: master-0}
status:
  nodeInfo:
    architecture: arm64
    bootID: ''
    containerRuntimeVersion: ''
    kernelVersion: ''
    kubeProxyVersion: ''
    kubeletVersion: ''
    machineID: ''
    operatingSystem: linux
    osImage: ''
    systemUUID: ''
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: cluster-logging, namespace: logging}
status:
  lastUpdated: 2026-01-02T03:04:05Z
  installedCSV: cluster-logging.v5.9.6
  currentCSV: cluster-logging.v5.9.7
";

const POLICY: &str = "
apiVersion: operator.openshift.io/v1alpha1
kind: ImageContentSourcePolicy
metadata: {name: older}
spec:
  repositoryDigestMirrors:
  - source: quay.io/org
    mirrors: [registry.example.com:5000/ocp/org]
";

/// A version of an operator, with what its type demands.
fn csv(namespace: &str, labels: &str) -> String {
    format!(
        "
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {{name: cluster-logging.v5.9.6, namespace: {namespace}, labels: {{{labels}}}}}
spec:
  displayName: Logging
  version: 5.9.6
  install:
    strategy: deployment
    spec: {{deployments: []}}
"
    )
}

fn kubeconfig(site: &Site, name: &str, server: &ApiServer, token: &str) {
    site.write("ca.pem", server.ca_pem());
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "c",
            // Relative to the kubeconfig.
            "cluster": { "server": server.url(), "certificate-authority": "ca.pem" },
        }],
        "users": [{ "name": "u", "user": { "token": token } }],
        "contexts": [{ "name": "reader", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "reader",
    });
    site.write(name, &config.to_string());
}

fn run(site: &Site, line: &str) -> Ran {
    Ran::of(site.command(&format!("inventory {line}")).output().unwrap())
}

fn printed(site: &Site, line: &str) -> (Value, String) {
    let ran = run(site, line);
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    (serde_json::from_str(&ran.out).unwrap(), ran.err)
}

/// A token that works: the server sees new rights a moment after they are stored.
async fn token(server: &ApiServer, namespace: &str, name: &str) -> String {
    let token = server.client().service_account_token(namespace, name).await.unwrap();
    let client = server.client().with_token(&token);
    let end = Instant::now() + DEADLINE;
    while let Err(error) = client.get("/apis/operators.coreos.com/v1alpha1/subscriptions").await {
        assert!(Instant::now() < end, "the rights of {name} are not seen: {error:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    token
}

async fn store(server: &ApiServer, yaml: &str) {
    server.apply(yaml, Persistence::Stored, FieldValidation::Strict).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_may_read_finds_what_the_cluster_has_and_reports_what_it_may_not_see() {
    let server = ApiServer::start().await.unwrap();
    let types = [
        "clusterversions.config.openshift.io",
        "subscriptions.operators.coreos.com",
        "clusterserviceversions.operators.coreos.com",
        "catalogsources.operators.coreos.com",
        "imagedigestmirrorsets.config.openshift.io",
        "imagetagmirrorsets.config.openshift.io",
    ];
    server.client().load_published_crds(&types).await.unwrap();
    for yaml in [NAMESPACES, OBJECTS, READER, NARROW] {
        store(&server, yaml).await;
    }
    store(&server, &csv("logging", "")).await;
    store(&server, &csv("elsewhere", "olm.copiedFrom: logging")).await;
    server.client().apply_status(STATUSES).await.unwrap();

    let site = Site::new();
    let reader = token(&server, "openshift-config", "inventory-reader").await;
    kubeconfig(&site, "reader.json", &server, &reader);
    let (found, message) = printed(&site, "--kubeconfig reader.json");
    let cluster = &found["cluster"];
    assert_eq!(cluster["version"], "4.16.3");
    assert_eq!(cluster["channel"], "stable-4.16");
    assert_eq!(cluster["architecture"], "arm64");
    assert_eq!(cluster["updateService"], "https://osus.example.com/api/upgrades_info/v1/graph");
    assert_eq!(cluster["history"][1]["version"], "4.15.20");
    assert_eq!(
        found["subscriptions"],
        json!([{
            "namespace": "logging",
            "name": "cluster-logging",
            "package": "cluster-logging",
            "channel": "stable-5.9",
            "source": "cs-redhat-operator-index-v4-16",
            "sourceNamespace": "openshift-marketplace",
            "installedCSV": "cluster-logging.v5.9.6",
            "currentCSV": "cluster-logging.v5.9.7",
            "approval": "Manual",
        }])
    );
    let installed = &found["clusterServiceVersions"];
    assert_eq!(installed.as_array().unwrap().len(), 1, "the copy is left out: {installed}");
    assert_eq!(installed[0]["namespace"], "logging");
    assert_eq!(installed[0]["version"], "5.9.6");
    assert_eq!(
        found["catalogSources"][0]["image"],
        "registry.example.com:5000/ocp/redhat/redhat-operator-index:v4.16"
    );
    assert_eq!(found["mirrorSets"].as_array().unwrap().len(), 2);
    assert_eq!(
        found["mirrorSets"][0]["mirrors"][0]["source"],
        "quay.io/openshift-release-dev/ocp-release"
    );
    // This cluster is too new for one kind of mirrors.
    assert_eq!(found["unread"], json!([{"kind": "ImageContentSourcePolicy", "reason": "missing"}]));
    assert!(message.contains("no objects of kind ImageContentSourcePolicy"), "{message}");

    // With the older type and an object of it, nothing is missing; a file is written, the same again.
    let older = ["imagecontentsourcepolicies.operator.openshift.io"];
    server.client().load_published_crds(&older).await.unwrap();
    store(&server, POLICY).await;
    let whole = run(&site, "--kubeconfig reader.json --context reader -o cluster.json");
    assert_eq!((whole.code, whole.out.as_str()), (0, ""), "{}", whole.err);
    assert!(whole.err.contains("release 4.16.3, 1 subscription"), "{}", whole.err);
    let first = site.read("cluster.json");
    let found: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(found.get("unread"), None, "{found}");
    assert_eq!(found["mirrorSets"][0]["kind"], "ImageContentSourcePolicy");
    run(&site, "--kubeconfig reader.json -o cluster.json");
    assert_eq!(site.read("cluster.json"), first);
    assert!(!first.contains(&reader), "no secret is in the document");

    // The cluster is reached through the proxy of the environment, except for hosts in NO_PROXY.
    let address: SocketAddr = server.url().trim_start_matches("https://").parse().unwrap();
    let proxy = Proxy::start(address).unwrap();
    let through = |exceptions: &str| {
        let mut command = site.command("inventory --kubeconfig reader.json");
        command.env("HTTPS_PROXY", proxy.url()).env("NO_PROXY", exceptions);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!((ran.code, ran.out.as_str()), (0, first.as_str()), "{}", ran.err);
        proxy.requested_hosts().len()
    };
    assert_eq!(through("127.0.0.1"), 0);
    assert!(through("") > 0);

    // An account with fewer rights gets what it may see.
    let narrow = token(&server, "elsewhere", "narrow").await;
    kubeconfig(&site, "narrow.json", &server, &narrow);
    let (found, message) = printed(&site, "--kubeconfig narrow.json");
    assert_eq!(found.get("cluster"), None);
    assert_eq!(found["subscriptions"][0]["package"], "cluster-logging");
    let unread = found["unread"].as_array().unwrap();
    assert_eq!(unread.len(), 5, "{unread:?}");
    assert!(unread.iter().all(|unread| unread["reason"] == "forbidden"), "{unread:?}");
    assert!(message.contains("ClusterVersion may not be listed by this account"), "{message}");
    assert!(
        message.contains("the release and the channel of the cluster are unknown"),
        "{message}"
    );

    // One that is not known at all gets nothing, and is not repeated.
    kubeconfig(&site, "stranger.json", &server, "n0t-a-t0ken");
    let ran = run(&site, "--kubeconfig stranger.json");
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("does not accept the credentials"), "{}", ran.err);
    assert!(!ran.err.contains("n0t-a-t0ken"), "{}", ran.err);
}

#[test]
fn a_cluster_that_does_not_respond_is_named_with_the_reason() {
    let site = Site::new();
    // No process listens on port 1, and the system does not assign it.
    let address = "https://127.0.0.1:1";
    let config = json!({
        "clusters": [{ "name": "c", "cluster": { "server": address } }],
        "contexts": [{ "name": "here", "context": { "cluster": "c", "user": "u" } }],
        "users": [{ "name": "u", "user": { "token": "s3cret" } }],
    });
    site.write("lost.json", &config.to_string());
    site.write("broken.yaml", "users:\n- name: u\n  user: {token: s3cret, token: [\n");
    for (line, expected) in [
        ("", "kubeconfig not found (searched "),
        ("--kubeconfig missing", "reading missing: No such file"),
        ("--kubeconfig broken.yaml", "broken.yaml is not a kubeconfig"),
        ("--kubeconfig lost.json", "has no current context"),
        ("--kubeconfig lost.json --context there", "no context \"there\"; it has here"),
        ("--kubeconfig lost.json --context here", "Connection refused"),
    ] {
        let ran = run(&site, line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
        assert!(!ran.err.contains("s3cret"), "{line}: {}", ran.err);
    }
    let ran = run(&site, "--kubeconfig lost.json --context here");
    assert!(ran.err.contains(address), "{}", ran.err);
}

/// The inventory of a cluster that has 4.16.1.
fn inventory(site: &Site) {
    let inventory = json!({
        "kind": "ClusterInventory",
        "schema": 1,
        "cluster": { "version": "4.16.1", "channel": "stable-4.16", "architecture": "amd64" },
        "subscriptions": [{
            "namespace": "logging",
            "name": "cluster-logging",
            "package": "cluster-logging",
            "channel": "stable-5.9",
            "source": "cs-redhat-operator-index-v4-16",
            "sourceNamespace": "openshift-marketplace",
            "installedCSV": "cluster-logging.v5.9.6",
        }],
        "catalogSources": [{
            "namespace": "openshift-marketplace",
            "name": "cs-redhat-operator-index-v4-16",
            "image": "registry.example.com:5000/ocp/redhat/redhat-operator-index:v4.16",
        }],
    });
    site.write("cluster.json", &inventory.to_string());
}

/// A catalog with older and newer versions of the operator, and their images.
fn offer_operators(world: &World, site: &Site) {
    site.redirect("registry.redhat.io", world.quay.address());
    let entries = [
        ("5.9.4", json!({})),
        ("5.9.6", json!({ "replaces": "cluster-logging.v5.9.4" })),
        ("5.9.10", json!({ "replaces": "cluster-logging.v5.9.6" })),
    ];
    for (version, _) in &entries {
        let image = Image::tiny(version).unwrap();
        world.quay.put_image(&image, "org/cluster-logging", version).unwrap();
    }
    let text = package("cluster-logging", "stable-5.9", &entries);
    let catalog = catalog_image(&[("catalog.json", text.as_bytes())]);
    world.quay.put_image(&catalog, "redhat/redhat-operator-index", "v4.16").unwrap();
}

fn init(world: &World, site: &Site, line: &str) -> Ran {
    Ran::of(world.command(site, &format!("init {line}")).output().unwrap())
}

#[test]
fn an_inventory_becomes_a_configuration_that_mirrors_what_the_cluster_needs_next() {
    let (world, releases) = World::with(&["4.16.1", "4.16.2", "4.16.3"]);
    let site = world.site();
    inventory(&site);
    let made = init(&world, &site, "--for cluster.json --out isc.yaml");
    assert_eq!((made.code, made.out.as_str()), (0, ""), "{}", made.err);
    let text = site.read("isc.yaml");
    for expected in [
        "minVersion: 4.16.1",
        "maxVersion: 4.16.3",
        "# The upgrade path: 4.16.1 -> 4.16.2 -> 4.16.3.",
        "- catalog: registry.redhat.io/redhat/redhat-operator-index:v4.16",
        "minVersion: 5.9.6",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    // The same on standard output, and never over a file that is there.
    assert_eq!(init(&world, &site, "--for cluster.json").out, text);
    let again = init(&world, &site, "--for cluster.json --to 4.16.2 --out isc.yaml");
    assert_eq!(again.code, 1);
    assert!(again.err.contains("isc.yaml exists and was not touched"), "{}", again.err);
    assert_eq!(site.read("isc.yaml"), text);
    let forced = init(&world, &site, "--for cluster.json --to 4.16.2 --out isc.yaml --force");
    assert_eq!(forced.code, 0, "{}", forced.err);
    assert!(site.read("isc.yaml").contains("maxVersion: 4.16.2"));

    // It mirrors the releases on the upgrade path, and the operator from what is installed on.
    world.offer_graph_data();
    offer_operators(&world, &site);
    site.write("isc.yaml", &text);
    let ran = world.succeeds(&site, &format!("-c isc.yaml {PLAIN} file://data"));
    for (version, is_wanted) in [("5.9.4", false), ("5.9.6", true), ("5.9.10", true)] {
        let image = format!("quay.io/org/cluster-logging:{version}");
        assert_eq!(ran.out.contains(&image), is_wanted, "{image}: {}", ran.out);
    }
    for release in &releases {
        let layouts = site.path("data/release-images").join(release.tag());
        assert!(layouts.is_dir(), "{} is not in {}", release.version, layouts.display());
    }
    // The catalog has the operator's channel, and an update from what is installed.
    let checked =
        init(&world, &site, &format!("--for cluster.json --check-operators {PLAIN_SOURCE}"));
    assert_eq!((checked.code, checked.out.as_str()), (0, text.as_str()), "{}", checked.err);
    // The transferred files are enough; no request is sent.
    world.forget_requests();
    let carried = init(&world, &site, "--for cluster.json --check-operators --from file://data");
    assert_eq!((carried.code, carried.out.as_str()), (0, text.as_str()), "{}", carried.err);
    assert_eq!(world.service.server.requests().count() + world.quay.requests().count(), 0);
    // A removed channel is reported with the existing ones.
    let other = site.read("cluster.json").replace("stable-5.9", "stable-5.8");
    site.write("older.json", &other);
    let checked = init(&world, &site, "--for older.json --check-operators --from file://data");
    assert_eq!(checked.code, 0, "{}", checked.err);
    let expected = "cluster-logging has no channel stable-5.8 in registry.redhat.io/redhat/redhat-operator-index:v4.16. It has stable-5.9";
    assert!(checked.err.contains(expected), "{}", checked.err);
    assert!(
        checked.out.contains("# - cluster-logging has no channel stable-5.8"),
        "{}",
        checked.out
    );
}

#[test]
fn a_configuration_that_cannot_be_made_is_reported_with_the_reason() {
    let (world, _) = World::with(&["4.16.1", "4.16.2"]);
    let lonely = Graph::default().node_in(
        "4.17.1",
        &format!("quay.io/openshift-release-dev/ocp-release@{}", oci::Digest::of(b"4.17.1")),
        &["stable-4.17"],
    );
    world.service.publish("stable-4.17", "amd64", &lonely);
    let site = world.site();
    inventory(&site);
    site.write("isc.yaml", "kind: ImageSetConfiguration\n");
    for (line, expected) in [
        ("--for missing.json", "reading missing.json: No such file"),
        ("--for isc.yaml", "reading isc.yaml: the document is not valid JSON"),
        ("--for cluster.json --to 4.16", "with its patch number"),
        ("--for cluster.json --to 4.16.9", "there is no release 4.16.9"),
        ("--for cluster.json --to 4.16.0", "there is no release 4.16.0"),
        ("--for cluster.json --to 4.17.1", "no updates lead from 4.16.1 to 4.17.1"),
        ("--for cluster.json --channel stabel-4.16", "did you mean stable-4.16?"),
        ("--for cluster.json --arch arm64", "no releases for arm64"),
        ("--for cluster.json --version 4.16", "--version"),
        ("--to 4.16.2", "--for"),
        ("--version 4.16.1", "expected a minor version"),
    ] {
        let ran = init(&world, &site, line);
        assert_eq!(ran.code, 1, "{line}: {}", ran.out);
        assert!(ran.err.contains(expected), "{line}: {}", ran.err);
        assert_eq!(ran.out, "", "{line}");
    }
    // What a user has to decide is reported, and is in the text.
    site.write("little.json", r#"{"kind": "ClusterInventory", "schema": 1}"#);
    let ran = init(&world, &site, "--for little.json");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("The cluster's release is not known"), "{}", ran.err);
    assert!(ran.out.contains("# - The cluster's release is not known"), "{}", ran.out);
}

#[test]
fn a_start_without_a_cluster_is_made_for_the_newest_minor_version_or_the_one_that_was_named() {
    let (world, _) = World::with(&["4.16.1"]);
    let site = world.site();
    let newest = init(&world, &site, "--src-tls-verify=false");
    assert_eq!(newest.code, 0, "{}", newest.err);
    assert!(newest.out.contains("- name: stable-4.16\n"), "{}", newest.out);
    world.forget_requests();
    let named = init(&world, &site, "--version 4.18 --out isc.yaml");
    assert_eq!((named.code, named.out.as_str()), (0, ""), "{}", named.err);
    assert!(site.read("isc.yaml").contains("redhat-operator-index:v4.18"));
    let requested = world.quay.requests().count() + world.service.server.requests().count();
    assert_eq!(requested, 0, "a name needs no request");
}
