//! Nodes and clusters that other tests run on.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod kube;
mod machine;
mod node;
mod uml;
