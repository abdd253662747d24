//! Decisions about node network policies. Pure: values in, values out.
//!
//! ```text
//! handler:      policy + node ──rendering──▶ desired ──agenda──▶ step ──(transaction)──▶ attempt ──verdict──▶ enactment
//! coordinator:  policies + nodes + enactments ──rollout──▶ slots, ──summary──▶ policy status
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`selection`] | which policies are for which nodes |
//! | [`overlap`] | policies that configure the same part of a node |
//! | [`node_values`] | one policy for many nodes with an address each |
//! | [`rendering`] | the desired state of one node, and whether anything differs |
//! | [`warnings`], [`nmstate_messages`] | parts of a desired state that have no effect |
//! | [`bounds`] | limits of sizes |
//! | [`guard`] | changes of br-ex that are refused |
//! | [`agenda`] | what a handler does next |
//! | [`terms`] | which annotations an attempt depends on |
//! | [`verdict`] | what the end of an attempt means |
//! | [`second_chance`] | when a failed policy is retried without a request |
//! | [`secrets`] | what must not be written into logs and conditions |
//! | [`revert`] | how a policy is reverted |
//! | [`drift`] | how often drift is corrected |
//! | [`phase`] | how far a policy is on a node, as conditions and back |
//! | [`limit`], [`rollout`] | which nodes may change now |
//! | [`summary`] | what all nodes together mean for a policy |
//! | [`policy_status`] | the status of a policy: slots, conditions, what makes it unusable |
//! | [`report`] | the network of a node as it is reported |
//! | [`pace`] | a limit on the rate of writes |
//!
//! # Example
//!
//! ```
//! use node_policy::{Evaluation, OwnView, Phase, PolicyView, Step, step};
//!
//! let policy = PolicyView { generation: 1, is_for_us: true, has_slot: true, is_aborted: false };
//! let mut own = OwnView {
//!     has_enactment: true,
//!     phase: Phase::Pending,
//!     generation: Some(1),
//!     evaluation: None,
//!     is_resting: false,
//!     is_outdated: false,
//!     is_stale: false,
//!     may_retry: false,
//!     has_waited: false,
//! };
//! assert_eq!(step(Some(&policy), &own), Step::Evaluate);
//! own.evaluation = Some(Evaluation { generation: 1, differs: true });
//! assert_eq!(step(Some(&policy), &own), Step::Apply);
//! ```

pub mod agenda;
pub mod bounds;
mod comparison;
pub mod drift;
pub mod guard;
pub mod limit;
pub mod nmstate_messages;
pub mod node_values;
pub mod overlap;
pub mod pace;
mod packet_size;
pub mod phase;
pub mod policy_status;
pub mod rendering;
pub mod report;
pub mod revert;
pub mod rollout;
pub mod second_chance;
pub mod secrets;
pub mod selection;
pub mod summary;
pub mod terms;
mod trunk_ports;
pub mod verdict;
pub mod warnings;

pub use agenda::{Evaluation, OwnView, PolicyView, Step, step};
pub use phase::Phase;
pub use rendering::{RenderError, Rendered, differs, render};
pub use verdict::{Attempt, Verdict};
