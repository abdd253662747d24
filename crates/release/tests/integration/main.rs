//! Update graphs and signatures.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod data;
mod generated;
mod signatures;
