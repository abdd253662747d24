//! The desired state of one node: captures resolved, gaps filled, compared with the current state.

use std::collections::{BTreeMap, HashMap};

use nmstate::{NetworkPolicy, NetworkState, NmstateError};
use nmstate_api::annotations::NODE_VALUES;
use nmstate_api::{CapturedState, MetaInfo, NetworkDocument, NodeValues, PolicySpec};
use serde_json::{Value, json};

use crate::node_values::{self, FillError};
use crate::{bounds, comparison, packet_size, trunk_ports};

/// Why a policy cannot be evaluated on a node.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("reading the policy: {0}")]
    Policy(serde_json::Error),
    #[error(transparent)]
    Values(#[from] FillError),
    #[error(
        "the desired state has places for values of nodes, such as `{{{{ values.ip }}}}`, and the \
         policy has no annotation {NODE_VALUES}"
    )]
    NoValues,
    #[error("evaluating its captures: {}", .0.msg())]
    Captures(NmstateError),
    #[error("filling in what the captures found: {}", .0.msg())]
    Fill(NmstateError),
    #[error("reading the desired state: {0}")]
    Desired(serde_json::Error),
    #[error(
        "{what} would take up to {} MiB on this node, more than the {} MiB that are allowed; \
         use fewer captures, or narrower ones",
        bytes / MIB, bounds::WORK_LIMIT / MIB
    )]
    TooMuch { what: String, bytes: usize },
    #[error(
        "the desired state and what its captures found are {bytes} bytes, more than the {} that a \
         report can hold; divide it among several policies",
        bounds::REPORT_LIMIT
    )]
    TooLarge { bytes: usize },
}

const MIB: usize = 1024 * 1024;

/// The desired state of one node.
#[derive(Debug, Clone)]
pub struct Rendered {
    pub desired: NetworkState,
    /// The same in readable form, without secrets.
    pub document: NetworkDocument,
    /// What the captures found, to be reused: once the policy is applied they may find something
    /// else.
    pub captured: BTreeMap<String, CapturedState>,
}

/// The desired state with the values of the node; captures are not resolved.
pub fn filled(
    spec: &PolicySpec,
    values: Option<&NodeValues>,
) -> Result<NetworkDocument, RenderError> {
    match values {
        Some(values) => Ok(node_values::fill(spec, values)?.desired_state),
        None => Ok(spec.desired_state.clone()),
    }
}

/// Completes a policy with the values of the node, then [`render`]s it.
pub fn render_with(
    spec: &PolicySpec,
    values: Option<&NodeValues>,
    known: &BTreeMap<String, CapturedState>,
    current: &NetworkState,
) -> Result<Rendered, RenderError> {
    match values {
        Some(values) => render(&node_values::fill(spec, values)?, known, current),
        None if node_values::has_places(&spec.desired_state) => Err(RenderError::NoValues),
        None => render(spec, known, current),
    }
}

/// Resolves the captures and fills in missing parts. `known` are captures resolved earlier; they
/// are used as long as the expressions are the same.
pub fn render(
    spec: &PolicySpec,
    known: &BTreeMap<String, CapturedState>,
    current: &NetworkState,
) -> Result<Rendered, RenderError> {
    // Each capture may match everything.
    let work = spec.capture.len().saturating_mul(bounds::size(current));
    bearable(work, || format!("what {} captures find", spec.capture.len()))?;
    let policy = json!({ "capture": spec.capture, "desired": spec.desired_state });
    let policy: NetworkPolicy = serde_json::from_value(policy).map_err(RenderError::Policy)?;
    let version = fingerprint(&spec.capture);
    let found = match reused(spec, known, &version) {
        Some(found) => found,
        None => policy.capture.execute(current).map_err(RenderError::Captures)?,
    };
    let largest = found.values().map(bounds::size).max().unwrap_or_default();
    let places = templates(&spec.desired_state.to_value());
    bearable(places.saturating_mul(largest), || format!("filling in {places} templates"))?;
    let filled = policy.desired.fill_with_captured_data(&found).map_err(RenderError::Fill)?;
    let mut value = serde_json::to_value(&filled).map_err(RenderError::Desired)?;
    trunk_ports::fill(&mut value);
    let desired: NetworkState = serde_json::from_value(value).map_err(RenderError::Desired)?;
    let mut shown = desired.clone();
    shown.hide_secrets();
    let captured = found.into_iter().map(|(name, state)| {
        let meta_info = Some(MetaInfo { version: Some(version.clone()), time: None });
        Ok((name, CapturedState { state: document(&state)?, meta_info }))
    });
    let captured = captured.collect::<Result<_, RenderError>>()?;
    let rendered = Rendered { captured, document: document(&shown)?, desired };
    match rendered.size() {
        bytes if bytes > bounds::REPORT_LIMIT => Err(RenderError::TooLarge { bytes }),
        _ => Ok(rendered),
    }
}

impl Rendered {
    /// Bytes of what is reported of it.
    pub fn size(&self) -> usize {
        bounds::size(&self.document).saturating_add(bounds::size(&self.captured))
    }
}

fn bearable(bytes: usize, what: impl Fn() -> String) -> Result<(), RenderError> {
    match bytes > bounds::WORK_LIMIT {
        true => Err(RenderError::TooMuch { what: what(), bytes }),
        false => Ok(()),
    }
}

/// The number of placeholders of captures.
fn templates(desired: &Value) -> usize {
    match desired {
        Value::String(text) => text.matches("{{").count(),
        Value::Array(list) => list.iter().map(templates).sum(),
        Value::Object(map) => map.values().map(templates).sum(),
        _ => 0,
    }
}

fn document(state: &NetworkState) -> Result<NetworkDocument, RenderError> {
    match serde_json::to_value(state).map_err(RenderError::Desired)? {
        Value::Object(mut map) => {
            // nmstate serializes empty lists that the policy does not have.
            map.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
            Ok(NetworkDocument(map))
        }
        _ => Ok(NetworkDocument::default()),
    }
}

fn reused(
    spec: &PolicySpec,
    known: &BTreeMap<String, CapturedState>,
    version: &str,
) -> Option<HashMap<String, NetworkState>> {
    let mut found = HashMap::new();
    for name in spec.capture.keys() {
        let known = known.get(name)?;
        if known.meta_info.as_ref()?.version.as_deref() != Some(version) {
            return None;
        }
        found.insert(name.clone(), serde_json::from_value(known.state.to_value()).ok()?);
    }
    Some(found)
}

/// Distinguishes expressions from other ones. A node trusts what it wrote itself.
fn fingerprint(capture: &BTreeMap<String, String>) -> String {
    let texts = capture.iter().flat_map(|(name, it)| [name.as_str(), it.as_str()]);
    nmstate_api::fingerprint(texts)
}

/// Whether anything differs, or why the policy cannot be applied to this node.
pub fn differs(desired: &NetworkState, current: &NetworkState) -> Result<bool, String> {
    if *desired == NetworkState::default() {
        return Ok(false);
    }
    if let Some(misfit) = packet_size::misfit(desired, current) {
        return Err(misfit);
    }
    let difference = desired.gen_diff(current).map_err(|error| error.msg().to_owned())?;
    let value = |state: &NetworkState| serde_json::to_value(state).map_err(|it| it.to_string());
    Ok(comparison::is_left(&value(&difference)?, &value(current)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURRENT: &str = "
interfaces:
- {name: eth1, type: ethernet, state: up, mac-address: '52:54:00:00:00:01', mtu: 1500}
- {name: eth2, type: ethernet, state: up, mac-address: '52:54:00:00:00:02', mtu: 1500}
routes:
  running:
  - {destination: 0.0.0.0/0, next-hop-interface: eth1, next-hop-address: 192.0.2.1, table-id: 254, metric: 100}
";

    fn state(yaml: &str) -> NetworkState {
        NetworkState::new_from_yaml(yaml).unwrap()
    }

    fn spec(yaml: &str) -> PolicySpec {
        serde_saphyr::from_str(yaml).unwrap()
    }

    fn capturing() -> PolicySpec {
        spec(
            r#"
capture:
  gateway: routes.running.destination=="0.0.0.0/0"
  uplink: interfaces.name==capture.gateway.routes.running.0.next-hop-interface
desiredState:
  interfaces:
  - name: br1
    type: linux-bridge
    state: up
    bridge:
      port:
      - name: "{{ capture.uplink.interfaces.0.name }}"
"#,
        )
    }

    #[test]
    fn captures_are_resolved_on_the_node_and_ports_filled_in() {
        let rendered = render(&capturing(), &BTreeMap::new(), &state(CURRENT)).unwrap();
        let port = &rendered.document.to_value()["interfaces"][0]["bridge"]["port"][0];
        assert_eq!(port["name"], "eth1");
        assert_eq!(port["vlan"]["mode"], "trunk");
        assert_eq!(rendered.captured.keys().collect::<Vec<_>>(), ["gateway", "uplink"]);
    }

    #[test]
    fn captures_keep_their_meaning_once_the_network_has_changed() {
        let first = render(&capturing(), &BTreeMap::new(), &state(CURRENT)).unwrap();
        let moved = state(&CURRENT.replace("next-hop-interface: eth1", "next-hop-interface: eth2"));
        let again = render(&capturing(), &first.captured, &moved).unwrap();
        assert_eq!(again.document, first.document);
        let mut edited = capturing();
        edited.capture.insert("more".into(), r#"interfaces.name=="eth2""#.into());
        let again = render(&edited, &first.captured, &moved).unwrap();
        let port = &again.document.to_value()["interfaces"][0]["bridge"]["port"][0];
        assert_eq!(port["name"], "eth2", "other expressions are evaluated again");
    }

    #[test]
    fn values_of_the_node_come_before_captures() {
        let spec = spec(
            "
capture: {uplink: 'interfaces.name==\"eth1\"'}
desiredState:
  interfaces:
  - name: '{{ capture.uplink.interfaces.0.name }}'
    type: ethernet
    state: up
    mtu: '{{ values.mtu }}'
",
        );
        let values = NodeValues::parse("mtu: 1400").unwrap();
        let known = BTreeMap::new();
        let current = state(CURRENT);
        let rendered = render_with(&spec, Some(&values), &known, &current).unwrap();
        let interface = &rendered.document.to_value()["interfaces"][0];
        assert_eq!((&interface["name"], &interface["mtu"]), (&json!("eth1"), &json!(1400)));
        let error = render_with(&spec, None, &known, &current).unwrap_err().to_string();
        assert!(error.contains("`{{ values.ip }}`, and the policy has no annotation"), "{error}");
        let error = render_with(&spec, Some(&NodeValues::default()), &known, &current);
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("value mtu not found for this node"), "{error}");
    }

    #[test]
    fn a_capture_without_a_result_is_reported() {
        let spec = spec(
            r#"
capture: {nobody: 'interfaces.name=="eth9"'}
desiredState:
  interfaces: [{name: "{{ capture.nobody.interfaces.0.name }}", type: ethernet, state: up}]
"#,
        );
        let error = render(&spec, &BTreeMap::new(), &state(CURRENT)).unwrap_err().to_string();
        assert!(
            error == "evaluating its captures: interface with 'name=eth9' not found",
            "{error}"
        );
    }

    fn refusal(spec: &PolicySpec) -> String {
        let rendered = render(spec, &BTreeMap::new(), &state(CURRENT));
        rendered.expect_err("it is not refused").to_string()
    }

    #[test]
    fn fields_that_nmstate_does_not_support_are_rejected_by_name() {
        for (interface, word) in [
            ("{name: eth1, type: ethernet, state: sideways}", "sideways"),
            ("{name: eth1, type: ethernet, state: up, mtuu: 1500}", "mtuu"),
            (
                "{name: eth1, type: ethernet, state: up, ipv4: {enabled: true, adress: []}}",
                "adress",
            ),
        ] {
            let error = refusal(&spec(&format!("desiredState: {{interfaces: [{interface}]}}")));
            assert!(error.contains(word), "{error}");
        }
        let error = refusal(&spec("desiredState: {interface: []}"));
        assert!(error.contains("`interface`"), "{error}");
        // A kind of interface that it does not support is rejected when it is compared.
        let pigeon =
            spec("desiredState: {interfaces: [{name: p0, type: carrier-pigeon, state: up}]}");
        let desired = render(&pigeon, &BTreeMap::new(), &state(CURRENT)).unwrap().desired;
        let error = differs(&desired, &state(CURRENT)).unwrap_err();
        assert!(error.contains("p0"), "{error}");
    }

    /// A node with this many interfaces.
    fn large(interfaces: usize) -> Value {
        let interface = |number| {
            let name = format!("d{number}");
            json!({"name": name, "type": "dummy", "state": "up", "mtu": 1500})
        };
        json!({"interfaces": (0..interfaces).map(interface).collect::<Vec<Value>>()})
    }

    const ALL: &str = r#"interfaces.type=="dummy""#;

    #[test]
    fn captures_and_templates_that_would_take_all_memory_are_refused() {
        let node: NetworkState = serde_json::from_value(large(1000)).unwrap();
        let capture = (0..5000).map(|number| (format!("c{number}"), ALL.to_owned())).collect();
        let mut spec = PolicySpec { capture, ..PolicySpec::default() };
        let error = render(&spec, &BTreeMap::new(), &node).unwrap_err().to_string();
        assert!(error.starts_with("what 5000 captures find would take up to "), "{error}");
        spec.capture = [("all".to_owned(), ALL.to_owned())].into();
        let template = "{{ capture.all.interfaces }}".repeat(5000);
        spec.desired_state.0.insert("hostname".into(), json!({"config": template}));
        let error = render(&spec, &BTreeMap::new(), &node).unwrap_err().to_string();
        assert!(error.starts_with("filling in 5000 templates would take up to "), "{error}");
    }

    #[test]
    fn a_desired_state_that_no_report_could_hold_is_refused() {
        let mut spec = PolicySpec::default();
        let description = "x".repeat(bounds::REPORT_LIMIT);
        let interface = json!({"name": "d0", "type": "dummy", "description": description});
        spec.desired_state.0.insert("interfaces".into(), json!([interface]));
        let error = refusal(&spec);
        assert!(error.contains("divide it among several policies"), "{error}");
    }

    #[test]
    fn a_thousand_interfaces_are_rendered_and_compared() {
        let mut spec = PolicySpec::default();
        spec.desired_state.0.insert("interfaces".into(), large(1000)["interfaces"].clone());
        let rendered = render(&spec, &BTreeMap::new(), &state(CURRENT)).unwrap();
        assert_eq!(differs(&rendered.desired, &state(CURRENT)), Ok(true));
        let there: NetworkState = serde_json::from_value(large(1000)).unwrap();
        assert_eq!(differs(&rendered.desired, &there), Ok(false));
    }

    #[test]
    fn names_with_odd_characters_are_names() {
        for name in ["eth0.100", "br-ex", "eth\u{e4}", "a b", "../../etc", "x\u{1b}[31m"] {
            let mut spec = PolicySpec::default();
            let interface = json!({"name": name, "type": "dummy", "state": "up"});
            spec.desired_state.0.insert("interfaces".into(), json!([interface]));
            let rendered = render(&spec, &BTreeMap::new(), &state(CURRENT)).unwrap();
            assert_eq!(rendered.document.to_value()["interfaces"][0]["name"], name);
        }
    }

    #[test]
    fn an_explicit_empty_vlan_stays_empty() {
        let spec = spec(
            "desiredState: {interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {port: [{name: eth1, vlan: {}}]}}]}",
        );
        let rendered = render(&spec, &BTreeMap::new(), &state(CURRENT)).unwrap();
        let port = &rendered.document.to_value()["interfaces"][0]["bridge"]["port"][0];
        assert!(port["vlan"].get("trunk-tags").is_none(), "{port}");
    }

    #[test]
    fn secrets_are_not_reported() {
        let spec = spec(
            "desiredState: {interfaces: [{name: eth1, type: ethernet, state: up, 802.1x: {identity: me, eap-methods: [tls], private-key-password: hunter2}}]}",
        );
        let rendered = render(&spec, &BTreeMap::new(), &state(CURRENT)).unwrap();
        let shown = rendered.document.to_value().to_string();
        assert!(!shown.contains("hunter2"), "{shown}");
        let kept = serde_json::to_string(&rendered.desired).unwrap();
        assert!(kept.contains("hunter2"), "the node needs it");
    }

    #[test]
    fn a_bridge_that_is_there_with_all_vlans_is_not_made_again() {
        let spec = spec(
            "desiredState: {interfaces: [{name: br1, type: linux-bridge, state: up, bridge: {port: [{name: eth1}]}}]}",
        );
        let bridge = "- {name: br1, type: linux-bridge, state: up, bridge: {port: [{name: eth1, vlan: \
                      {enable-native: false, mode: trunk, trunk-tags: [{id-range: {min: 2, max: 4094}}]}}]}}";
        let there = state(&CURRENT.replace("interfaces:\n", &format!("interfaces:\n{bridge}\n")));
        let desired = render(&spec, &BTreeMap::new(), &there).unwrap().desired;
        assert_eq!(differs(&desired, &there), Ok(false));
        assert_eq!(differs(&desired, &state(CURRENT)), Ok(true));
    }

    #[test]
    fn what_is_there_already_does_not_differ() {
        let current = state(CURRENT);
        assert_eq!(
            differs(&state("interfaces: [{name: eth1, type: ethernet, mtu: 1500}]"), &current),
            Ok(false)
        );
        assert_eq!(
            differs(&state("interfaces: [{name: eth1, type: ethernet, mtu: 1400}]"), &current),
            Ok(true)
        );
        assert_eq!(
            differs(&state("interfaces: [{name: d0, type: dummy, state: absent}]"), &current),
            Ok(false)
        );
        assert_eq!(
            differs(&state("interfaces: [{name: d0, type: dummy, state: up}]"), &current),
            Ok(true)
        );
        assert_eq!(differs(&NetworkState::default(), &current), Ok(false));
    }
}
