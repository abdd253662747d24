//! What tests run on: registries, nodes, an API server.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod cosign;
mod docker_registry;
mod kube;
mod lab_registry;
mod lab_registry_writes;
mod machine;
mod node;
mod skopeo;
mod slow_link;
mod uml;
