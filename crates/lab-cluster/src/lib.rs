//! Nodes and clusters that tests, the demo and the benchmark run on
//!
//! | module | gives |
//! |---|---|
//! | [`node`] | nodes with real NetworkManager and Open vSwitch |
//! | [`kube`] | a real Kubernetes API server, with real controllers on request |
//!
//! Content and registries are in [`lab`]. Everything that runs ends when its value is dropped.

pub mod kube;
pub mod node;
