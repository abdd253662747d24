//! Decisions about node network policies. Values go in, values come out; nobody is asked.
//!
//! ```text
//! handler:      policy + node ──rendering──▶ desired ──agenda──▶ step ──(transaction)──▶ attempt ──verdict──▶ enactment
//! coordinator:  policies + nodes + enactments ──rollout──▶ slots, ──summary──▶ policy status
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`selection`] | which policies are for which nodes |
//! | [`overlap`] | policies that speak of the same part of a node |
//! | [`node_values`] | one policy for many nodes with an address each |
//! | [`rendering`] | what a policy wants of one node, and whether anything differs |
//! | [`bounds`] | how much is too much |
//! | [`guard`] | what must not be done to br-ex |
//! | [`agenda`] | what a handler does next |
//! | [`terms`] | which annotations an attempt depends on |
//! | [`verdict`] | what the end of an attempt means |
//! | [`second_chance`] | when what failed is tried again without a request |
//! | [`secrets`] | what must not be written into logs and conditions |
//! | [`revert`] | how a policy is taken back |
//! | [`drift`] | how often a node is put right |
//! | [`phase`] | how far a policy is on a node, as conditions and back |
//! | [`limit`], [`rollout`] | who may change its network now |
//! | [`summary`] | what all nodes together mean for a policy |
//! | [`report`] | the network of a node as it is reported |
//! | [`pace`] | not more writes than promised |

pub mod agenda;
pub mod bounds;
mod comparison;
pub mod drift;
pub mod guard;
pub mod limit;
pub mod node_values;
pub mod overlap;
pub mod pace;
mod packet_size;
pub mod phase;
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

pub use agenda::{Evaluation, OwnView, PolicyView, Step, step};
pub use phase::Phase;
pub use rendering::{RenderError, Rendered, differs, render};
pub use verdict::{Attempt, Verdict};
