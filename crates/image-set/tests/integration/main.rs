//! Configurations: reading, findings, writing.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod findings;
mod reading;
mod real_configurations;
mod round_trip;
