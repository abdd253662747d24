//! The API server of the lab, against objects whose fate is known.

use std::time::{Duration, Instant};

use lab::data_tier;
use lab_cluster::kube::{
    ApiError, ApiServer, CLUSTER_CRDS, FieldValidation, Persistence, ServerOptions,
};

const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: berths.harbour.example.com
spec:
  group: harbour.example.com
  scope: Namespaced
  names: {kind: Berth, listKind: BerthList, plural: berths, singular: berth}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [length]
            properties:
              length: {type: integer, minimum: 1}
"#;

fn berth(spec: &str) -> String {
    format!(
        "apiVersion: harbour.example.com/v1\nkind: Berth\nmetadata: {{name: b1}}\nspec: {spec}\n"
    )
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
    match result {
        Err(ApiError::Refused { message, .. }) => message,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn an_object_of_a_loaded_crd_is_judged_by_its_schema() {
    let server = ApiServer::start().await.unwrap();
    let names = server.client().load_crd_text(CRD).await.unwrap();
    assert_eq!(names, ["berths.harbour.example.com"]);
    let judge = |spec: &str| {
        let yaml = berth(spec);
        let server = &server;
        async move { server.apply(&yaml, Persistence::DryRun, FieldValidation::Strict).await }
    };
    let accepted = judge("{length: 120}").await.unwrap();
    assert_eq!(accepted[0]["spec"]["length"], 120);
    assert!(refusal(judge("{length: 120, depth: 9}").await).contains("depth"));
    assert!(refusal(judge("{length: 0}").await).contains("spec.length"));
    assert!(refusal(judge("{}").await).contains("spec.length"));
}

#[tokio::test]
async fn a_dry_run_stores_nothing_and_a_stored_object_is_found_again() {
    let server = ApiServer::start().await.unwrap();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n";
    let path = "/api/v1/namespaces/default/configmaps/c";
    server.apply(yaml, Persistence::DryRun, FieldValidation::Strict).await.unwrap();
    assert!(refusal(server.client().get(path).await).contains("not found"));
    server.apply(yaml, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    assert_eq!(server.client().get(path).await.unwrap()["data"]["k"], "v");
}

#[tokio::test]
async fn a_kind_without_crd_is_named() {
    let server = ApiServer::start().await.unwrap();
    let result =
        server.apply(&berth("{length: 1}"), Persistence::DryRun, FieldValidation::Strict).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("no Berth in harbour.example.com/v1"), "{error}");
}

#[tokio::test]
async fn openshift_crds_load_and_judge_a_mirror_set() {
    let server = ApiServer::start().await.unwrap();
    let names = server.load_cluster_crds().await.unwrap();
    assert_eq!(names, CLUSTER_CRDS);

    let mirror_set = |key: &str| {
        format!(
            "apiVersion: config.openshift.io/v1\n\
             kind: ImageDigestMirrorSet\n\
             metadata: {{name: idms-0}}\n\
             spec:\n  imageDigestMirrors:\n  - source: quay.io/example\n    {key}:\n    - registry.local:5000/example\n"
        )
    };
    let judge = |key: &str| {
        let yaml = mirror_set(key);
        let server = &server;
        async move { server.apply(&yaml, Persistence::DryRun, FieldValidation::Strict).await }
    };
    judge("mirrors").await.unwrap();
    assert!(refusal(judge("mirror").await).contains("mirror"));
}

/// Data tier: among them are those that no Go module has.
#[tokio::test]
async fn every_collected_crd_loads() {
    let Some(crds) = data_tier("cluster-crds") else { return };
    let server = ApiServer::start().await.unwrap();
    let names = server.load_crds(&crds).await.unwrap();
    assert_eq!(names.len(), crds.read_dir().unwrap().count());
}

const OWNER: &str = "
apiVersion: v1
kind: Node
metadata: {name: worker-0}
";
const WORKLOAD: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere, namespace: default}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec: {containers: [{name: c, image: i}], tolerations: [{operator: Exists}]}
";

/// Repeats the request until the list at `path` has so many items.
async fn wait_for_items(server: &ApiServer, path: &str, count: usize) {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let list = server.client().get(path).await.expect("the list is there");
        let found = list["items"].as_array().expect("a list has items").len();
        if found == count {
            return;
        }
        assert!(Instant::now() < end, "{path}: {found} items, not {count}: {list:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn controllers_make_pods_and_collect_what_lost_its_owner() {
    let options = ServerOptions { wants_service_accounts: true, ..ServerOptions::default() };
    let mut server = ApiServer::start_with(options).await.unwrap();
    server.client().load_crd_text(CRD).await.unwrap();
    let store = (Persistence::Stored, FieldValidation::Strict);
    let node = server.apply(OWNER, store.0, store.1).await.unwrap();
    let uid = node[0]["metadata"]["uid"].as_str().unwrap();
    let owner = format!("{{apiVersion: v1, kind: Node, name: worker-0, uid: {uid}}}");
    let owned = berth("{length: 3}")
        .replace("{name: b1}", &format!("{{name: b1, ownerReferences: [{owner}]}}"));
    server.apply(&owned, store.0, store.1).await.unwrap();
    server.start_controllers().await.unwrap();

    server.apply(WORKLOAD, store.0, store.1).await.unwrap();
    wait_for_items(&server, "/api/v1/namespaces/default/pods", 1).await;
    let berths = "/apis/harbour.example.com/v1/namespaces/default/berths";
    wait_for_items(&server, berths, 1).await;
    server.client().delete("/api/v1/nodes/worker-0").await.unwrap();
    wait_for_items(&server, berths, 0).await;
}
