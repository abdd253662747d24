//! Changes of br-ex on running nodes: their effects, the order of their steps, and the policies that
//! make them. Used on workstations, and by the operator to refuse changes that disconnect a node.
//!
//! ```text
//! old (document or node) ──┐
//!                          ├──▶ differences ──▶ classes ──▶ plan: order, outage, policies
//! new (document) ──────────┘
//! ```
//!
//! # Example
//!
//! ```
//! use br_ex_day2::refusals;
//! use nmstate::NetworkState;
//!
//! let current = NetworkState::new_from_json(r#"{"interfaces": []}"#)?;
//! let desired = NetworkState::new_from_json(r#"{"interfaces": [{"name": "eno2", "type": "ethernet"}]}"#)?;
//! assert!(refusals(&current, &desired, None)?.is_empty(), "br-ex is not changed");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod adopt;
mod class;
mod cross_check;
mod difference;
mod masquerade;
mod migrate;
mod plan;
mod policy;
mod running;
mod stack;
mod state;
mod steps;

pub use adopt::{Adoption, NotAdopted, adopt, adopt_document};
pub use class::{Class, Classified};
pub use difference::{Difference, Subject, differences, is_same_value};
pub use masquerade::Masquerade;
pub use migrate::{MigrateError, Migration, force_reboot, migrate};
pub use plan::{Plan, PlanError, PlanOptions, plan};
pub use policy::{Nodes, Policy, PolicyError};
pub use running::{Refusal, refusals};
pub use state::{Basis, State, StateError};
pub use steps::Step;
