//! Changing br-ex of nodes that run: what a change means, in which order it is made, and the
//! policies that make it.
//!
//! ```text
//! old (document or node) ──┐
//!                          ├──▶ differences ──▶ classes ──▶ plan: order, outage, policies
//! new (document) ──────────┘
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
pub use difference::{Difference, Subject, differences};
pub use masquerade::Masquerade;
pub use migrate::{MigrateError, Migration, force_reboot, migrate};
pub use plan::{Plan, PlanError, PlanOptions, plan};
pub use policy::{Nodes, Policy, PolicyError};
pub use running::{Refusal, refusals};
pub use state::{Basis, State, StateError};
pub use steps::Step;
