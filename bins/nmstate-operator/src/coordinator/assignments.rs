//! The assignment of policies to each node, and the values that policies take from ConfigMaps.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use nmstate_api::annotations::PolicyOptions;
use nmstate_api::{Assignments, NetworkDocument, NodeValues, PolicyNews, RevertSlots};
use node_policy::node_values::{self, Found};
use node_policy::policy_status::PolicyNodes;

use super::view::View;

/// Problems that a message names.
const MOST_PROBLEMS: usize = 3;

/// The values of nodes in one ConfigMap.
pub(super) type ValueTable = BTreeMap<String, Result<NodeValues, String>>;

/// Reads a ConfigMap. One without values of nodes is kept as well; no policy refers to it.
pub(super) fn table(map: ConfigMap) -> ValueTable {
    let read = |text: &str| NodeValues::parse(text).map_err(|error| error.to_string());
    let data = map.data.unwrap_or_default();
    data.into_iter().map(|(node, text)| (node, read(&text))).collect()
}

/// What the nodes of a policy get from its ConfigMap.
#[derive(Debug, Clone, Default)]
pub(super) struct Values<'a> {
    /// The name of the ConfigMap, and its content if it exists.
    from: Option<(&'a str, Option<&'a ValueTable>)>,
}

impl<'a> Values<'a> {
    pub(super) fn new(
        options: Option<&'a PolicyOptions>,
        tables: impl Fn(&str) -> Option<&'a ValueTable>,
    ) -> Self {
        let name = options.and_then(|options| options.node_values.as_deref());
        Self { from: name.map(|name| (name, tables(name))) }
    }

    fn found(&self, node: &str) -> Found {
        let (_, table) = self.from?;
        table?.get(node).cloned()
    }

    /// The values of a node, if they are valid.
    pub(super) fn of(&self, node: &str) -> Option<NodeValues> {
        self.found(node)?.ok()
    }

    /// Why no node can be changed, if there is a reason.
    pub(super) fn problem<'b>(
        &self,
        desired: &NetworkDocument,
        nodes: impl Iterator<Item = &'b str>,
    ) -> Option<String> {
        let (name, table) = self.from?;
        if table.is_none() {
            return Some(format!("ConfigMap {name} not found in the namespace of the operator"));
        }
        let nodes = nodes.map(|node| (node, self.found(node))).collect();
        let problems = node_values::problems(desired, &nodes);
        let first: Vec<String> =
            problems.iter().take(MOST_PROBLEMS).map(ToString::to_string).collect();
        let more = match problems.len().saturating_sub(MOST_PROBLEMS) {
            0 => String::new(),
            1 => "; and 1 more problem".to_owned(),
            more => format!("; and {more} more problems"),
        };
        let text = || format!("ConfigMap {name}: {}{more}", first.join("; "));
        (!first.is_empty()).then(text)
    }
}

/// Nodes whose assignment of policies has changed, with the text of the annotation.
pub(super) fn news(
    view: &View,
    nodes_by_policy: &BTreeMap<String, PolicyNodes>,
    reverts: &RevertSlots,
) -> Vec<(String, String)> {
    let mut wanted: BTreeMap<&str, Assignments> =
        view.reporters().map(|(node, _)| (node, Assignments::default())).collect();
    for (name, facts) in view.policies() {
        let Some(policy_nodes) = nodes_by_policy.get(name) else { continue };
        let news = PolicyNews::of(&facts.policy);
        for node in policy_nodes.nodes.keys().chain(policy_nodes.leaving.keys()) {
            let Some(wanted) = wanted.get_mut(node.as_str()) else { continue };
            wanted.insert(name, news.for_node(node, policy_nodes.values.get(node).cloned()));
        }
    }
    for (policy, slots) in reverts.iter() {
        for slot in slots {
            if let Some(wanted) = wanted.get_mut(slot.node.as_str()) {
                wanted.set_revert(policy, slot.expires.0.as_second());
            }
        }
    }
    let is_news = |(node, assigned): (&str, &Option<Assignments>)| {
        let wanted = &wanted[node];
        let is_current = assigned.as_ref().is_some_and(|assigned| assigned.cover(wanted));
        (!is_current).then(|| Some((node.to_owned(), wanted.to_text().ok()?))).flatten()
    };
    view.reporters().filter_map(is_news).collect()
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use nmstate_api::ASSIGNED_POLICIES;
    use serde_json::{Value, json};

    use super::super::view::News;
    use super::*;

    fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn report(node: &str, assigned: Option<&str>) -> News {
        let annotations = assigned.map(|assigned| json!({ASSIGNED_POLICIES: assigned}));
        News::Report(Event::Apply(of(json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": node, "annotations": annotations},
        }))))
    }

    fn policy(name: &str, generation: i64, node: &str, annotations: &Value) -> News {
        let address = json!([{"ip": "{{ values.ip }}", "prefix-length": 24}]);
        News::Policy(Event::Apply(of(json!({
            "metadata": {"name": name, "generation": generation, "annotations": annotations},
            "spec": {
                "nodeSelector": {"zone": node},
                "desiredState": {"interfaces": [{"name": "e", "ipv4": {"address": address}}]},
            },
        }))))
    }

    fn values(data: &Value) -> News {
        News::Values(Event::Apply(of(json!({"metadata": {"name": "m"}, "data": data}))))
    }

    /// Nodes a and b in a zone of their own name, and c in the zone of a.
    fn seen() -> View {
        let mut view = View::default();
        for (name, zone) in [("a", "a"), ("b", "b"), ("c", "a")] {
            let labels = json!({"zone": zone});
            let node = of(json!({"metadata": {"name": name, "labels": labels}}));
            view.take(News::Node(Box::new(Event::Apply(node))));
            view.take(report(name, None));
        }
        view
    }

    fn assigned(view: &mut View) -> BTreeMap<String, Vec<String>> {
        let news = news(view, &view.nodes_by_policy(), &RevertSlots::default());
        let names = |text: &str| {
            let assigned = Assignments::parse(text).unwrap();
            assigned.iter().map(|(name, _)| name.to_owned()).collect()
        };
        for (node, text) in &news {
            view.take(report(node, Some(text)));
        }
        news.iter().map(|(node, text)| (node.clone(), names(text))).collect()
    }

    #[test]
    fn each_node_gets_its_own_policies_and_only_changes_are_written() {
        let mut view = seen();
        let empty: Vec<String> = Vec::new();
        let all = ["a", "b", "c"].map(|node| (node.to_owned(), empty.clone()));
        assert_eq!(assigned(&mut view), all.into(), "also that there are none");
        view.take(policy("p", 1, "a", &json!({})));
        let p = vec!["p".to_owned()];
        assert_eq!(assigned(&mut view), [("a".into(), p.clone()), ("c".into(), p)].into());
        assert_eq!(assigned(&mut view), BTreeMap::new());
        view.take(policy("q", 1, "b", &json!({})));
        assert_eq!(assigned(&mut view), [("b".into(), vec!["q".to_owned()])].into());
        view.take(policy("p", 2, "b", &json!({})));
        let both = vec!["p".to_owned(), "q".to_owned()];
        let expected = [("a".into(), empty.clone()), ("b".into(), both), ("c".into(), empty)];
        assert_eq!(assigned(&mut view), expected.into());
    }

    #[test]
    fn a_node_that_may_revert_a_deleted_policy_is_informed() {
        let mut view = seen();
        assigned(&mut view);
        let slot: nmstate_api::Slot = of(json!({
            "node": "a", "generation": 0, "expires": "2026-01-01T00:00:00Z", "enactment": "uid",
        }));
        let mut reverts = RevertSlots::default();
        reverts.set("gone", vec![slot]);
        let news = news(&view, &view.nodes_by_policy(), &reverts);
        let [(node, text)] = &news[..] else { panic!("{news:?}") };
        let assigned = Assignments::parse(text).unwrap();
        assert_eq!(node, "a");
        assert!(assigned.get("gone").unwrap().revert.is_some(), "{text}");
    }

    #[test]
    fn values_reach_their_node_and_what_is_wrong_with_them_the_policy() {
        let mut view = seen();
        view.take(policy("p", 1, "a", &json!({"nmstate.landfall.dev/node-values": "m"})));
        let problem =
            |view: &View| view.nodes_by_policy()["p"].values_problem.clone().unwrap_or_default();
        assert!(problem(&view).starts_with("ConfigMap m not found"), "{}", problem(&view));
        view.take(values(&json!({"a": "ip: 192.0.2.1"})));
        assert_eq!(problem(&view), "ConfigMap m: c: there are no values for this node");
        view.take(values(&json!({"a": "ip: 192.0.2.1", "c": "ip: 192.0.2.1"})));
        assert!(problem(&view).contains("a and c would both have"), "{}", problem(&view));
        view.take(values(&json!({"a": "ip: 192.0.2.1", "c": "ip: 192.0.2.2", "x": "-"})));
        assert_eq!(problem(&view), "");
        assert_eq!(assigned(&mut view).len(), 3);
        view.take(values(&json!({"a": "ip: 192.0.2.1", "c": "ip: 192.0.2.3"})));
        let news = news(&view, &view.nodes_by_policy(), &RevertSlots::default());
        let [(node, text)] = &news[..] else { panic!("{news:?}") };
        assert!(node == "c" && text.contains(r#""values":{"ip":"192.0.2.3"}"#), "{node}: {text}");
    }
}
