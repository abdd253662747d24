//! Changes of br-ex on running nodes.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod day2;
mod golden_differences;
