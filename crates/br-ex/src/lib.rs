//! br-ex as an NMState document: its model, and the rules for it. Nodes and workstations use the same
//! rules; `br-ex-authoring` writes documents, `br-ex-day2` changes br-ex on running nodes.
//!
//! Pure: text and facts go in, findings come out.
//!
//! ```text
//! text ──parse──▶ Document ──check──▶ findings (rule, position, reason, remedy)
//! ```
//!
//! # Example
//!
//! ```
//! use br_ex::{Document, Severity, check};
//!
//! let document = Document::parse(b"interfaces:\n- {name: eno1, type: ethernet, state: up}\n");
//! let findings = check(&document, &Default::default());
//! assert!(findings.iter().any(|finding| finding.severity == Severity::Error), "no br-ex");
//! ```

mod check;
mod cluster_facts;
mod current;
pub mod current_address;
mod document;
mod finding;
pub mod hosts;
pub mod layout;
pub mod node_state;
mod rule;
mod schema;
pub mod uplink;

pub use check::check;
pub use cluster_facts::{ClusterFacts, NmstateVersion, NotAVersion, Platform, UnknownPlatform};
pub use diagnostic::Severity;
pub use document::{Content, Document, Form, NODE_POLICY};
pub use finding::Finding;
pub use rule::{RULES, Rule, RuleId};

/// The name that the cluster network gives to its bridge, and to the port with the node's address.
pub const BRIDGE: &str = "br-ex";
