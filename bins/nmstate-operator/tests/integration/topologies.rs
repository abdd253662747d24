//! Complete clusters of every topology: real API servers with real controllers, to which the
//! release payload is applied as in a cluster, and whose pods run the real program.
//!
//! Only the tests schedule pods and start their containers: see [`kubelet`].

#![allow(clippy::await_holding_refcell_ref, reason = "each cluster is looked after by one task")]

mod cluster;
mod history;
mod hosted;
mod inventory;
mod kubelet;
mod self_managed;
mod stored;
mod versions;
