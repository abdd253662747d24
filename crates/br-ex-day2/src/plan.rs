//! A change of br-ex as a whole: its classes, its order, its policies, and how to revert it.

use std::collections::BTreeSet;

use br_ex::hosts::Reader;
use br_ex::{ClusterFacts, Document, Finding, RuleId, Severity};
use nmstate::{InterfaceType, NetworkState};
use serde_json::{Value, json};

use crate::adopt::name_tables;
use crate::class::{Class, Classified, Context};
use crate::cross_check::{names, really_new};
use crate::difference::{Difference, Subject, differences};
use crate::masquerade::Masquerade;
use crate::policy::{Nodes, Policy};
use crate::state::{Basis, State, StateError};
use crate::steps::{Step, steps};

/// What is known beside the two states.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    pub nodes: Nodes,
    pub masquerade: Masquerade,
    pub cluster_mtu: Option<u32>,
    /// Where the policy will be written, for the commands.
    pub file: String,
    /// What applies the first-boot documents of these nodes.
    pub reader: Reader,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(
        "the new document leaves choices to the node; a policy for it is made of what the node chose: see `oc-brex adopt`"
    )]
    Policy,
    #[error("nmstate does not read the new document")]
    Unread,
    #[error(transparent)]
    State(#[from] StateError),
}

/// What to do, and its effects.
#[derive(Debug, Clone)]
pub struct Plan {
    pub changes: Vec<Classified>,
    /// Mistakes in the new document. With any the change is forbidden.
    pub objections: Vec<Finding>,
    /// What nmstate reports beyond our own comparison, in sentences.
    pub unforeseen: Vec<String>,
    /// What the policy cannot do by leaving it out.
    pub leftovers: Vec<String>,
    pub steps: Vec<Step>,
    /// None when there is nothing to do, or nothing that may be done.
    pub policy: Option<Policy>,
    /// The policy that undoes it.
    pub way_back: Option<Policy>,
}

impl Plan {
    /// The class of the change as a whole: that of its worst part.
    pub fn class(&self) -> Option<Class> {
        match self.objections.is_empty() {
            true => self.changes.iter().map(|change| change.class).max(),
            false => Some(Class::Forbidden),
        }
    }

    /// The classes that require more than a policy beside the worst one, each with its own steps.
    pub fn further_classes(&self) -> Vec<Class> {
        let worst = self.class();
        let classes: BTreeSet<Class> = self.changes.iter().map(|change| change.class).collect();
        let further = |class: &Class| Some(*class) != worst && *class >= Class::ClusterProcedure;
        classes.into_iter().filter(further).collect()
    }
}

/// Plans the change from `old` to the document `new`.
pub fn plan(old: &State, new: &Document, options: &PlanOptions) -> Result<Plan, PlanError> {
    let desired = match (new.state(), new.content()) {
        (Some(state), _) => state,
        (None, Some(_)) => return Err(PlanError::Policy),
        (None, None) => return Err(PlanError::Unread),
    };
    let target = State::new(desired, Basis::Document)?;
    let context = Context::new(old, &target, options.cluster_mtu);
    let changes: Vec<Classified> =
        differences(old, &target).into_iter().map(|it| context.classify(it)).collect();
    let node = new.state_node().map(located_yaml::Node::to_json).unwrap_or_default();
    let (wanted, leftovers) = with_removals(node, &changes);
    let policy = Policy::new(options.nodes.clone(), wanted, &options.masquerade);
    let mut plan = Plan {
        objections: objections(new, old, options),
        unforeseen: unforeseen(old, &target, &policy, &changes),
        leftovers: Vec::new(),
        changes,
        steps: Vec::new(),
        policy: None,
        way_back: None,
    };
    if matches!(plan.class(), None | Some(Class::Forbidden)) {
        return Ok(plan);
    }
    plan.leftovers = leftovers;
    plan.steps = steps(&plan.changes, &policy, &options.file, options.reader);
    plan.way_back = way_back(old, &target, &policy, options);
    plan.policy = Some(policy);
    Ok(plan)
}

/// Errors of the new document, checked on the node when its state is known.
fn objections(new: &Document, old: &State, options: &PlanOptions) -> Vec<Finding> {
    let current = (old.basis == Basis::Node).then(|| old.network.clone());
    let around =
        ClusterFacts { cluster_mtu: options.cluster_mtu, current, ..ClusterFacts::default() };
    let findings = br_ex::check(new, &around).into_iter();
    findings
        .filter(|finding| finding.severity == Severity::Error)
        // The class of an MTU reports the same, and more.
        .filter(|finding| finding.rule != RuleId::B16)
        .collect()
}

/// Interfaces and sections that nmstate would change and our comparison did not see.
fn unforeseen(old: &State, new: &State, policy: &Policy, changes: &[Classified]) -> Vec<String> {
    let compared = match old.basis {
        Basis::Node => {
            let mut wanted = policy.desired.clone();
            name_tables(&mut wanted);
            match NetworkState::new_from_json(&wanted.to_string()) {
                Ok(wanted) => really_new(&wanted, &old.network),
                Err(error) => Err(error.msg().to_owned()),
            }
        }
        // Documents do not contain MAC addresses, without which nmstate compares nothing that
        // copies one. Our own comparison has that field. NICs exist before a document mentions
        // them.
        Basis::Document => {
            let before = with_nics_of(&new.network, &without_copied_macs(&old.network));
            really_new(&without_copied_macs(&new.network), &before)
        }
    };
    let left = match compared {
        Ok(left) => left,
        Err(why) => return vec![format!("nmstate cannot compare the two: {why}")],
    };
    let seen = |name: &String| {
        changes.iter().any(|change| match &change.difference.subject {
            Subject::Interface { name: of, .. } => of == name,
            Subject::Route(_) => name == "routes",
            Subject::Dns => name == "dns-resolver",
            Subject::Section(section) => section == name,
        })
    };
    let more = names(&left).into_iter().filter(|name| !seen(name));
    more.map(|name| format!("nmstate would change more: {name}")).collect()
}

/// A state that also has the NICs that another one names.
fn with_nics_of(other: &NetworkState, network: &NetworkState) -> NetworkState {
    let mut network = network.clone();
    for nic in other.interfaces.iter().filter(|it| it.iface_type() == InterfaceType::Ethernet) {
        if network.interfaces.iter().any(|it| it.name() == nic.name()) {
            continue;
        }
        let known = json!({"name": nic.name(), "type": "ethernet", "state": "up"});
        network.append_interface_data(serde_json::from_value(known).unwrap_or_default());
    }
    network
}

/// The desired state with what must go named as absent: a policy leaves alone what it does not
/// mention. What cannot be expressed that way is returned as text.
fn with_removals(mut desired: Value, changes: &[Classified]) -> (Value, Vec<String>) {
    let mut leftovers = Vec::new();
    let mut absent_interfaces = Vec::new();
    let mut absent_routes = Vec::new();
    for Difference { subject, field, new, .. } in changes.iter().map(|change| &change.difference) {
        if new.is_some() {
            continue;
        }
        match (subject, field.as_slice()) {
            (Subject::Interface { name, kind }, []) if kind == "ethernet" => leftovers.push(
                format!("NIC {name} is no longer mentioned and stays as it is; describe its intended state"),
            ),
            (Subject::Interface { name, kind }, []) => {
                absent_interfaces.push(json!({"name": name, "type": kind, "state": "absent"}));
            }
            (Subject::Route(route), []) => {
                let mut route = route.to_json();
                route.insert("state".to_owned(), json!("absent"));
                absent_routes.push(Value::Object(route));
            }
            (Subject::Dns, _) => {
                let config = &mut desired["dns-resolver"]["config"];
                for key in field {
                    config[key.as_str()] = json!([]);
                }
            }
            // Lists are given whole, so that what is missing in them goes.
            (_, [.., list, _]) if matches!(list.as_str(), "address" | "port" | "ports") => {}
            (subject, field) => leftovers.push(format!(
                "{subject}: {} is no longer mentioned and stays as it is; write the value it is to have",
                field.join("."),
            )),
        }
    }
    extend(&mut desired["interfaces"], absent_interfaces);
    if !absent_routes.is_empty() {
        extend(&mut desired["routes"]["config"], absent_routes);
    }
    (desired, leftovers)
}

fn extend(list: &mut Value, items: Vec<Value>) {
    if !list.is_array() && !items.is_empty() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.extend(items);
    }
}

fn without_copied_macs(network: &NetworkState) -> NetworkState {
    let mut value = serde_json::to_value(network).unwrap_or_default();
    let interfaces = value.get_mut("interfaces").and_then(Value::as_array_mut);
    for interface in interfaces.into_iter().flatten().filter_map(Value::as_object_mut) {
        interface.remove("copy-mac-from");
    }
    NetworkState::new_from_json(&value.to_string()).unwrap_or_default()
}

fn is_removed(route: &Value) -> bool {
    route.get("state").and_then(Value::as_str) == Some("absent")
}

/// The policy that makes the old state again. From a node's state nmstate calculates it; of an old
/// document it is the change to that.
fn way_back(old: &State, new: &State, policy: &Policy, options: &PlanOptions) -> Option<Policy> {
    let desired = match old.basis {
        Basis::Node => {
            let wanted = NetworkState::new_from_json(&policy.desired.to_string()).ok()?;
            let revert = network_revert::revert(&wanted, &old.network).ok()?;
            let mut desired = serde_json::to_value(revert).ok()?;
            // nmstate takes a route for another one when only one side names its table, and would
            // have it removed that was there before.
            if let Some(routes) =
                desired.pointer_mut("/routes/config").and_then(Value::as_array_mut)
            {
                routes.retain(|route| !is_removed(route) || !old.has_route(route));
            }
            if desired.get("interfaces").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                desired.as_object_mut()?.remove("interfaces");
            }
            desired
        }
        Basis::Document => {
            let context = Context::new(new, old, options.cluster_mtu);
            let changes: Vec<Classified> =
                differences(new, old).into_iter().map(|it| context.classify(it)).collect();
            with_removals(serde_json::to_value(&old.network).ok()?, &changes).0
        }
    };
    let mut policy = Policy::new(options.nodes.clone(), desired, &options.masquerade);
    policy.name = format!("{}-back", policy.name);
    Some(policy)
}
