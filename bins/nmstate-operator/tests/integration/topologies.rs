//! Whole clusters of every shape: real API servers with real controllers, to which the release
//! payload is applied as in a cluster, and whose pods run the real program.
//!
//! Nobody but the tests schedules pods and starts what is in them: see [`kubelet`].

#![allow(clippy::await_holding_refcell_ref, reason = "each cluster is looked after by one task")]

mod cluster;
mod history;
mod hosted;
mod inventory;
mod kubelet;
mod self_managed;
mod stored;
mod versions;
