//! Documents for topologies and automatic policies, and their schema.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod automatic;
mod real_states;
mod schema;
mod topologies;
