//! Every verb on every resource of the server, requested with the token of each component: what is
//! not listed here must be forbidden.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hyper::{Method, Request, StatusCode};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::client::Body;
use lab::eventually;

use crate::operator::cluster::{Cluster, NAMESPACE};

/// Another namespace than that of the components.
const ELSEWHERE: &str = "default";
/// No object has this name, so that allowed requests do not change anything.
const ABSENT: &str = "no-such-object";
const READ: &str = "get list watch";

/// In which namespaces a rule applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Cluster,
    Own,
}

use Scope::{Cluster as Everywhere, Own};

/// A handler reports about its node. It reads policies and nodes, and changes neither.
const HANDLER: &[(Scope, &str, &str)] = &[
    (Everywhere, "nmstate.io/nodenetworkconfigurationpolicies", READ),
    (Everywhere, "nmstate.io/nodenetworkstates", "get list watch create update patch delete"),
    (Everywhere, "nmstate.io/nodenetworkstates/status", "update patch"),
    (
        Everywhere,
        "nmstate.io/nodenetworkconfigurationenactments",
        "get list watch create update patch delete",
    ),
    (Everywhere, "nmstate.io/nodenetworkconfigurationenactments/status", "update patch"),
    (Everywhere, "/nodes", READ),
    (Everywhere, "config.openshift.io/clusterversions", "get list"),
    (Everywhere, "events.k8s.io/events", "create patch"),
];

/// The coordinator reads reports, writes the status of policies and the metadata of states, and
/// elects a leader in its namespace.
const COORDINATOR: &[(Scope, &str, &str)] = &[
    (Everywhere, "nmstate.io/nodenetworkconfigurationpolicies", READ),
    (Everywhere, "nmstate.io/nodenetworkconfigurationpolicies/status", "update patch"),
    (Everywhere, "nmstate.io/nodenetworkconfigurationenactments", READ),
    (Everywhere, "nmstate.io/nodenetworkstates", "get list watch patch"),
    (Everywhere, "/nodes", READ),
    (Everywhere, "events.k8s.io/events", "create patch"),
    (Own, "coordination.k8s.io/leases", "get create update patch"),
    (Own, "/configmaps", READ),
];

/// The operator deploys in its namespace, reports in two objects, and has whatever it passes on. It
/// changes no workload, secret, node or definition of other programs.
const OPERATOR: &[(Scope, &str, &str)] = &[
    (Everywhere, "nmstate.io/nmstates", "get list watch create patch"),
    (Everywhere, "nmstate.io/nmstates/status", "update patch"),
    (Everywhere, "config.openshift.io/infrastructures", READ),
    (Everywhere, "config.openshift.io/clusterversions", READ),
    (Everywhere, "config.openshift.io/apiservers", READ),
    (Everywhere, "config.openshift.io/clusteroperators", "get list watch create"),
    (Everywhere, "config.openshift.io/clusteroperators/status", "update patch"),
    // Those of other names can be neither read nor changed.
    (Everywhere, "rbac.authorization.k8s.io/clusterroles", "create"),
    (Everywhere, "rbac.authorization.k8s.io/clusterrolebindings", "create"),
    (Everywhere, "apps/deployments", "list"),
    (Everywhere, "apps/daemonsets", "list"),
    (Everywhere, "machineconfiguration.openshift.io/machineconfigs", READ),
    (Everywhere, "nmstate.io/nodenetworkconfigurationpolicies", "get list watch create"),
    (
        Everywhere,
        "nmstate.io/nodenetworkstates",
        "get list watch create update patch delete deletecollection",
    ),
    (
        Everywhere,
        "nmstate.io/nodenetworkconfigurationenactments",
        "get list watch create update patch delete deletecollection",
    ),
    (Everywhere, "nmstate.io/nodenetworkstates/status", "update patch"),
    (Everywhere, "nmstate.io/nodenetworkconfigurationenactments/status", "update patch"),
    (Everywhere, "nmstate.io/nodenetworkconfigurationpolicies/status", "update patch"),
    (Everywhere, "/nodes", READ),
    (Everywhere, "events.k8s.io/events", "create patch"),
    (Own, "apps/deployments", "get list watch create patch delete"),
    (Own, "apps/daemonsets", "get list watch create patch delete"),
    (Own, "/pods", "list"),
    (Own, "/services", "get list watch create patch delete"),
    (Own, "/serviceaccounts", "get list watch create patch delete"),
    (Own, "/configmaps", "get list watch create patch update"),
    (Own, "coordination.k8s.io/leases", "get create update patch delete"),
    (Own, "networking.k8s.io/networkpolicies", "get list watch create patch delete"),
    (Own, "policy/poddisruptionbudgets", "get list watch create patch delete"),
    (Own, "rbac.authorization.k8s.io/roles", "get list watch create patch delete"),
    (Own, "rbac.authorization.k8s.io/rolebindings", "get list watch create patch delete"),
];

/// Kinds of OpenShift for which this server has no definition.
const OTHERS: &[(&str, &str, &str)] = &[
    ("config.openshift.io", "v1", "apiservers"),
    ("config.openshift.io", "v1", "clusterversions"),
    ("config.openshift.io", "v1", "oauths"),
    ("machineconfiguration.openshift.io", "v1", "machineconfigpools"),
    ("machineconfiguration.openshift.io", "v1", "machineconfigs"),
    ("security.openshift.io", "v1", "securitycontextconstraints"),
];

/// A resource or subresource of the server.
struct Resource {
    group: String,
    version: String,
    /// `pods`, or `pods/log`.
    name: String,
    is_namespaced: bool,
}

impl Resource {
    fn id(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    fn places(&self) -> &'static [&'static str] {
        if self.is_namespaced { &[NAMESPACE, ELSEWHERE] } else { &[""] }
    }

    /// The verbs that a request can have.
    fn verbs(&self) -> &'static [&'static str] {
        if self.name.contains('/') {
            &["get", "create", "update", "patch", "delete"]
        } else {
            &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
        }
    }

    fn request(&self, verb: &str, namespace: &str) -> Request<Body> {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if !namespace.is_empty() {
            write!(path, "/namespaces/{namespace}").unwrap();
        }
        let (plural, subresource) = self.name.split_once('/').unwrap_or((&self.name, ""));
        write!(path, "/{plural}").unwrap();
        let of_collection = matches!(verb, "list" | "watch" | "deletecollection")
            || self.name == plural && verb == "create";
        if !of_collection {
            write!(path, "/{ABSENT}").unwrap();
        }
        if !subresource.is_empty() {
            write!(path, "/{subresource}").unwrap();
        }
        if verb == "watch" {
            path += "?watch=true&timeoutSeconds=1";
        }
        let (method, kind) = match verb {
            "create" => (Method::POST, "application/json"),
            "update" => (Method::PUT, "application/json"),
            "patch" => (Method::PATCH, "application/merge-patch+json"),
            "delete" | "deletecollection" => (Method::DELETE, "application/json"),
            _ => (Method::GET, "application/json"),
        };
        let body = match verb {
            "create" | "update" | "patch" => Body::from(b"{}".to_vec()),
            _ => Body::empty(),
        };
        Request::builder().method(method).uri(path).header("Content-Type", kind).body(body).unwrap()
    }
}

/// Every resource in every version that the server offers.
async fn resources(client: &Client) -> Vec<Resource> {
    let mut found = Vec::new();
    let mut add = |group: &str, version: &str, listed: Vec<APIResource>| {
        found.extend(listed.into_iter().map(|resource| Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            name: resource.name,
            is_namespaced: resource.namespaced,
        }));
    };
    add("", "v1", client.list_core_api_resources("v1").await.unwrap().resources);
    for group in client.list_api_groups().await.unwrap().groups {
        for version in group.versions {
            let listed = client.list_api_group_resources(&version.group_version).await.unwrap();
            add(&group.name, &version.version, listed.resources);
        }
    }
    // Permissions are checked before the server looks for a resource.
    for (group, version, name) in OTHERS {
        let is_there = |one: &Resource| one.group == *group && one.name == *name;
        if !found.iter().any(is_there) {
            found.push(Resource {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                name: (*name).to_owned(),
                is_namespaced: false,
            });
        }
    }
    found
}

/// What a token may do, as lines `RESOURCE VERB NAMESPACE`.
async fn allowed(client: &Client, resources: &[Resource]) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for resource in resources {
        for place in resource.places() {
            for verb in resource.verbs() {
                let response = client.send(resource.request(verb, place)).await.unwrap();
                let status = response.status();
                assert_ne!(status, StatusCode::UNAUTHORIZED, "the token is valid");
                if status != StatusCode::FORBIDDEN {
                    allowed.insert(format!("{} {verb} {place}", resource.id()));
                }
            }
        }
    }
    allowed
}

fn expected(rules: &[(Scope, &str, &str)], resources: &[Resource]) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (scope, id, verbs) in rules {
        let resource = resources.iter().find(|resource| resource.id() == *id);
        let resource = resource.unwrap_or_else(|| panic!("the server has no {id}"));
        let places = resource.places().iter();
        for place in places.filter(|place| *scope == Everywhere || **place == NAMESPACE) {
            lines.extend(verbs.split(' ').map(|verb| format!("{id} {verb} {place}")));
        }
    }
    lines
}

/// Whether an account has a permission that is not a verb of a request.
async fn may(
    cluster: &Cluster,
    account: &str,
    verb: &str,
    resource: (&str, &str),
    name: &str,
) -> bool {
    let groups = ["system:serviceaccounts", "system:authenticated"].map(str::to_owned);
    let (group, resource) = resource;
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{NAMESPACE}:{account}")),
            groups: Some(groups.to_vec()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                name: Some(name.to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client.clone());
    let reviewed = reviews.create(&PostParams::default(), &review).await.unwrap();
    reviewed.status.is_some_and(|status| status.allowed)
}

#[tokio::test]
async fn each_token_may_do_what_is_listed_and_nothing_else() {
    let cluster = Cluster::on_bare_metal().await;
    {
        let _operator = cluster.operator("1.0.0").await;
        cluster.deployed(true).await;
        eventually("the coordinator may do what it needs", || async {
            let nodes = ("", "nodes");
            let lease = ("coordination.k8s.io", "leases");
            may(&cluster, "nmstate-coordinator", "list", nodes, "").await
                && may(&cluster, "nmstate-coordinator", "update", lease, "").await
        })
        .await;
    }
    let resources = resources(&cluster.client).await;
    assert!(resources.len() > 100, "{} resources", resources.len());
    // Requests that every authenticated user may send, as found with an account without any role.
    cluster
        .apply(&format!(
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: without-roles, namespace: {NAMESPACE}}}\n"
        ))
        .await;
    let authenticated = allowed(&cluster.client_of("without-roles").await, &resources).await;
    let of_reviews = |line: &&String| line.contains("self") && line.contains("review");
    assert!(authenticated.iter().all(|line| of_reviews(&line)), "{authenticated:?}");
    assert!(!authenticated.is_empty());

    for (account, rules) in [
        ("nmstate-handler", HANDLER),
        ("nmstate-coordinator", COORDINATOR),
        ("nmstate-operator", OPERATOR),
    ] {
        let allowed = allowed(&cluster.client_of(account).await, &resources).await;
        let allowed: BTreeSet<String> = allowed.difference(&authenticated).cloned().collect();
        let expected = expected(rules, &resources);
        let more: Vec<_> = allowed.difference(&expected).collect();
        let less: Vec<_> = expected.difference(&allowed).collect();
        assert!(
            more.is_empty() && less.is_empty(),
            "{account}: also allowed {more:#?}, forbidden {less:#?}"
        );

        for (verb, resource) in [
            ("impersonate", ("", "users")),
            ("impersonate", ("", "groups")),
            ("impersonate", ("", "serviceaccounts")),
            ("escalate", ("rbac.authorization.k8s.io", "clusterroles")),
            ("escalate", ("rbac.authorization.k8s.io", "roles")),
            ("bind", ("rbac.authorization.k8s.io", "clusterroles")),
            ("bind", ("rbac.authorization.k8s.io", "roles")),
            ("approve", ("certificates.k8s.io", "signers")),
            ("sign", ("certificates.k8s.io", "signers")),
            ("*", ("*", "*")),
        ] {
            assert!(
                !may(&cluster, account, verb, resource, "").await,
                "{account} may {verb} {resource:?}"
            );
        }
        // The operator has what it passes on to handlers.
        let constraints = ("security.openshift.io", "securitycontextconstraints");
        let is_privileged = account != "nmstate-coordinator";
        assert_eq!(may(&cluster, account, "use", constraints, "privileged").await, is_privileged);
        assert!(!may(&cluster, account, "use", constraints, "anyuid").await);
    }
    // By name: the slots to revert deleted policies.
    let leases = ("coordination.k8s.io", "leases");
    assert!(may(&cluster, "nmstate-handler", "get", leases, "nmstate-reverts").await);
    for (verb, name) in [("get", "nmstate-coordinator"), ("update", "nmstate-reverts")] {
        assert!(!may(&cluster, "nmstate-handler", verb, leases, name).await, "{verb} {name}");
    }
    // By name: the roles that it deploys, and no others.
    let roles = ("rbac.authorization.k8s.io", "clusterroles");
    for verb in ["get", "patch", "delete"] {
        assert!(may(&cluster, "nmstate-operator", verb, roles, "openshift-nmstate-handler").await);
        assert!(!may(&cluster, "nmstate-operator", verb, roles, "cluster-admin").await);
        assert!(
            !may(&cluster, "nmstate-operator", verb, roles, "openshift-nmstate-operator").await
        );
    }
}
