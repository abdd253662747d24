//! `nmstate-operator operator` with its own rights, on a real API server with OpenShift's CRDs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

#[path = "operator/br_ex.rs"]
mod br_ex;
#[path = "operator/cluster.rs"]
mod cluster;
#[path = "operator/journey.rs"]
mod journey;
#[path = "operator/on_a_node.rs"]
mod on_a_node;
#[path = "operator/take_over.rs"]
mod take_over;
