//! Runs operator, coordinator and handlers against API servers and nodes.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod coverage;
mod gathered;
mod metrics_port;
mod operator;
mod rollout;
mod topologies;
