//! Policies that configure the same part of a node's network.
//!
//! Two policies may do so and agree. The status names the overlap nevertheless: the later one wins, and
//! each edit of one may undo a part of the other.

use std::collections::{BTreeMap, BTreeSet};

use nmstate_api::NetworkDocument;
use serde_json::Value;

/// The subjects of a desired state: names of interfaces, and sections that exist once per node.
/// Names that are only known once captures are resolved are left out.
pub fn subjects(desired: &NetworkDocument) -> BTreeSet<String> {
    let mut subjects = BTreeSet::new();
    for (section, value) in &desired.0 {
        match (section.as_str(), value) {
            ("interfaces", Value::Array(interfaces)) => {
                let names = interfaces.iter().filter_map(|it| it.get("name")?.as_str());
                subjects.extend(names.filter(|name| !is_template(name)).map(str::to_owned));
            }
            ("routes", Value::Object(routes)) => {
                let list = routes.get("config").and_then(Value::as_array).into_iter().flatten();
                let destinations = list.filter_map(|it| it.get("destination")?.as_str());
                let destinations = destinations.filter(|it| !is_template(it));
                subjects.extend(destinations.map(|it| format!("route to {it}")));
            }
            ("dns-resolver" | "hostname" | "ovs-db" | "ovn", _) => {
                subjects.insert(section.clone());
            }
            _ => {}
        }
    }
    subjects
}

fn is_template(text: &str) -> bool {
    text.contains("{{")
}

/// One policy, as far as overlaps are concerned.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    pub policy: &'a str,
    pub subjects: BTreeSet<String>,
    pub nodes: BTreeSet<&'a str>,
}

/// For each policy: which others configure the same subjects on the same nodes, and which subjects.
pub fn overlaps(claims: &[Claim<'_>]) -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let mut found: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    // Policies by subject, so that a thousand policies of one node each do not cost a million
    // comparisons.
    let mut speakers: BTreeMap<&str, Vec<&Claim<'_>>> = BTreeMap::new();
    for claim in claims {
        for subject in &claim.subjects {
            speakers.entry(subject).or_default().push(claim);
        }
    }
    for (subject, speakers) in speakers {
        // By node: only policies of the same node are compared.
        let mut on_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for claim in speakers.iter().filter(|_| speakers.len() > 1) {
            for node in &claim.nodes {
                on_node.entry(node).or_default().push(claim.policy);
            }
        }
        let mut pairs: BTreeSet<(&str, &str)> = BTreeSet::new();
        for policies in on_node.values() {
            for of in policies {
                pairs.extend(policies.iter().filter(|with| *with != of).map(|with| (*of, *with)));
            }
        }
        for (of, with) in pairs {
            let with = found.entry(of.to_owned()).or_default().entry(with.to_owned());
            with.or_default().insert(subject.to_owned());
        }
    }
    found
}

/// A short sentence for a status message. Two others are named, the rest is counted.
pub fn sentence(with: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    const NAMED: usize = 2;
    if with.is_empty() {
        return None;
    }
    let named = with.iter().take(NAMED).map(|(policy, subjects)| {
        let mut names: Vec<&str> = subjects.iter().take(NAMED).map(String::as_str).collect();
        if subjects.len() > NAMED {
            names.push("…");
        }
        format!("{policy} ({})", names.join(", "))
    });
    let mut text =
        format!("shares parts of the network with {}", named.collect::<Vec<_>>().join(" and "));
    if with.len() > NAMED {
        text.push_str(&format!(" and {} more", with.len() - NAMED));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(value: Value) -> NetworkDocument {
        serde_json::from_value(value).unwrap()
    }

    fn claim<'a>(policy: &'a str, subjects: &[&str], nodes: &[&'a str]) -> Claim<'a> {
        Claim {
            policy,
            subjects: subjects.iter().map(|it| (*it).to_owned()).collect(),
            nodes: nodes.iter().copied().collect(),
        }
    }

    #[test]
    fn names_that_captures_will_give_are_not_guessed() {
        let desired = document(json!({
            "interfaces": [{"name": "eth1"}, {"name": "{{ capture.x.interfaces.0.name }}"}],
            "dns-resolver": {"config": {"server": ["192.0.2.53"]}},
            "routes": {"config": [{"destination": "0.0.0.0/0"}]},
        }));
        let expected = ["dns-resolver", "eth1", "route to 0.0.0.0/0"].map(str::to_owned);
        assert_eq!(subjects(&desired), BTreeSet::from(expected));
        assert!(
            subjects(&document(json!({"interfaces": "{{ capture.x.interfaces }}"}))).is_empty()
        );
    }

    #[test]
    fn an_overlap_needs_the_same_part_on_the_same_node() {
        let claims = [
            claim("a", &["eth1"], &["n1", "n2"]),
            claim("b", &["eth1", "eth2"], &["n2"]),
            claim("c", &["eth1"], &["n3"]),
            claim("d", &["eth2"], &["n1"]),
        ];
        let found = overlaps(&claims);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(sentence(&found["a"]).unwrap(), "shares parts of the network with b (eth1)");
    }

    #[test]
    fn a_sentence_does_not_grow_with_the_number_of_policies() {
        let names: Vec<String> = (0..100).map(|number| format!("p{number:02}")).collect();
        let claims: Vec<_> = names.iter().map(|name| claim(name, &["eth1"], &["n1"])).collect();
        let text = sentence(&overlaps(&claims)["p00"]).unwrap();
        assert_eq!(text, "shares parts of the network with p01 (eth1) and p02 (eth1) and 97 more");
    }
}
