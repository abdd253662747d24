//! What nmstate-operator puts into a cluster, and when.
//!
//! - [`payload`]: the files of the release payload.
//! - [`operand`]: what the operator deploys when policies are wanted.
//!
//! Objects as values. Nothing here performs I/O.

pub mod names;
pub mod operand;
pub mod payload;
pub mod yaml;
