//! Rules, topologies and changes of br-ex documents.

mod automatic;
mod day2;
mod golden_differences;
mod real_documents;
mod real_states;
mod rules;
mod topologies;
