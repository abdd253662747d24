//! br-ex as an NMState document: what is required of one, and how to make one.
//!
//! Pure: text and facts go in, findings and documents come out.
//!
//! ```text
//! text ──parse──▶ Document ──check──▶ findings (rule, place, reason, remedy)
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
pub mod day2;
mod document;
pub mod document_schema;
mod finding;
pub mod first_network;
pub mod host_list;
pub mod host_table;
pub mod hosts;
pub mod install_config;
pub mod inventory;
pub mod layout;
pub mod lift;
pub mod node_state;
pub mod picture;
pub mod proposal;
pub mod render;
mod rule;
pub mod scale_out;
mod schema;
pub mod topology;
mod uplink;

pub use check::check;
pub use cluster_facts::{ClusterFacts, NmstateVersion, NotAVersion, Platform, UnknownPlatform};
pub use document::{Content, Document, Form, NODE_POLICY};
pub use finding::Finding;
pub use rule::{RULES, Rule, RuleId, Severity};

/// The name that the cluster network gives to its bridge, and to the port with the node's address.
pub const BRIDGE: &str = "br-ex";
