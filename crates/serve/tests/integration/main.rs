//! A workspace as a registry.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod fixture;
mod malicious_clients;
mod protocol;
mod skopeo;
mod workspace;
