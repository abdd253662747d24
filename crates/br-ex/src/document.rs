//! A br-ex document: its text as a tree with places, and as nmstate reads it.

use located_yaml::{Entry, Keys, Loaded, Meaning, Node, Position, Problem, Value, load, load_all};
use nmstate::{NetworkPolicy, NetworkState};

use crate::finding::{Finding, Findings};
use crate::layout::Layout;
use crate::rule::RuleId;
use crate::schema;

/// What kind of document it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A network state, as nodes read it at first boot.
    State,
    /// A policy with captures that the node evaluates at first boot.
    Policy,
    /// A NodeNetworkConfigurationPolicy of a running cluster.
    NodePolicy,
    /// The network that a host is installed with. It need not have br-ex.
    Installation,
}

impl Form {
    /// Whether such a document may be about something else than br-ex.
    pub(crate) fn may_lack_br_ex(self) -> bool {
        matches!(self, Self::NodePolicy | Self::Installation)
    }
}

/// The kind of a policy of a running cluster.
pub const NODE_POLICY: &str = "NodeNetworkConfigurationPolicy";

/// The versions of it that clusters serve; the first is for new policies.
const POLICY_VERSIONS: [&str; 2] = ["nmstate.io/v1", "nmstate.io/v1beta1"];

/// The document as nmstate reads it.
#[derive(Debug, Clone)]
pub enum Content {
    State(Box<NetworkState>),
    Policy(Box<NetworkPolicy>),
}

/// A document that was read as far as it could be.
#[derive(Debug, Clone)]
pub struct Document {
    form: Form,
    /// The map with `interfaces`, wherever it is in the text.
    state: Option<Node>,
    /// The map of captures.
    capture: Option<Node>,
    content: Option<Content>,
    findings: Vec<Finding>,
}

/// The keys that a network state may begin with.
const STATE_KEYS: [&str; 8] = [
    "interfaces",
    "routes",
    "route-rules",
    "dns-resolver",
    "hostname",
    "ovs-db",
    "ovn",
    "description",
];

/// No document is larger; whatever is, is something else.
const MAX_SIZE: usize = 1 << 20;

impl Document {
    /// Reads a file. What is wrong with it as a document is among its findings.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut found = Findings::default();
        let fail = |at: Position, message: String| {
            let mut found = Findings::default();
            found.report(RuleId::B34, at, message);
            Self::unread(found)
        };
        if bytes.len() > MAX_SIZE {
            let message = format!("the file has {} bytes, more than any document", bytes.len());
            return fail(Position::START, message);
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let read = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let line = read.matches('\n').count() + 1;
                let column = read.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                return fail(Position { line, column }, "the text is not UTF-8".to_owned());
            }
        };
        let Loaded { root, is_followed, problems } = load(text, Keys::Exact);
        for problem in problems {
            let rule = match problem.value {
                Problem::DuplicateKey { .. } => RuleId::B22,
                _ => RuleId::B34,
            };
            found.report(rule, problem.at, problem.value.to_string());
        }
        if is_followed {
            let message = "a second document follows behind `---`; nodes read one per file";
            found.report(RuleId::B34, Position::START, message);
        }
        match root {
            Some(root) => Self::from_tree(&root, Some(text), found),
            None => Self::unread(found),
        }
    }

    /// Reads a document that is part of another one, such as `networkConfig` of an
    /// install-config.
    pub fn from_node(node: &Node) -> Self {
        // A document may be given as a block of text; its lines are counted from there.
        if let Value::Scalar { text, meaning: Meaning::Text } = &node.value {
            return Self::parse(text.as_bytes());
        }
        Self::from_tree(node, None, Findings::default())
    }

    /// Reads the network that a host is installed with.
    pub fn of_installation(node: &Node) -> Self {
        let document = Self::from_node(node);
        match document.form {
            Form::State => Self { form: Form::Installation, ..document },
            _ => document,
        }
    }

    /// The policies of a text with several objects: documents behind `---`, or items of a list.
    /// Objects of other kinds are left out. `None` when the text is one object, or has no policy.
    pub fn policies(text: &str) -> Option<Vec<Self>> {
        let mut policies = Vec::new();
        let mut objects = 0;
        for Loaded { root, problems, .. } in load_all(text, Keys::Exact) {
            let mut found = Findings::default();
            for problem in problems {
                found.report(RuleId::B34, problem.at, problem.value.to_string());
            }
            let Some(root) = root else {
                objects += 1;
                policies.push(Self::unread(found));
                continue;
            };
            let kind = |node: &Node| node.get("kind").and_then(Node::text).map(str::to_owned);
            let is_list = kind(&root).is_some_and(|kind| kind.ends_with("List"));
            let listed = root.get("items").filter(|_| is_list).map(Node::items);
            for object in listed.unwrap_or(std::slice::from_ref(&root)) {
                objects += 1;
                if kind(object).as_deref() == Some(NODE_POLICY) {
                    policies.push(Self::from_tree(object, None, std::mem::take(&mut found)));
                }
            }
        }
        let has_policy = policies.iter().any(|policy| policy.form == Form::NodePolicy);
        (has_policy && objects > 1).then_some(policies)
    }

    fn from_tree(root: &Node, text: Option<&str>, mut found: Findings) -> Self {
        if root.is_null() {
            found.report(RuleId::B34, root.at, "the file is empty; nodes ignore it");
            return Self::unread(found);
        }
        if !matches!(root.value, Value::Map(_)) {
            let message = format!("expected a map with `interfaces`, found {}", root.shape());
            found.report(RuleId::B34, root.at, message);
            return Self::unread(found);
        }
        let Parts { form, state, capture } = Parts::of(root, &mut found);
        let content = match (&state, form) {
            (Some(state), Form::State | Form::Installation) => {
                schema::read_state(state, text, &mut found)
                    .map(|state| Content::State(Box::new(state)))
            }
            (Some(state), _) => schema::read_policy(state, capture.as_ref(), &mut found),
            (None, _) => None,
        };
        Self { form, state, capture, content, findings: found.into_sorted() }
    }

    fn unread(found: Findings) -> Self {
        let findings = found.into_sorted();
        Self { form: Form::State, state: None, capture: None, content: None, findings }
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// `None` when nmstate would refuse to read it.
    pub fn content(&self) -> Option<&Content> {
        self.content.as_ref()
    }

    /// The state, when nmstate reads it and nothing is left to the node.
    pub fn state(&self) -> Option<&NetworkState> {
        match &self.content {
            Some(Content::State(state)) => Some(state),
            Some(Content::Policy(_)) | None => None,
        }
    }

    /// What it describes; `None` when the text has no map to describe anything.
    pub fn layout(&self) -> Option<Layout<'_>> {
        self.state.as_ref().map(Layout::read)
    }

    /// Problems that are found before any rule is checked.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Where a capture is written.
    pub(crate) fn capture_place(&self, name: &str) -> Position {
        let entry = self.capture.as_ref().and_then(|capture| capture.entry(name));
        entry.map_or(Position::START, |entry| entry.value.at)
    }

    /// All captures as they are written.
    pub(crate) fn captures(&self) -> impl Iterator<Item = &Entry> {
        self.capture.iter().flat_map(Node::entries)
    }

    /// The state's map as it is written, captures and all.
    pub fn state_node(&self) -> Option<&Node> {
        self.state.as_ref()
    }
}

/// The parts of a document, wherever they are.
struct Parts {
    form: Form,
    state: Option<Node>,
    capture: Option<Node>,
}

impl Parts {
    fn of(root: &Node, found: &mut Findings) -> Self {
        let kind = root.get("kind").and_then(Node::text);
        match kind {
            Some(NODE_POLICY) => Self::of_node_policy(root, found),
            Some(kind) => {
                let at = root.entry("kind").map_or(root.at, |entry| entry.at);
                let message = format!("expected an NMState document, found the kind {kind}");
                found.report(RuleId::B34, at, message);
                Self { form: Form::State, state: None, capture: None }
            }
            None => Self::of_file(root, found),
        }
    }

    fn of_file(root: &Node, found: &mut Findings) -> Self {
        let desired = ["desiredState", "desired"].iter().find_map(|key| root.entry(key));
        let capture = root.get("capture").cloned();
        match (desired, capture) {
            (Some(desired), None) => {
                let message = format!(
                    "`{}` without `capture`: this would be a policy that captures nothing; \
                     move what is in it to the top",
                    desired.key
                );
                found.report(RuleId::B34, desired.at, message);
                Self { form: Form::State, state: Some(desired.value.clone()), capture: None }
            }
            (Some(desired), capture) => {
                Self { form: Form::Policy, state: Some(desired.value.clone()), capture }
            }
            (None, Some(capture)) => {
                let message = "`capture` without `desiredState` has no effect";
                found.report(RuleId::B34, capture.at, message);
                Self { form: Form::Policy, state: None, capture: Some(capture) }
            }
            (None, None) => Self { form: Form::State, state: Some(root.clone()), capture: None },
        }
    }

    fn of_node_policy(root: &Node, found: &mut Findings) -> Self {
        check_object(root, found);
        let spec = root.get("spec");
        let capture = spec.and_then(|spec| spec.get("capture")).cloned();
        let state = spec.and_then(|spec| spec.get("desiredState")).cloned();
        let state = state.or_else(|| misplaced(spec?, found)).or_else(|| {
            let outside = ["capture", "desiredState"].into_iter().filter_map(|key| root.entry(key));
            let mut is_outside = false;
            for entry in outside {
                let message = format!("`{}` is not below `spec`, so it is ignored", entry.key);
                found.report(RuleId::B34, entry.at, message);
                is_outside = true;
            }
            if !is_outside {
                let at = root.entry("spec").map_or(root.at, |entry| entry.at);
                found.report(RuleId::B34, at, "the policy has no `spec.desiredState`");
            }
            None
        });
        Self { form: Form::NodePolicy, state, capture }
    }
}

/// What an API server rejects before it reads the policy itself.
fn check_object(root: &Node, found: &mut Findings) {
    let version = root.entry("apiVersion");
    match version.and_then(|entry| entry.value.text()) {
        Some(version) if POLICY_VERSIONS.contains(&version) => {}
        Some(other) => {
            let at = version.map_or(root.at, |entry| entry.value.at);
            let message = format!("expected apiVersion {}, found {other:?}", POLICY_VERSIONS[0]);
            found.report(RuleId::B34, at, message);
        }
        None => {
            let message =
                format!("the policy has no `apiVersion`; expected {}", POLICY_VERSIONS[0]);
            found.report(RuleId::B34, root.at, message);
        }
    }
    let metadata = root.entry("metadata");
    let at = metadata.map_or(root.at, |entry| entry.at);
    let name = metadata.and_then(|entry| entry.value.entry("name"));
    match name.and_then(|entry| entry.value.text()) {
        Some(name) if is_object_name(name) => {}
        Some(other) => {
            let at = name.map_or(at, |entry| entry.value.at);
            let message = format!(
                "expected a name of lower-case letters, digits, `-` and `.`, found {other:?}"
            );
            found.report(RuleId::B34, at, message);
        }
        None => {
            let at = name.map_or(at, |entry| entry.at);
            found.report(RuleId::B34, at, "the policy has no `metadata.name`");
        }
    }
}

/// Whether a cluster accepts this as the name of an object: a DNS subdomain.
fn is_object_name(name: &str) -> bool {
    let is_inner = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// A state that was indented too far, so that it became part of the node selector.
fn misplaced(spec: &Node, found: &mut Findings) -> Option<Node> {
    let selector = spec.get("nodeSelector")?;
    let desired = selector.entry("desiredState")?;
    let message = "`desiredState` is inside `nodeSelector`, so the policy has none; \
                   indent it like `nodeSelector`";
    found.report(RuleId::B34, desired.at, message);
    if !desired.value.is_null() {
        return Some(desired.value.clone());
    }
    // What belongs below it is beside it.
    let is_state = |entry: &&Entry| STATE_KEYS.contains(&entry.key.as_str());
    let entries: Vec<Entry> = selector.entries().iter().filter(is_state).cloned().collect();
    let first = entries.first()?;
    let message = format!("`{}` is beside `desiredState`, not below it; indent it", first.key);
    found.report(RuleId::B34, first.at, message);
    Some(Node { at: desired.value.at, value: Value::Map(entries) })
}
