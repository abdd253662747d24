//! What differs between two states: interfaces by name and type, routes by where they lead, lists
//! by what is in them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::address::{is_link_local, is_masquerade, net_of};
use crate::state::{Basis, RouteKey, State, switch, text};

/// What a difference is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Interface {
        name: String,
        kind: String,
    },
    Route(RouteKey),
    Dns,
    /// Another section of the state: `route-rules`, `hostname`, `ovs-db`, `ovn`.
    Section(String),
}

/// One difference. A value is absent where there is none on that side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub subject: Subject,
    /// Names of the fields that lead to it, without dots; none when the whole subject is new or
    /// removed.
    pub field: Vec<String>,
    pub old: Option<Value>,
    pub new: Option<Value>,
}

/// Lists whose order means nothing, with the key of their items.
const SETS: [&str; 3] = ["port", "ports", "ports-config"];
/// Fields that a node reports and that cannot be configured, or that only identify something.
const NOT_COMPARED: [&str; 7] = [
    "identifier",
    "min-mtu",
    "max-mtu",
    "permanent-mac-address",
    "driver",
    "accept-all-mac-addresses",
    "wait-ip",
];

pub(super) const EXTRA_PORTS: &str = "allow-extra-patch-ports";

/// All differences, by subject. What a complete state has and a document does not mention stays as
/// it is, so that it is not a difference.
pub fn differences(old: &State, new: &State) -> Vec<Difference> {
    let mut found = Vec::new();
    let is_partial = old.basis == Basis::Node;
    for (key, interface) in &new.interfaces {
        let (name, kind) = key.clone();
        let subject = Subject::Interface { name, kind };
        match old.interfaces.get(key) {
            Some(before) => {
                let mut comparison = Comparison { subject, is_partial, found: &mut found };
                comparison.interfaces(before, interface);
            }
            None => found.push(whole(subject, None, Some(interface))),
        }
    }
    for (key, route) in &new.routes {
        let subject = Subject::Route(key.clone());
        match old.routes.get(key) {
            Some(before) => {
                let mut comparison = Comparison { subject, is_partial, found: &mut found };
                comparison.maps(&[], before, route);
            }
            None => found.push(whole(subject, None, Some(route))),
        }
    }
    if !is_partial || !new.dns.is_empty() {
        let subject = Subject::Dns;
        Comparison { subject, is_partial, found: &mut found }.maps(&[], &old.dns, &new.dns);
    }
    let sections = new.rest.keys().chain(old.rest.keys().filter(|_| !is_partial));
    for section in sections.collect::<BTreeSet<_>>() {
        let empty = Value::Object(Map::new());
        let (before, after) = (old.rest.get(section), new.rest.get(section));
        let subject = Subject::Section(section.clone());
        Comparison { subject, is_partial, found: &mut found }.values(
            &[],
            before.unwrap_or(&empty),
            after.unwrap_or(&empty),
        );
    }
    if !is_partial {
        for (key, interface) in
            old.interfaces.iter().filter(|(key, _)| !new.interfaces.contains_key(key))
        {
            let subject = Subject::Interface { name: key.0.clone(), kind: key.1.clone() };
            found.push(whole(subject, Some(interface), None));
        }
    }
    // Routes add up. A new one to the same place takes the place of the former one; the others of
    // a node stay.
    let is_replaced = |key: &RouteKey| {
        let mut fresh = new.routes.keys().filter(|other| !old.routes.contains_key(other));
        fresh.any(|other| key.is_replaced_by(other))
    };
    let goes = |key: &RouteKey| !is_partial || is_replaced(key);
    let gone = old.routes.iter().filter(|(key, _)| !new.routes.contains_key(key) && goes(key));
    for (key, route) in gone {
        found.push(whole(Subject::Route(key.clone()), Some(route), None));
    }
    found.sort_by(|a, b| (&a.subject, &a.field).cmp(&(&b.subject, &b.field)));
    found
}

fn whole(
    subject: Subject,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
) -> Difference {
    let value = |map: Option<&Map<String, Value>>| map.cloned().map(Value::Object);
    Difference { subject, field: Vec::new(), old: value(old), new: value(new) }
}

/// A comparison of two versions of one subject.
struct Comparison<'a> {
    subject: Subject,
    is_partial: bool,
    found: &'a mut Vec<Difference>,
}

impl Comparison<'_> {
    fn interfaces(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let mut old = old.clone();
        // Instructions are not part of a node's state: whose address to copy, which ports to allow.
        if self.is_partial {
            old.insert(
                "copy-mac-from".to_owned(),
                new.get("copy-mac-from").cloned().unwrap_or_default(),
            );
            let allowed = new.get("bridge").and_then(|it| it.get(EXTRA_PORTS)).cloned();
            if let (Some(bridge), Some(allowed)) = (old.get_mut("bridge"), allowed) {
                bridge[EXTRA_PORTS] = allowed;
            }
        }
        for family in ["ipv4", "ipv6"] {
            self.addresses(family, &old, new);
        }
        self.maps(&[], &old, new);
    }

    /// Lists of addresses, without those that a node has by itself.
    fn addresses(&mut self, family: &str, old: &Map<String, Value>, new: &Map<String, Value>) {
        let list = |map: &Map<String, Value>| {
            map.get(family).and_then(|it| it.get("address")).and_then(Value::as_array).cloned()
        };
        let is_own = |address: &&Value| {
            net_of(address).is_some_and(|net| !is_link_local(net) && !is_masquerade(net))
        };
        let nets = |list: &[Value]| -> BTreeSet<String> {
            list.iter().filter(is_own).filter_map(net_of).map(|net| net.to_string()).collect()
        };
        let is_leased = ["dhcp", "autoconf"].iter().any(|key| {
            switch(old, family, key) == Some(true) && switch(new, family, key) == Some(true)
        });
        let (Some(after), before) = (list(new).or((!self.is_partial).then(Vec::new)), list(old))
        else {
            return;
        };
        let (before, after) = (nets(&before.unwrap_or_default()), nets(&after));
        let field = |net: &String| vec![family.to_owned(), "address".to_owned(), net.clone()];
        // A lease is not configured.
        let may_be_leased = self.is_partial && is_leased;
        for net in before.difference(&after).filter(|_| !may_be_leased) {
            self.report(field(net), Some(Value::from(net.as_str())), None);
        }
        for net in after.difference(&before) {
            self.report(field(net), None, Some(Value::from(net.as_str())));
        }
    }

    fn maps(&mut self, field: &[String], old: &Map<String, Value>, new: &Map<String, Value>) {
        let keys = new.keys().chain(old.keys().filter(|_| !self.is_partial));
        for key in keys.collect::<BTreeSet<_>>() {
            let is_address = key == "address" && field.len() == 1;
            if is_address || NOT_COMPARED.contains(&key.as_str()) {
                continue;
            }
            let below = [field, std::slice::from_ref(key)].concat();
            match (old.get(key), new.get(key)) {
                (Some(before), Some(after)) => self.values(&below, before, after),
                (before, after) => {
                    // Off is nmstate's default when a document does not mention it.
                    let is_default = |value: &Value| {
                        field.len() == 1
                            && matches!(key.as_str(), "dhcp" | "autoconf")
                            && *value == Value::Bool(false)
                    };
                    let specified = |value: Option<&Value>| {
                        value.filter(|it| !is_unset(it) && !is_default(it)).cloned()
                    };
                    if let (None, None) = (specified(before), specified(after)) {
                        continue;
                    }
                    self.report(below, before.cloned(), after.cloned());
                }
            }
        }
    }

    fn values(&mut self, field: &[String], old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => self.maps(field, old, new),
            (Value::Array(old), Value::Array(new))
                if field.last().is_some_and(|key| SETS.contains(&key.as_str())) =>
            {
                self.ports(field, old, new);
            }
            _ if is_same_value(old, new) => {}
            _ => self.report(field.to_vec(), Some(old.clone()), Some(new.clone())),
        }
    }

    /// Ports by name. A node may have more of them than a document lists: ovnkube's own.
    fn ports(&mut self, field: &[String], old: &[Value], new: &[Value]) {
        fn name(port: &Value) -> String {
            let name = port.as_str().or_else(|| port.get("name")?.as_str());
            name.unwrap_or_default().to_owned()
        }
        for port in new {
            let below = [field, &[name(port)]].concat();
            match old.iter().find(|other| name(other) == name(port)) {
                Some(before) => self.values(&below, before, port),
                None => self.report(below, None, Some(port.clone())),
            }
        }
        for port in old.iter().filter(|port| !new.iter().any(|other| name(other) == name(port))) {
            if !(self.is_partial && name(port).starts_with("patch-")) {
                self.report([field, &[name(port)]].concat(), Some(port.clone()), None);
            }
        }
    }

    fn report(&mut self, field: Vec<String>, old: Option<Value>, new: Option<Value>) {
        self.found.push(Difference { subject: self.subject.clone(), field, old, new });
    }
}

/// Whether two values of NMState mean the same. Numbers and switches may be written as text, and MAC
/// addresses in any case.
pub fn is_same_value(old: &Value, new: &Value) -> bool {
    let plain = |value: &Value| match value {
        Value::String(text) => text.to_ascii_lowercase(),
        other => other.to_string(),
    };
    old == new || plain(old) == plain(new)
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_unset),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

impl Difference {
    /// The field with dots between its names.
    pub fn path(&self) -> String {
        self.field.join(".")
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface { name, kind } => write!(f, "{kind} {name}"),
            Self::Route(route) => write!(f, "{route}"),
            Self::Dns => f.write_str("name servers"),
            Self::Section(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Object(map) if !text(map, "name").is_empty() => text(map, "name").to_owned(),
            other => other.to_string(),
        };
        write!(f, "{}", self.subject)?;
        if self.field.is_empty() {
            return f.write_str(if self.old.is_none() { ": new" } else { ": gone" });
        }
        write!(f, ": {}", self.path())?;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, ": {} → {}", short(old), short(new)),
            (None, Some(_)) if self.field.last().is_some_and(|last| last.contains('/')) => {
                f.write_str(": added")
            }
            (None, Some(new)) => write!(f, ": {} added", short(new)),
            (Some(_), None) => f.write_str(": removed"),
            (None, None) => Ok(()),
        }
    }
}
