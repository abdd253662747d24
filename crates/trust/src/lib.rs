//! Whether an image may be mirrored: trust policies in the format of containers-policy.json(5), and
//! the signatures they require, of cosign and of GPG keys.
//!
//! Pure: key files are read by the caller, signatures are fetched by the caller. Whatever a policy
//! requires and this crate cannot check rejects the image; no check is ever skipped.
//!
//! # Example
//!
//! ```
//! use oci::ImageRef;
//! use trust::{Name, Policy};
//!
//! let text = r#"{"default": [{"type": "reject"}],
//!     "transports": {"docker": {"quay.io/org": [{"type": "insecureAcceptAnything"}]}}}"#;
//! let policy = Policy::parse(text, |_| unreachable!("the policy names no key file"))?;
//! let image: ImageRef = "quay.io/org/app:v1".parse().unwrap();
//! assert!(!policy.rule(Name::Registry(&image)).reads_signatures());
//! # Ok::<(), trust::PolicyError>(())
//! ```

mod blob_signature;
mod cosign;
mod document;
mod fulcio;
mod identity;
mod key;
mod payload;
mod policy;
mod rekor;
mod requirement;
mod scope;
mod signed_by;

pub use blob_signature::{SigningKey, SigningKeyError, VerifyingKey};
pub use cosign::{Listed, listed};
pub use document::{Mistake, PolicyError};
pub use identity::IdentityError;
pub use key::KeyError;
pub use policy::{Policy, Rule};
pub use requirement::{Presented, Refusal, Signature, Subject};
pub use scope::{Name, ScopeError};
