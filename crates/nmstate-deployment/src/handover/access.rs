//! What the operator must be allowed to do to take over and to give back. Where names are not known
//! beforehand, admission keeps it to what is kubernetes-nmstate's.

use serde_json::{Value, json};

use super::installer::{NETWORK_ADDONS, NETWORK_ADDONS_GROUP, OLM_GROUP};
use crate::leftovers::{CONSOLE, Found, KINDS};

/// Rules for its ClusterRole.
pub(crate) fn rules() -> Vec<Value> {
    let mut rules = vec![
        // Pods of its operator outlive their Deployment.
        rule("", "pods", &["list"]),
        rule(OLM_GROUP, "subscriptions", &["list", "create", "delete"]),
        rule(OLM_GROUP, "clusterserviceversions", &["get", "list", "create", "delete"]),
    ];
    let addons = (NETWORK_ADDONS_GROUP, "networkaddonsconfigs", NETWORK_ADDONS);
    for (group, resource, name) in [addons, (CONSOLE.group, CONSOLE.plural, "cluster")] {
        rules.push(named(rule(group, resource, &["get", "patch"]), &[name]));
    }
    for kind in KINDS.iter().filter(|kind| **kind != CONSOLE) {
        rules.push(match kind.found {
            Found::Cluster(names) | Found::Named(names) => {
                named(rule(kind.group, kind.plural, &["get", "delete"]), names)
            }
            Found::Owned => rule(kind.group, kind.plural, &["list", "delete"]),
        });
    }
    rules
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
}

fn named(mut rule: Value, names: &[&str]) -> Value {
    rule["resourceNames"] = json!(names);
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_read_or_remove_everybodys_config_maps_and_no_rule_is_about_secrets() {
        for rule in rules() {
            let resource = rule["resources"][0].as_str().unwrap();
            let is_named = rule["resourceNames"].is_array();
            assert_ne!(resource, "secrets");
            assert!(resource != "configmaps" || is_named, "{rule}");
            // Who is known by name is not listed.
            let lists = rule["verbs"].as_array().unwrap().contains(&json!("list"));
            assert_ne!(is_named, lists, "{rule}");
        }
    }
}
