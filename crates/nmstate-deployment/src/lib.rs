//! The objects that nmstate-operator creates in a cluster, and when.
//!
//! - [`payload`]: the files of the release payload.
//! - [`operand`]: what the operator deploys when policies are enabled.
//! - [`decide`]: whether they are, and the status that is reported.
//! - [`adoption`]: day-1 documents of br-ex as policies.
//! - [`handover`]: which component serves the API if kubernetes-nmstate is installed, too.
//! - [`tls_profile`]: the TLS profile of the metrics port.
//!
//! Objects as values. Nothing here performs I/O.
//!
//! # Example
//!
//! ```
//! let files = nmstate_deployment::payload::files();
//! let policies = files.iter().find(|file| file.name.contains("crd-nodenetworkconfigurationpolicies"));
//! let text = policies.expect("the CRD of policies").text()?;
//! assert!(text.contains("kind: CustomResourceDefinition"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod adoption;
pub mod cluster_operator;
pub mod decide;
pub mod handover;
pub mod leftovers;
pub mod names;
pub mod operand;
pub mod payload;
pub mod platform;
pub mod rollout;
pub mod tls;
pub mod tls_profile;
pub mod yaml;
