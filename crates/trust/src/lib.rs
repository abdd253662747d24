//! Whether an image may be mirrored: trust policies in the format of
//! containers-policy.json(5), and the cosign signatures they ask for.
//!
//! Pure: key files are read by the caller, signatures are fetched by the
//! caller. Whatever a policy asks for and this crate cannot check refuses the
//! image; no check is ever skipped.

mod cosign;
mod document;
mod identity;
mod key;
mod payload;
mod policy;
mod rekor;
mod requirement;
mod scope;

pub use cosign::{Listed, listed};
pub use document::{Mistake, PolicyError};
pub use identity::IdentityError;
pub use key::KeyError;
pub use policy::{Policy, Rule};
pub use requirement::{Presented, Refusal, Signature, Subject};
pub use scope::{Name, ScopeError};
