//! The CRDs of the four kinds, made from their Rust types.

use k8s_openapi::Resource;
use serde_json::{Value, json};

use crate::{
    EnactmentStatus, GROUP, NMState, NMStateSpec, NMStateStatus, NodeNetworkConfigurationEnactment,
    NodeNetworkConfigurationPolicy, NodeNetworkState, NodeNetworkStateStatus, PolicySpec,
    PolicyStatus, schema,
};

/// All four, in the order of their names.
pub fn all() -> [Value; 4] {
    [nmstate(), enactment(), policy(), node_state()]
}

/// A version of a kind as its CRD lists it.
struct Version {
    name: &'static str,
    /// The warning for clients that still use it; the server's own text when empty.
    deprecated: Option<&'static str>,
    storage: bool,
    columns: Vec<Value>,
    schema: Value,
}

fn nmstate() -> Value {
    let mut spec = schema::of::<NMStateSpec>();
    spec["default"] = json!({});
    for affinity in ["affinity", "infraAffinity"] {
        schema::make_atomic(&mut spec["properties"][affinity]);
    }
    // The older version has the same fields; only this default came with the newer one.
    let mut older = spec.clone();
    if let Some(metrics) = older["properties"]["metricsConfiguration"].as_object_mut() {
        metrics.remove("default");
    }
    let schema = |spec| {
        root("Whether and how handlers run on nodes.", Some(spec), &schema::of::<NMStateStatus>())
    };
    let deprecated = "nmstate.io/v1beta1 NMState is deprecated; use nmstate.io/v1";
    definition::<NMState>(
        &[],
        vec![
            Version {
                name: "v1",
                deprecated: None,
                storage: true,
                columns: status_and_reason(),
                schema: schema(spec),
            },
            Version {
                name: "v1beta1",
                deprecated: Some(deprecated),
                storage: false,
                columns: status_and_reason(),
                schema: schema(older),
            },
        ],
    )
}

fn policy() -> Value {
    let schema = || {
        let about = "The desired network of matching nodes.";
        root(about, Some(schema::of::<PolicySpec>()), &schema::of::<PolicyStatus>())
    };
    definition::<NodeNetworkConfigurationPolicy>(
        &["nncp"],
        vec![
            Version {
                name: "v1",
                deprecated: None,
                storage: true,
                columns: status_and_reason(),
                schema: schema(),
            },
            Version {
                name: "v1beta1",
                deprecated: Some(""),
                storage: false,
                columns: status_and_reason(),
                schema: schema(),
            },
        ],
    )
}

fn enactment() -> Value {
    let mut schema =
        root("The status of one policy on one node.", None, &schema::of::<EnactmentStatus>());
    schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    let mut columns = status_and_reason();
    columns.insert(1, column("Status Age", "date", "lastTransitionTime"));
    definition::<NodeNetworkConfigurationEnactment>(
        &["nnce"],
        vec![Version { name: "v1beta1", deprecated: None, storage: true, columns, schema }],
    )
}

fn node_state() -> Value {
    let about = "The current network of one node.";
    definition::<NodeNetworkState>(
        &["nns"],
        vec![Version {
            name: "v1beta1",
            deprecated: None,
            storage: true,
            columns: Vec::new(),
            schema: root(about, None, &schema::of::<NodeNetworkStateStatus>()),
        }],
    )
}

fn root(about: &str, spec: Option<Value>, status: &Value) -> Value {
    let mut schema = json!({
        "description": about,
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string", "description": "The version of the API that this object is written in." },
            "kind": { "type": "string", "description": "The kind of this object." },
            "metadata": { "type": "object" },
            "status": status,
        },
    });
    if let Some(spec) = spec {
        schema["properties"]["spec"] = spec;
    }
    schema
}

/// Type and reason of the conditions that hold.
fn status_and_reason() -> Vec<Value> {
    vec![column("Status", "string", "type"), column("Reason", "string", "reason")]
}

fn column(name: &str, type_: &str, field: &str) -> Value {
    json!({
        "name": name,
        "type": type_,
        "description": name,
        "jsonPath": format!(r#".status.conditions[?(@.status=="True")].{field}"#),
    })
}

/// A version that kubernetes-nmstate stored once and that is not served any more. The API server
/// rejects a CRD that lacks a version in which objects may be stored; the operator migrates them
/// and removes it from `status.storedVersions`.
const FORMER_VERSION: &str = "v1alpha1";

fn definition<K: Resource>(short_names: &[&str], versions: Vec<Version>) -> Value {
    // Nothing of what is stored is lost: each object is read in the requested version.
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let former = json!({
        "name": FORMER_VERSION,
        "served": false,
        "storage": false,
        "schema": { "openAPIV3Schema": any },
        "subresources": { "status": {} },
    });
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|version| {
            let mut value = json!({
                "name": version.name,
                "served": true,
                "storage": version.storage,
                "schema": { "openAPIV3Schema": version.schema },
                "subresources": { "status": {} },
            });
            if !version.columns.is_empty() {
                value["additionalPrinterColumns"] = json!(version.columns);
            }
            if let Some(warning) = version.deprecated {
                value["deprecated"] = json!(true);
                if !warning.is_empty() {
                    value["deprecationWarning"] = json!(warning);
                }
            }
            value
        })
        .chain([former])
        .collect();
    let mut names = json!({
        "kind": K::KIND,
        "listKind": format!("{}List", K::KIND),
        "plural": K::URL_PATH_SEGMENT,
        "singular": K::KIND.to_lowercase(),
    });
    if !short_names.is_empty() {
        names["shortNames"] = json!(short_names);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{GROUP}", K::URL_PATH_SEGMENT) },
        "spec": { "group": GROUP, "names": names, "scope": "Cluster", "versions": versions },
    })
}
