//! What nmstate-operator puts into a cluster, and when.
//!
//! - [`payload`]: the files of the release payload.
//! - [`operand`]: what the operator deploys when policies are wanted.
//! - [`decide`]: whether they are, and what the cluster is told.
//! - [`adoption`]: day-1 documents of br-ex as policies.
//! - [`handover`]: who serves the API where kubernetes-nmstate is, too.
//! - [`tls_profile`]: under which terms metrics are served.
//!
//! Objects as values. Nothing here performs I/O.

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
