//! One change of a node's network: checkpoint, apply, verify, probe, commit or roll back.
//!
//! ```text
//! state ──facts, probes──▶ observation ──▶ decision ──▶ outcome
//! ```
//!
//! | module | idea | pure |
//! |---|---|---|
//! | [`view`] | routes, name servers and addresses of a state | yes |
//! | [`demand`] | what a document demands of its bridge | yes |
//! | [`facts`] | what must be true of a bridge that connects a node | yes |
//! | [`probe`] | probes that succeed in a working network | yes |
//! | [`transaction`] | the change, against anything that is a [`Network`] | |
//! | [`record`] | how to roll back, on disk before the change starts | |
//! | [`settings`] | settings that neither profiles nor checkpoints contain | yes |
//! | [`recovery`] | finishes a change that was interrupted | |
//! | [`network_manager`] | NetworkManager's checkpoints and profiles | |
//! | [`events`] | signals that the network changed | |
//! | [`Host`] | the network of this machine | |
//!
//! A change is durable: if the program, NetworkManager or the node ends at any moment, the node has
//! its previous network or the confirmed new one after [`recovery::recover`]. Call it when the
//! program starts, and again until it succeeds:
//!
//! ```text
//! let record = RecordFile::new("/var/lib/…/change.json", boot_id);
//! let recovered = recovery::recover(&Host, &record, timing.checkpoint).await?;
//! let transaction = Transaction { label, desired, memory_only, expected, timing, record: &record };
//! let outcome = transaction.run(&Host).await;
//! ```

#[cfg(feature = "tls")]
mod api_trust;
#[cfg(not(feature = "tls"))]
#[path = "no_api_trust.rs"]
mod api_trust;
pub mod demand;
mod dns_query;
mod echo;
pub mod events;
pub mod facts;
mod host;
mod message;
mod neighbour;
pub mod network_manager;
pub mod observe;
mod outcome;
mod persistence;
pub mod probe;
mod reach;
pub mod record;
pub mod recovery;
pub mod settings;
pub mod transaction;
pub mod view;

pub use api_trust::ApiTrust;
#[cfg(feature = "tls")]
pub use api_trust::ApiTrustError;
pub use demand::Demand;
pub use host::Host;
pub use message::Message;
pub use network_manager::Checkpoint;
pub use nmstate::{NetworkState, NmstateError};
pub use observe::{ExpectedNetwork, Observation};
pub use outcome::{Cause, Outcome, Recovery};
pub use record::{Record, RecordFile};
pub use recovery::{Recovered, recover};
pub use transaction::{Network, Timing, Transaction};
