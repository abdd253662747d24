//! Runs operator, coordinator and handlers against API servers and nodes.

mod metrics_port;
mod operator;
mod rollout;
mod topologies;
