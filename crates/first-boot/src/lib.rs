//! What a node decides at its first boot, and how it reports that. Pure: files, clocks and
//! NetworkManager are the caller's.
//!
//! ```text
//! documents + machine ──choose──▶ document ──attempt──▶ confirmed or rolled back ──▶ report
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`matching`] | documents that name their machine |
//! | [`choice`] | the one document for this machine |
//! | [`attempt`] | an attempt that is under way, and how often a document was tried |
//! | [`scope`] | what an attempt may change and a rollback restores |
//! | [`profile_keys`] | how profiles of NetworkManager relate to interfaces |
//! | [`report`] | what happened in one boot |
//! | [`summary`] | what is reported to the cluster |
//! | [`event`] | entries of the journal, with fixed message ids |
//! | [`diagnosis`] | what a report means, and what to do |
//! | [`symptom`] | what lines of journals mean |
//!
//! # Example
//!
//! ```
//! use first_boot::{Candidate, Machine, ShortName, choose};
//!
//! let name = ShortName::of("worker-0.example.com");
//! let machine = Machine { name, macs: Default::default(), serial: None };
//! let text = b"interfaces: []\n".to_vec();
//! let documents: Vec<Candidate> = ["cluster.yml", "worker-0.yml"]
//!     .into_iter()
//!     .filter_map(|file| Candidate::new(file, text.clone()))
//!     .collect();
//! let choice = choose(&machine, &documents)?.expect("a document for this machine");
//! assert_eq!(choice.document.file, "worker-0.yml");
//! # Ok::<(), first_boot::ChoiceError>(())
//! ```

pub mod attempt;
pub mod choice;
pub mod diagnosis;
mod document_hash;
pub mod event;
pub mod matching;
pub mod profile_keys;
pub mod report;
pub mod scope;
pub mod summary;
pub mod symptom;

pub use attempt::{Attempt, Tries};
pub use choice::{Candidate, Choice, ChoiceError, choose};
pub use document_hash::DocumentHash;
pub use event::Event;
pub use machine_identity::{Mac, Machine, Serial, ShortName, default_hostname};
pub use profile_keys::ProfileKeys;
pub use report::Report;
pub use scope::{Ownership, Scope};
pub use summary::Summary;
