//! `nmstate-operator operator` with its own rights, on a real API server with OpenShift's CRDs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

mod br_ex;
mod cluster;
mod journey;
mod on_a_node;
mod take_over;
