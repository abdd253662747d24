//! A workspace as a registry.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod hostile;
mod protocol;
mod skopeo;
mod stand;
mod workspace;
