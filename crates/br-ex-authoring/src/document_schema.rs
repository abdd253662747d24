//! The JSON schema of documents, for editors. It is derived from nmstate itself: a value of each kind
//! is put into each field, and the result shows which kinds, fields and words nmstate accepts. So the
//! schema is that of the nmstate that this program is built with.

use std::collections::BTreeMap;

use nmstate::{Interface, NetworkState};
use serde_json::{Map, Value, json};

/// No section is nested deeper; whatever is, is left open.
const MAX_DEPTH: usize = 8;

/// A field that nmstate does not have.
const UNKNOWN: &str = "zzz-unknown";

/// Types of interfaces that nmstate can create or configure.
const TYPES: [&str; 20] = [
    "ethernet",
    "bond",
    "vlan",
    "linux-bridge",
    "ovs-bridge",
    "ovs-interface",
    "vrf",
    "vxlan",
    "dummy",
    "veth",
    "mac-vlan",
    "mac-vtap",
    "infiniband",
    "ipsec",
    "macsec",
    "hsr",
    "loopback",
    "xfrm",
    "ipvlan",
    "ip-tunnel",
];

/// Fields of interfaces. nmstate does not list these when it finds an unknown one, but reports for
/// each whether it is known.
const INTERFACE_KEYS: [&str; 42] = [
    "name",
    "type",
    "state",
    "description",
    "profile-name",
    "identifier",
    "mac-address",
    "permanent-mac-address",
    "pci-address",
    "copy-mac-from",
    "mtu",
    "min-mtu",
    "max-mtu",
    "driver",
    "alt-names",
    "controller",
    "wait-ip",
    "ipv4",
    "ipv6",
    "mptcp",
    "accept-all-mac-addresses",
    "lldp",
    "ethtool",
    "ethernet",
    "veth",
    "link-aggregation",
    "vlan",
    "vxlan",
    "bridge",
    "patch",
    "dpdk",
    "ovs-db",
    "vrf",
    "hsr",
    "infiniband",
    "mac-vlan",
    "mac-vtap",
    "ipvlan",
    "macsec",
    "802.1x",
    "dispatch",
    "libreswan",
];

/// The schema, JSON Schema draft 7.
pub fn schema() -> Value {
    let state = state_schema();
    let contains = |kind: &str| {
        let named = json!({"name": {"const": br_ex::BRIDGE}, "type": {"const": kind}});
        json!({"contains": {"properties": named, "required": ["name", "type"]}})
    };
    let br_ex = json!({
        "properties": {"interfaces": {"allOf": [contains("ovs-bridge"), contains("ovs-interface")]}},
        "required": ["interfaces"],
    });
    let policy = json!({
        "type": "object",
        "properties": {
            "capture": {"type": "object", "additionalProperties": {"type": "string"}},
            "desiredState": {"type": "object"},
            "desired": {"type": "object"},
        },
        "required": ["capture"],
        "additionalProperties": false,
    });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "NMState document with br-ex",
        "description": "A document that a node makes br-ex from at its first boot, or a policy with captures",
        "if": {"required": ["capture"]},
        "then": policy,
        "else": {"allOf": [state, br_ex]},
    })
}

/// What nmstate reads as a state.
fn state_schema() -> Value {
    let read =
        |value: Value| serde_json::from_value::<NetworkState>(value).err().map(|e| e.to_string());
    let place = Slot { read: &read, build: &|value| value };
    let mut properties = Map::new();
    for key in place.fields().unwrap_or_default() {
        let schema = match key.as_str() {
            "interfaces" => json!({"type": "array", "items": interface_schema()}),
            _ => place.inside(&key, |inner| inner.schema(0)),
        };
        properties.insert(key, schema);
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// The fields of interfaces of all types together.
fn interface_schema() -> Value {
    let read =
        |value: Value| serde_json::from_value::<Interface>(value).err().map(|e| e.to_string());
    let mut sections: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for kind in TYPES {
        let build = |value: Value| {
            let mut iface = json!({"name": "eth0", "type": kind});
            if let (Some(iface), Value::Object(more)) = (iface.as_object_mut(), value) {
                iface.extend(more);
            }
            iface
        };
        let place = Slot { read: &read, build: &build };
        for key in INTERFACE_KEYS.into_iter().filter(|key| place.has(key)) {
            // The section `bridge` is another one for each type of bridge.
            let forms: &mut Vec<Value> = sections.entry(key).or_default();
            let schema = place.inside(key, |inner| inner.schema(0));
            if !forms.contains(&schema) {
                forms.push(schema);
            }
        }
    }
    let any = |(key, forms): (&str, Vec<Value>)| (key.to_owned(), one_of(forms));
    let mut properties: Map<String, Value> = sections.into_iter().map(any).collect();
    properties.insert("type".to_owned(), json!({"enum": TYPES}));
    properties.insert("name".to_owned(), json!({"type": "string"}));
    json!({
        "type": "object",
        "properties": properties,
        "required": ["name"],
        "additionalProperties": false,
    })
}

/// A location in a document that values are put into.
struct Slot<'p> {
    /// The error of nmstate for a whole document; none if it accepts it.
    read: &'p dyn Fn(Value) -> Option<String>,
    /// The document with a value at this location.
    build: &'p dyn Fn(Value) -> Value,
}

impl Slot<'_> {
    fn error(&self, value: Value) -> Option<String> {
        (self.read)((self.build)(value))
    }

    fn inside<T>(&self, key: &str, use_it: impl FnOnce(&Slot<'_>) -> T) -> T {
        let build = |value: Value| (self.build)(json!({ key: value }));
        use_it(&Slot { read: self.read, build: &build })
    }

    fn in_list<T>(&self, use_it: impl FnOnce(&Slot<'_>) -> T) -> T {
        let build = |value: Value| (self.build)(json!([value]));
        use_it(&Slot { read: self.read, build: &build })
    }

    /// The fields of a map at this location; `None` if any are accepted, or no map is.
    fn fields(&self) -> Option<Vec<String>> {
        let error = self.error(json!({ UNKNOWN: 1 }))?;
        let expected = error.strip_prefix(&format!("unknown field `{UNKNOWN}`, "))?;
        Some(quoted(expected))
    }

    /// Whether there is a field of this name.
    fn has(&self, key: &str) -> bool {
        let error = self.error(json!({ key: {} }));
        error.is_none_or(|error| !error.contains(&format!("unknown field `{key}`")))
    }

    /// Whether values of this kind are taken, if not this one.
    fn takes(&self, value: Value, kind: &str) -> bool {
        let error = self.error(value);
        error.is_none_or(|error| !error.contains(&format!("invalid type: {kind}")))
    }

    fn schema(&self, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return json!({});
        }
        let mut forms: Vec<Value> = Vec::new();
        if self.takes(json!(true), "boolean") {
            forms.push(json!({"type": "boolean"}));
        }
        if self.takes(json!(1), "integer") {
            forms.push(json!({"type": "integer"}));
        }
        if self.takes(json!("zzz"), "string") {
            forms.push(self.text());
        }
        // Where fields have names, a list of their values is accepted, too, but not used in practice.
        if self.fields().is_none() && self.takes(json!([]), "sequence") {
            forms.push(
                json!({"type": "array", "items": self.in_list(|item| item.schema(depth + 1))}),
            );
        }
        if self.takes(json!({}), "map") {
            forms.push(self.map(depth));
        }
        one_of(forms)
    }

    fn text(&self) -> Value {
        let error = self.error(json!("zzz")).unwrap_or_default();
        match error.strip_prefix("unknown variant `zzz`, ") {
            Some(expected) => json!({"enum": quoted(expected)}),
            None => json!({"type": "string"}),
        }
    }

    fn map(&self, depth: usize) -> Value {
        let Some(fields) = self.fields() else { return json!({"type": "object"}) };
        let properties: Map<String, Value> = fields
            .into_iter()
            .map(|key| {
                let schema = self.inside(&key, |inner| inner.schema(depth + 1));
                (key, schema)
            })
            .collect();
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }
}

fn one_of(mut forms: Vec<Value>) -> Value {
    match forms.len() {
        // nmstate accepts no value of the tested kinds: nothing is known.
        0 => json!({}),
        1 => forms.remove(0),
        _ => json!({ "anyOf": forms }),
    }
}

/// The words in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
