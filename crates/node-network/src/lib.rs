//! One change of a node's network: checkpoint, apply, verify, probe, commit or roll back.
//!
//! ```text
//! state ──facts, questions──▶ observation ──▶ decision ──▶ outcome
//! ```
//!
//! | module | idea | pure |
//! |---|---|---|
//! | [`view`] | routes, name servers and addresses of a state | yes |
//! | [`facts`] | what must be true of a bridge that carries a node | yes |
//! | [`probe`] | questions that a working network answers | yes |
//! | [`transaction`] | the change, against anything that is a [`Network`] | |
//! | [`network_manager`] | NetworkManager's checkpoints and profiles | |
//! | [`events`] | signs that the network changed | |
//! | [`Host`] | the network of this machine | |
//!
//! A program that is killed in the middle leaves a checkpoint behind. NetworkManager takes the
//! change back when the checkpoint expires; the next run may do so at once, see
//! [`Transaction::leftover`].

mod dns_query;
pub mod events;
pub mod facts;
mod host;
mod message;
mod neighbour;
pub mod network_manager;
pub mod observe;
mod outcome;
pub mod probe;
mod reach;
pub mod transaction;
pub mod view;

pub use host::Host;
pub use message::Message;
pub use network_manager::Checkpoint;
pub use nmstate::{NetworkState, NmstateError};
pub use observe::{Aim, Observation};
pub use outcome::{Cause, Outcome, Recovery};
pub use transaction::{Network, Timing, Transaction};
