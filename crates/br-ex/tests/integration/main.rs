//! Rules, topologies and changes of br-ex documents.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod automatic;
mod day2;
mod golden_differences;
mod real_documents;
mod real_policies;
mod real_states;
mod rules;
mod schema;
mod topologies;
