//! Runs the program on nodes and checks its units.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod machine;
mod nodes;
mod samples;
mod uml;
mod units;
