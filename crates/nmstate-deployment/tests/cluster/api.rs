//! Our CRDs accept and reject the same as those of kubernetes-nmstate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lab::data_tier;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use nmstate_api::crd;
use serde_json::Value;

use crate::support::{apply, payload};

fn originals(folder: &Path) -> BTreeMap<String, Value> {
    let read = |path: PathBuf| -> Value {
        serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let entries = fs::read_dir(folder.join("deploy/crds")).unwrap();
    let crds = entries.map(|entry| read(entry.unwrap().path()));
    crds.map(|crd| (crd["metadata"]["name"].as_str().unwrap().to_owned(), crd)).collect()
}

/// A schema without descriptions, with required fields in alphabetical order.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !(*key == "description" && value.is_string()))
                .map(|(key, value)| {
                    let mut value = bare(value);
                    if let (true, Some(list)) = (key == "required", value.as_array_mut()) {
                        list.sort_by_key(ToString::to_string);
                    }
                    (key.clone(), value)
                })
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(bare).collect()),
        other => other.clone(),
    }
}

/// Whether everything of `theirs` is in `ours`, where we may have more fields.
fn holds(ours: &Value, theirs: &Value, place: &str) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in theirs {
                let place = format!("{place}.{key}");
                let mine = ours.get(key).unwrap_or_else(|| panic!("{place} is missing"));
                holds(mine, value, &place);
            }
        }
        _ => assert_eq!(ours, theirs, "{place}"),
    }
}

#[test]
fn specs_have_the_schemas_of_the_original_and_statuses_at_least_its_fields() {
    let Some(folder) = data_tier("kubernetes-nmstate-api") else { return };
    let originals = originals(&folder);
    assert_eq!(originals.len(), 4);
    for crd in crd::all() {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let (ours, theirs) = (bare(&crd["spec"]), bare(&originals[name]["spec"]));
        for key in ["group", "names", "scope"] {
            assert_eq!(ours[key], theirs[key], "{name}: {key}");
        }
        // A version that is not served is there for objects that are stored in it.
        let versions = |spec: &Value| {
            let mut versions = spec["versions"].as_array().unwrap().clone();
            versions.retain(|version| version["served"] == true);
            versions
        };
        let pairs = versions(&ours).into_iter().zip(versions(&theirs));
        assert_eq!(versions(&ours).len(), versions(&theirs).len(), "{name}");
        for (ours, theirs) in pairs {
            for key in ["name", "served", "storage", "deprecated", "additionalPrinterColumns"] {
                assert_eq!(ours.get(key), theirs.get(key), "{name}: {key}");
            }
            let root = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
            let spec = |version: &Value| root(version)["properties"].get("spec").cloned();
            assert_eq!(spec(&ours), spec(&theirs), "{name}");
            holds(&root(&ours), &root(&theirs), name);
        }
    }
}

/// Every document of the files in these folders that a server can validate.
fn documents(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for place in ["upstream", "users", "templated"] {
        for entry in fs::read_dir(folder.join(place)).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            for (number, document) in split(&text).into_iter().enumerate() {
                let is_policy = document
                    .lines()
                    .any(|line| line.trim_end() == "kind: NodeNetworkConfigurationPolicy");
                if is_policy {
                    found.push((format!("{} {number}", path.display()), document));
                }
            }
        }
    }
    found.sort();
    found
}

fn split(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    documents
}

#[tokio::test]
async fn real_policies_are_taken_and_refused_as_by_the_original() {
    let Some(policies) = data_tier("nncp") else { return };
    let Some(api) = data_tier("kubernetes-nmstate-api") else { return };
    let (ours, theirs) = (ApiServer::start().await.unwrap(), ApiServer::start().await.unwrap());
    apply(&ours, &payload(), &["_crd-"]).await;
    theirs.load_crds(&api.join("deploy/crds")).await.unwrap();
    let (mut taken, mut refused) = (0, 0);
    for (name, document) in documents(&policies) {
        let judge = |server: &ApiServer| {
            let (client, document) = (server.client().clone(), document.clone());
            async move {
                let strict = FieldValidation::Strict;
                client.apply(&document, Persistence::DryRun, strict).await.is_ok()
            }
        };
        let (mine, original) = (judge(&ours).await, judge(&theirs).await);
        assert_eq!(mine, original, "{name}: taken by us: {mine}, by the original: {original}");
        if mine { taken += 1 } else { refused += 1 }
    }
    // The number when the policies were collected; fewer would mean that some were lost.
    assert!(taken >= 130 && refused > 0, "{taken} taken, {refused} refused");
}

#[tokio::test]
async fn annotations_without_a_value_are_taken_with_admission_in_place() {
    let server = ApiServer::start().await.unwrap();
    apply(&server, &payload(), &["_crd-", "_namespace", "_admission"]).await;
    let policy = |annotations: &str| {
        format!(
            "apiVersion: nmstate.io/v1\nkind: NodeNetworkConfigurationPolicy\n\
             metadata:\n  name: p\n  annotations:{annotations}\nspec: {{}}\n"
        )
    };
    let judge = async |text: &str| {
        server.apply(text, Persistence::DryRun, FieldValidation::Strict).await.map(drop)
    };
    // Admission policies take effect some time after they are stored.
    let unknown = policy("\n    nmstate.landfall.dev/unknown: x");
    while judge(&unknown).await.is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    judge(&policy("")).await.unwrap();
    judge(&policy(" {}")).await.unwrap();
    judge(&policy("\n    nmstate.landfall.dev/probe-timeout: '600'")).await.unwrap();
    judge(&policy("\n    nmstate.landfall.dev/retry: 2026-01-01T00:00:00Z a.b,c")).await.unwrap();
    assert!(judge(&policy("\n    nmstate.landfall.dev/probe-timeout: '601'")).await.is_err());
}
