//! What admission accepts: policies that can be honoured, and from each handler only its own
//! objects.

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use lab::eventually;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use nmstate_api::{
    NodeNetworkConfigurationEnactment, NodeNetworkConfigurationPolicy, NodeNetworkState,
};
use serde_json::{Value, json};

use crate::support::{apply, client, payload};

const NAMESPACE: &str = "openshift-nmstate-operator";

/// More permissions than handlers have: what is rejected here is rejected by admission.
const SCENE: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: nmstate-handler, namespace: openshift-nmstate-operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: handlers-may-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: nmstate-handler, namespace: openshift-nmstate-operator}]
---
apiVersion: v1
kind: Node
metadata: {name: worker-0}
---
apiVersion: v1
kind: Node
metadata: {name: worker-1}
";

async fn server() -> ApiServer {
    let server = ApiServer::start().await.unwrap();
    apply(&server, &payload(), &["namespace.yaml", "_crd-", "_admission"]).await;
    server
}

/// A client with the token of a handler's pod on this node.
async fn handler(server: &ApiServer, node: &str) -> Client {
    let admin = client(server, None).await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": format!("nmstate-handler-{node}") },
        "spec": {
            "nodeName": node,
            "serviceAccountName": "nmstate-handler",
            "containers": [{ "name": "handler", "image": "i" }],
        },
    }))
    .unwrap();
    let pods: Api<Pod> = Api::namespaced(admin.clone(), NAMESPACE);
    let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
    let request = TokenRequest {
        spec: TokenRequestSpec {
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                name: Some(pod.name_any()),
                uid: pod.uid(),
            }),
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, NAMESPACE);
    let parameters = PostParams::default();
    let response =
        accounts.create_token_request("nmstate-handler", &parameters, &request).await.unwrap();
    client(server, Some(&response.status.unwrap().token)).await
}

fn enactment(name: &str, node: &str, policy: &str) -> NodeNetworkConfigurationEnactment {
    let mut object = NodeNetworkConfigurationEnactment::new(name);
    object.labels_mut().insert("nmstate.io/node".into(), node.into());
    object.labels_mut().insert("nmstate.io/policy".into(), policy.into());
    object
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> bool {
    match result {
        Ok(_) => false,
        Err(kube::Error::Api(status)) => {
            assert!(status.message.contains("its own node only"), "{}", status.message);
            true
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_handler_writes_about_its_own_node_and_no_other_and_without_a_node_nothing() {
    let server = server().await;
    server.apply(SCENE, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    let (zero, one) = (handler(&server, "worker-0").await, handler(&server, "worker-1").await);
    let states = |client: &Client| Api::<NodeNetworkState>::all(client.clone());
    let create = PostParams::default();
    // The server needs a moment to apply new admission policies.
    eventually("another node's state is refused", || async {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let result = states(&one).create(&dry, &NodeNetworkState::new("worker-0")).await;
        result.is_err() && is_refused(result)
    })
    .await;

    states(&zero).create(&create, &NodeNetworkState::new("worker-0")).await.unwrap();
    let status = Patch::Merge(json!({ "status": { "currentState": { "interfaces": [] } } }));
    let patch = PatchParams::default();
    states(&zero).patch_status("worker-0", &patch, &status).await.unwrap();
    assert!(is_refused(states(&one).patch_status("worker-0", &patch, &status).await));
    let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    assert!(is_refused(states(&one).patch("worker-0", &patch, &label).await));
    assert!(is_refused(states(&one).delete("worker-0", &DeleteParams::default()).await));

    let enactments =
        |client: &Client| Api::<NodeNetworkConfigurationEnactment>::all(client.clone());
    let good = enactment("worker-0.vlan", "worker-0", "vlan");
    enactments(&zero).create(&create, &good).await.unwrap();
    for (name, node, policy) in [
        ("worker-1.vlan", "worker-1", "vlan"),
        // A name of another node with a label of its own, and the reverse.
        ("worker-1.vlan", "worker-0", "vlan"),
        ("worker-0.vlan.x", "worker-1", "vlan.x"),
        ("worker-0.vlan", "worker-0", "mtu"),
    ] {
        let object = enactment(name, node, policy);
        assert!(is_refused(enactments(&zero).create(&create, &object).await), "{name} {node}");
    }
    let status = Patch::Merge(json!({ "status": { "policyGeneration": 1 } }));
    enactments(&zero).patch_status("worker-0.vlan", &patch, &status).await.unwrap();
    assert!(is_refused(enactments(&one).patch_status("worker-0.vlan", &patch, &status).await));
    // Nor can one's own be handed to another node.
    let hand_over =
        Patch::Merge(json!({ "metadata": { "labels": { "nmstate.io/node": "worker-1" } } }));
    assert!(is_refused(enactments(&zero).patch("worker-0.vlan", &patch, &hand_over).await));
    enactments(&zero).delete("worker-0.vlan", &DeleteParams::default()).await.unwrap();

    let nobody = states(&unbound(&server).await);
    assert!(is_refused(nobody.create(&create, &NodeNetworkState::new("worker-1")).await));
    assert!(is_refused(nobody.create(&create, &NodeNetworkState::new("nobody")).await));
}

/// A client with a token of the handlers' account that is bound to no pod.
async fn unbound(server: &ApiServer) -> Client {
    let accounts: Api<ServiceAccount> = Api::namespaced(client(server, None).await, NAMESPACE);
    let parameters = PostParams::default();
    let request = TokenRequest::default();
    let token =
        accounts.create_token_request("nmstate-handler", &parameters, &request).await.unwrap();
    client(server, Some(&token.status.unwrap().token)).await
}

fn policy(name: &str, annotations: &Value, spec: &Value) -> String {
    json!({
        "apiVersion": "nmstate.io/v1",
        "kind": "NodeNetworkConfigurationPolicy",
        "metadata": { "name": name, "annotations": annotations },
        "spec": spec,
    })
    .to_string()
}

#[tokio::test]
async fn policies_that_cannot_be_honoured_are_refused_with_the_reason_and_edits_are_not() {
    let server = server().await;
    let judge = |text: String| {
        let client = server.client().clone();
        async move { client.apply(&text, Persistence::DryRun, FieldValidation::Strict).await }
    };
    let none = json!({});
    let long = policy(&"a".repeat(64), &none, &none);
    eventually("the rules take effect", || async { judge(long.clone()).await.is_err() }).await;

    let of = |name: &str, value: &str| json!({ format!("nmstate.landfall.dev/{name}"): value });
    for (name, value) in [
        ("probes", "api-server"),
        ("probes", "gateway, dns,node-readiness"),
        ("canary", "1"),
        ("canary", "worker-0.example.com, worker-1"),
        ("revert-on-delete", "true"),
        ("drift", "enforce"),
        ("memory-only", "false"),
    ] {
        judge(policy("a", &of(name, value), &none)).await.unwrap();
    }
    for (name, value, expected) in [
        ("probes", "ping", "api-server, gateway"),
        ("canary", "0", "at least 1"),
        ("canary", "Worker", "at least 1"),
        ("revert-on-delete", "yes", "must be true, false"),
        ("drift", "", "ignore, report, enforce"),
        ("canari", "1", "known here are probes, canary"),
        ("off", "true", "known here are probes, canary"),
    ] {
        let error = judge(policy("a", &of(name, value), &none)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}={value}: {error}");
    }
    let selector = json!({ "nodeSelector": { "kubernetes.io/hostname": "not a label" } });
    let error = judge(policy("a", &none, &selector)).await.unwrap_err().to_string();
    assert!(error.contains("values that labels can have"), "{error}");

    // A policy in progress may be edited, and so may its captures.
    let store = |spec: Value| {
        let (client, text) = (server.client().clone(), policy("a", &json!({}), &spec));
        async move { client.apply(&text, Persistence::Stored, FieldValidation::Strict).await }
    };
    store(json!({ "capture": { "a": "interfaces.name==\"eth1\"" } })).await.unwrap();
    let policies: Api<NodeNetworkConfigurationPolicy> = Api::all(client(&server, None).await);
    let progressing = Patch::Merge(json!({ "status": { "conditions": [
        { "type": "Progressing", "status": "True", "reason": "ConfigurationProgressing" },
    ]}}));
    policies.patch_status("a", &PatchParams::default(), &progressing).await.unwrap();
    store(json!({ "capture": { "a": "interfaces.name==\"eth2\"" } })).await.unwrap();
}

#[tokio::test]
async fn a_policy_that_cannot_be_honoured_does_not_fail_an_installation() {
    let server = server().await;
    let policies = |client: Client| Api::<NodeNetworkConfigurationPolicy>::all(client);
    let of = |name: &str, annotations: Value| -> NodeNetworkConfigurationPolicy {
        serde_json::from_str(&policy(name, &annotations, &json!({}))).unwrap()
    };
    let long = of(&"a".repeat(64), json!({}));
    let unknown = of("b", json!({ "nmstate.landfall.dev/unknown": "x" }));
    let create = PostParams::default();
    let admin = policies(client(&server, None).await);
    eventually("the rules take effect", || async {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        admin.create(&dry, &long).await.is_err()
    })
    .await;
    assert!(admin.create(&create, &unknown).await.is_err());
    // The user that applies the manifests of an installation gets a warning only.
    let installer = policies(installer(&server).await);
    installer.create(&create, &long).await.unwrap();
    installer.create(&create, &unknown).await.unwrap();
}

/// A client with the identity that the installer of OpenShift has.
async fn installer(server: &ApiServer) -> Client {
    let mut kubeconfig = kube::config::Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    user.impersonate = Some("system:admin".to_owned());
    user.impersonate_groups = Some(vec!["system:masters".to_owned()]);
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}
