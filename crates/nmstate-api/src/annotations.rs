//! Options beyond the API of kubernetes-nmstate: annotations under one prefix.
//!
//! A value that cannot be honoured is an error, as is an unknown name under the prefix:
//! a policy with a misspelled canary must not roll out without one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU32;

use crate::name::{NameError, NodeName};
use crate::node_expressions::{ExpressionError, NodeExpressions};
use crate::node_values::NodeValues;

/// The prefix of all our annotations.
pub const PREFIX: &str = "nmstate.landfall.dev/";

/// On a policy: what must respond after a change, e.g. `api-server,gateway`.
pub const PROBES: &str = "nmstate.landfall.dev/probes";
/// On a policy: which nodes go first: a number of nodes, or their names.
pub const CANARY: &str = "nmstate.landfall.dev/canary";
/// On a policy: revert the change when the policy is deleted.
pub const REVERT_ON_DELETE: &str = "nmstate.landfall.dev/revert-on-delete";
/// On a policy: what to do when a node's network no longer is what the policy made it.
pub const DRIFT: &str = "nmstate.landfall.dev/drift";
/// On a policy: apply without keeping the change across a reboot of the node. On an `NMState`: the
/// default of all policies that do not have the annotation.
pub const MEMORY_ONLY: &str = "nmstate.landfall.dev/memory-only";
/// On a policy: seconds that the network may take to be good after a change.
pub const PROBE_TIMEOUT: &str = "nmstate.landfall.dev/probe-timeout";
/// On a policy: try again where it failed. A new value is a new request; names of nodes after a space
/// restrict it to these.
pub const RETRY: &str = "nmstate.landfall.dev/retry";
/// On a policy: the name that is resolved to probe name servers after a change.
pub const PROBE_DNS_NAME: &str = "nmstate.landfall.dev/probe-dns-name";
/// On a policy: the address that must respond to a ping after a change, instead of the default
/// gateways.
pub const PROBE_PING_TARGET: &str = "nmstate.landfall.dev/probe-ping-target";
/// On a policy: change no further node.
pub const PAUSED: &str = "nmstate.landfall.dev/paused";
/// On a policy: expressions about labels that a node must meet beside `spec.nodeSelector`, as for
/// `kubectl get nodes -l`.
pub const NODE_EXPRESSIONS: &str = "nmstate.landfall.dev/node-selector";
/// On a policy: the ConfigMap with the values of each node, in the namespace of the operator.
pub const NODE_VALUES: &str = "nmstate.landfall.dev/node-values";
/// On a policy: nodes on which it is reverted and not applied.
pub const REVERTED_NODES: &str = "nmstate.landfall.dev/reverted-nodes";
/// On an `NMState`: deploy nothing.
pub const OFF: &str = "nmstate.landfall.dev/off";
/// On an `NMState`: take over from kubernetes-nmstate.
pub const ADOPT: &str = "nmstate.landfall.dev/adopt";

/// On an `NMState`: make policies of the documents that nodes took at their first boot.
pub const ADOPT_BR_EX: &str = "nmstate.landfall.dev/adopt-br-ex";
/// On a policy: the document that it was made of. For people; it has no effect.
pub const ADOPTED_FROM: &str = "nmstate.landfall.dev/adopted-from";
/// A label, on policies that were made of a node's own document.
pub const ADOPTED: &str = "nmstate.landfall.dev/adopted";

pub(crate) const ON_POLICIES: [&str; 14] = [
    PROBES,
    CANARY,
    REVERT_ON_DELETE,
    DRIFT,
    MEMORY_ONLY,
    PROBE_TIMEOUT,
    PROBE_DNS_NAME,
    PROBE_PING_TARGET,
    RETRY,
    PAUSED,
    NODE_EXPRESSIONS,
    NODE_VALUES,
    REVERTED_NODES,
    ADOPTED_FROM,
];
/// The valid seconds of [`PROBE_TIMEOUT`].
pub const PROBE_TIMEOUTS: std::ops::RangeInclusive<u16> = 1..=600;
pub(crate) const ON_NMSTATES: [&str; 4] = [OFF, ADOPT, ADOPT_BR_EX, MEMORY_ONLY];

/// An annotation that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    #[error("the annotation {PREFIX}{name} is not known here; {hint}", hint = nearest.as_deref().map_or_else(
        || format!("known are {}", known.join(", ")),
        |near| format!("did you mean {near}?"),
    ))]
    Unknown { name: String, nearest: Option<String>, known: Vec<String> },
    #[error("the annotation {annotation} is {value:?}; it must be {allowed}")]
    Value { annotation: &'static str, value: String, allowed: &'static str },
    #[error("the annotation {CANARY} names no node")]
    CanaryNode(#[source] NameError),
    #[error("the annotation {RETRY} names no node")]
    RetryNode(#[source] NameError),
    #[error("the annotation {REVERTED_NODES} names no node")]
    RevertedNode(#[source] NameError),
    #[error("the annotation {NODE_EXPRESSIONS} is not a selector of labels: {0}")]
    NodeExpressions(ExpressionError),
}

/// A probe that must succeed after a change, or the change is rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// The cluster's API server. Always probed.
    ApiServer,
    /// The default gateway.
    Gateway,
    /// A name server.
    Dns,
    /// The condition Ready of the Node.
    NodeReadiness,
}

impl ProbeKind {
    pub const ALL: [Self; 4] = [Self::ApiServer, Self::Gateway, Self::Dns, Self::NodeReadiness];

    /// The name in annotations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "api-server",
            Self::Gateway => "gateway",
            Self::Dns => "dns",
            Self::NodeReadiness => "node-readiness",
        }
    }
}

/// Which probes decide about a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Probes {
    /// The API server, and of the others those that succeeded before the change.
    #[default]
    SucceededBefore,
    /// These, and the API server; a probe that failed before the change fails it as well.
    These(BTreeSet<ProbeKind>),
}

/// Which nodes go first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Canary {
    /// So many, in the order of their names.
    Count(NonZeroU32),
    /// These.
    Nodes(BTreeSet<NodeName>),
}

/// What to do about a node whose network no longer is what the policy made it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Drift {
    /// Nothing.
    #[default]
    Ignore,
    /// Report it.
    Report,
    /// Apply the policy again.
    Enforce,
}

/// Whether a change survives a reboot of its node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Persistence {
    #[default]
    AcrossReboots,
    MemoryOnly,
}

/// Whether a change is reverted when its policy is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDelete {
    #[default]
    LeaveAsIs,
    Revert,
}

/// A request to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Tells requests apart; usually a time.
    pub id: String,
    /// The nodes it is about; all if there are none.
    pub nodes: BTreeSet<NodeName>,
}

/// The options in the annotations of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyOptions {
    pub probes: Probes,
    pub canary: Option<Canary>,
    pub on_delete: OnDelete,
    pub drift: Drift,
    /// The default of the `NMState` without it.
    pub persistence: Option<Persistence>,
    /// In seconds; the handler's own without it.
    pub probe_timeout: Option<u16>,
    /// The name that is resolved to probe name servers; without it, that of the `NMState`.
    pub probe_dns_name: Option<String>,
    /// The address that the gateway probe pings; the default gateways without it.
    pub probe_ping_target: Option<IpAddr>,
    pub retry: Option<Retry>,
    /// Whether no further node is changed.
    pub is_paused: bool,
    pub node_expressions: Option<NodeExpressions>,
    /// The name of the ConfigMap with the values of nodes.
    pub node_values: Option<String>,
    /// Nodes on which it is reverted and not applied.
    pub reverted_nodes: BTreeSet<NodeName>,
    /// The values of one node; not an annotation, see [`Self::with_values`].
    pub values: Option<NodeValues>,
}

/// The options in the annotations of an `NMState`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NMStateOptions {
    pub off: bool,
    pub adopt: bool,
    pub adopt_br_ex: bool,
    /// The default for policies.
    pub memory_only: bool,
}

/// Annotations as objects carry them.
type Annotations = BTreeMap<String, String>;

impl PolicyOptions {
    /// Reads the annotations of a policy. Those without our prefix are not looked at.
    pub fn parse(annotations: Option<&Annotations>) -> Result<Self, AnnotationError> {
        let Some(annotations) = annotations else { return Ok(Self::default()) };
        all_known(annotations, &ON_POLICIES)?;
        Ok(Self {
            probes: annotations
                .get(PROBES)
                .map(|text| probes(text))
                .transpose()?
                .unwrap_or_default(),
            canary: annotations.get(CANARY).map(|text| canary(text)).transpose()?,
            on_delete: if flag(annotations, REVERT_ON_DELETE)? {
                OnDelete::Revert
            } else {
                OnDelete::LeaveAsIs
            },
            drift: annotations.get(DRIFT).map(|text| drift(text)).transpose()?.unwrap_or_default(),
            persistence: match flag(annotations, MEMORY_ONLY)? {
                true => Some(Persistence::MemoryOnly),
                false => annotations.get(MEMORY_ONLY).map(|_| Persistence::AcrossReboots),
            },
            probe_timeout: annotations
                .get(PROBE_TIMEOUT)
                .map(|text| probe_timeout(text))
                .transpose()?,
            probe_dns_name: annotations
                .get(PROBE_DNS_NAME)
                .map(|text| dns_name(text))
                .transpose()?,
            probe_ping_target: annotations
                .get(PROBE_PING_TARGET)
                .map(|text| ping_target(text))
                .transpose()?,
            retry: annotations.get(RETRY).map(|text| retry(text)).transpose()?,
            is_paused: flag(annotations, PAUSED)?,
            node_expressions: annotations
                .get(NODE_EXPRESSIONS)
                .map(|text| NodeExpressions::parse(text))
                .transpose()
                .map_err(AnnotationError::NodeExpressions)?,
            node_values: annotations.get(NODE_VALUES).map(|text| config_map(text)).transpose()?,
            reverted_nodes: annotations
                .get(REVERTED_NODES)
                .map(|text| nodes(text))
                .transpose()
                .map_err(AnnotationError::RevertedNode)?
                .unwrap_or_default(),
            values: None,
        })
    }

    /// The same, completed with the values of a node.
    pub fn with_values(self, values: Option<NodeValues>) -> Self {
        Self { values: values.filter(|_| self.node_values.is_some()), ..self }
    }

    /// Whether it is reverted on a node, rather than applied.
    pub fn is_reverted_on(&self, node: &str) -> bool {
        self.reverted_nodes.iter().any(|it| it.as_str() == node)
    }

    /// Whether a node with these labels is among those that the expressions select.
    pub fn select(&self, labels: &BTreeMap<String, String>) -> bool {
        self.node_expressions.as_ref().is_none_or(|it| it.match_labels(labels))
    }

    /// The options as far as they concern one node.
    pub fn for_node(mut self, node: &str) -> Self {
        let is_concerned = |retry: &Retry| {
            retry.nodes.is_empty() || retry.nodes.iter().any(|it| it.as_str() == node)
        };
        self.retry = self.retry.filter(is_concerned);
        self
    }
}

impl NMStateOptions {
    /// Reads the annotations of an `NMState`. Those without our prefix are not looked at, and those
    /// that are not known have no effect: see [`Self::unknown`].
    pub fn parse(annotations: Option<&Annotations>) -> Result<Self, AnnotationError> {
        let Some(annotations) = annotations else { return Ok(Self::default()) };
        Ok(Self {
            off: flag(annotations, OFF)?,
            adopt: flag(annotations, ADOPT)?,
            adopt_br_ex: flag(annotations, ADOPT_BR_EX)?,
            memory_only: flag(annotations, MEMORY_ONLY)?,
        })
    }

    /// The first annotation that this version does not support. Admission rejects unknown ones, so
    /// another version accepted it. It is not an error: failing would leave a downgrade incomplete,
    /// with the handlers of the newer version.
    pub fn unknown(annotations: Option<&Annotations>) -> Option<AnnotationError> {
        all_known(annotations?, &ON_NMSTATES).err()
    }
}

fn all_known(annotations: &Annotations, known: &[&str]) -> Result<(), AnnotationError> {
    let short = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let unknown =
        annotations.keys().find(|name| name.starts_with(PREFIX) && !known.contains(&name.as_str()));
    let Some(unknown) = unknown else { return Ok(()) };
    let name = short(unknown);
    let nearest = known
        .iter()
        .map(|known| short(known))
        .map(|known| (strsim::damerau_levenshtein(&known, &name), known))
        .min()
        .filter(|(distance, known)| *distance * 2 <= known.len())
        .map(|(_, known)| known);
    Err(AnnotationError::Unknown {
        name,
        nearest,
        known: known.iter().map(|known| short(known)).collect(),
    })
}

fn flag(annotations: &Annotations, annotation: &'static str) -> Result<bool, AnnotationError> {
    match annotations.get(annotation).map(String::as_str) {
        Some("true") => Ok(true),
        None | Some("false") => Ok(false),
        Some(value) => Err(bad(annotation, value, "true or false")),
    }
}

fn probes(text: &str) -> Result<Probes, AnnotationError> {
    let of_name = |name: &str| {
        ProbeKind::ALL.into_iter().find(|kind| kind.name() == name.trim()).ok_or_else(|| {
            let allowed = "a list of api-server, gateway, dns and node-readiness, with commas";
            bad(PROBES, text, allowed)
        })
    };
    Ok(Probes::These(text.split(',').map(of_name).collect::<Result<_, _>>()?))
}

fn canary(text: &str) -> Result<Canary, AnnotationError> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let allowed = "a number of nodes, at least 1, or a list of their names, with commas";
        return text.parse().map(Canary::Count).map_err(|_| bad(CANARY, text, allowed));
    }
    let nodes = text.split(',').map(|name| name.trim().parse());
    Ok(Canary::Nodes(nodes.collect::<Result<_, _>>().map_err(AnnotationError::CanaryNode)?))
}

fn probe_timeout(text: &str) -> Result<u16, AnnotationError> {
    let seconds = text.parse().ok().filter(|seconds| PROBE_TIMEOUTS.contains(seconds));
    seconds.ok_or_else(|| bad(PROBE_TIMEOUT, text, "a number of seconds from 1 to 600"))
}

fn dns_name(text: &str) -> Result<String, AnnotationError> {
    let name: Result<NodeName, _> = text.parse();
    match name {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => Err(bad(PROBE_DNS_NAME, text, "a host name")),
    }
}

fn ping_target(text: &str) -> Result<IpAddr, AnnotationError> {
    text.parse().map_err(|_| bad(PROBE_PING_TARGET, text, "an IP address"))
}

fn config_map(text: &str) -> Result<String, AnnotationError> {
    let name: Result<NodeName, _> = text.parse();
    match name {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => Err(bad(NODE_VALUES, text, "the name of a ConfigMap")),
    }
}

/// Names of nodes, with commas.
fn nodes(text: &str) -> Result<BTreeSet<NodeName>, NameError> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::parse).collect()
}

fn retry(text: &str) -> Result<Retry, AnnotationError> {
    let (id, nodes) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let nodes = self::nodes(nodes).map_err(AnnotationError::RetryNode)?;
    Ok(Retry { id: id.to_owned(), nodes })
}

fn drift(text: &str) -> Result<Drift, AnnotationError> {
    match text {
        "ignore" => Ok(Drift::Ignore),
        "report" => Ok(Drift::Report),
        "enforce" => Ok(Drift::Enforce),
        _ => Err(bad(DRIFT, text, "ignore, report or enforce")),
    }
}

fn bad(annotation: &'static str, value: &str, allowed: &'static str) -> AnnotationError {
    // Annotations may be as long as a quarter of a megabyte; a message may not.
    let value = value.chars().take(80).collect();
    AnnotationError::Value { annotation, value, allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn policy(name: &str, value: &str) -> Result<PolicyOptions, AnnotationError> {
        PolicyOptions::parse(Some(&annotations(&[(name, value), ("example.com/x", "y")])))
    }

    #[test]
    fn the_defaults_are_those_of_kubernetes_nmstate() {
        assert_eq!(PolicyOptions::parse(None), Ok(PolicyOptions::default()));
        assert_eq!(policy("nmstate.io/x", "y"), Ok(PolicyOptions::default()));
    }

    #[test]
    fn each_annotation_is_read() {
        let these = BTreeSet::from([ProbeKind::ApiServer, ProbeKind::Dns]);
        assert_eq!(policy(PROBES, "dns, api-server").unwrap().probes, Probes::These(these));
        let one = Canary::Count(NonZeroU32::MIN);
        assert_eq!(policy(CANARY, "1").unwrap().canary, Some(one));
        let nodes = BTreeSet::from(["a".parse().unwrap(), "b.c".parse().unwrap()]);
        assert_eq!(policy(CANARY, "b.c,a").unwrap().canary, Some(Canary::Nodes(nodes)));
        assert_eq!(policy(REVERT_ON_DELETE, "true").unwrap().on_delete, OnDelete::Revert);
        assert_eq!(policy(DRIFT, "enforce").unwrap().drift, Drift::Enforce);
        let memory_only = |value| policy(MEMORY_ONLY, value).unwrap().persistence;
        assert_eq!(memory_only("true"), Some(Persistence::MemoryOnly));
        assert_eq!(memory_only("false"), Some(Persistence::AcrossReboots));
        assert_eq!(PolicyOptions::default().persistence, None);
        assert!(policy(PAUSED, "true").unwrap().is_paused);
        let named = policy(PROBE_DNS_NAME, "api.example.com").unwrap();
        assert_eq!(named.probe_dns_name.as_deref(), Some("api.example.com"));
        let pinged = policy(PROBE_PING_TARGET, "2001:db8::1").unwrap();
        assert_eq!(pinged.probe_ping_target, Some("2001:db8::1".parse().unwrap()));
        let selected = policy(NODE_EXPRESSIONS, "zone in (a, b), !gpu").unwrap();
        assert!(selected.select(&[("zone".to_owned(), "b".to_owned())].into()));
        assert!(!selected.select(&BTreeMap::new()));
        assert_eq!(policy(PROBE_TIMEOUT, "120").unwrap().probe_timeout, Some(120));
        let values = policy(NODE_VALUES, "storage-addresses").unwrap();
        assert_eq!(values.node_values.as_deref(), Some("storage-addresses"));
        let reverted = policy(REVERTED_NODES, "a,b.c").unwrap();
        assert!(reverted.is_reverted_on("b.c") && !reverted.is_reverted_on("b"));
        let nmstate = NMStateOptions::parse(Some(&annotations(&[
            (OFF, "true"),
            (ADOPT, "false"),
            (ADOPT_BR_EX, "true"),
            (MEMORY_ONLY, "true"),
        ])));
        let expected =
            NMStateOptions { off: true, adopt: false, adopt_br_ex: true, memory_only: true };
        assert_eq!(nmstate, Ok(expected));
    }

    #[test]
    fn an_unsupported_value_is_an_error_that_lists_supported_ones() {
        assert_eq!(
            policy(DRIFT, "warn").unwrap_err().to_string(),
            r#"the annotation nmstate.landfall.dev/drift is "warn"; it must be ignore, report or enforce"#
        );
        for (name, value) in [
            (PROBES, ""),
            (PROBES, "ping"),
            (CANARY, ""),
            (CANARY, "0"),
            (MEMORY_ONLY, "yes"),
            (PROBE_TIMEOUT, "0"),
            (PROBE_TIMEOUT, "601"),
            (PROBE_TIMEOUT, "1m"),
            (RETRY, "2026-01-01T00:00:00Z a_b"),
            (PAUSED, "yes"),
            (PROBE_DNS_NAME, "a b"),
            (PROBE_PING_TARGET, "gateway.example.com"),
            (PROBE_PING_TARGET, "192.0.2.1/24"),
            (NODE_VALUES, ""),
            (NODE_VALUES, "other-namespace/name"),
            (REVERTED_NODES, "a_b"),
            (NODE_EXPRESSIONS, ""),
            (NODE_EXPRESSIONS, "zone in a"),
        ] {
            assert!(policy(name, value).is_err(), "{name}: {value:?}");
        }
    }

    #[test]
    fn a_retry_may_concern_some_nodes_only() {
        let all = policy(RETRY, "2026-01-01T00:00:00Z").unwrap();
        assert!(all.for_node("a").retry.is_some());
        let some = policy(RETRY, "2026-01-01T00:00:00Z a,b").unwrap();
        assert!(some.clone().for_node("a").retry.is_some());
        assert_eq!(some.for_node("c").retry, None);
    }

    #[test]
    fn a_mistyped_name_is_an_error_that_offers_the_nearest() {
        let error = policy("nmstate.landfall.dev/canari", "1").unwrap_err().to_string();
        assert!(error.ends_with("did you mean canary?"), "{error}");
        let error = policy("nmstate.landfall.dev/zzzzzzzz", "1").unwrap_err().to_string();
        assert!(error.contains("known are probes, canary"), "{error}");
    }

    #[test]
    fn an_annotation_of_the_other_kind_is_unknown() {
        assert!(policy(OFF, "true").is_err());
        let requested = annotations(&[(CANARY, "1"), (OFF, "true")]);
        assert!(NMStateOptions::parse(Some(&requested)).unwrap().off);
        let unknown = NMStateOptions::unknown(Some(&requested)).unwrap().to_string();
        assert!(unknown.contains("nmstate.landfall.dev/canary is not known here"), "{unknown}");
        assert_eq!(NMStateOptions::unknown(Some(&annotations(&[(OFF, "true")]))), None);
    }

    #[test]
    fn a_message_is_bounded() {
        let error = policy(DRIFT, &"x".repeat(100_000)).unwrap_err().to_string();
        assert!(error.len() < 300);
    }
}
