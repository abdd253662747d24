//! What tests run on: generated content, registries, a slow link.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod cosign;
mod docker_registry;
mod lab_registry;
mod lab_registry_writes;
mod skopeo;
mod slow_link;
