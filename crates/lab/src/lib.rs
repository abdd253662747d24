//! Content and servers that tests, the demo and the benchmark run on: generated images, registries
//!
//! | module | gives |
//! |---|---|
//! | [`images`] | images, lists, signatures and referrers whose bytes follow from names |
//! | [`catalogs`] | operator catalogs, small and as large as the largest |
//! | [`corpus`] | sets of them: like a real mirror's, many tiny ones, a sample of all kinds |
//! | [`registry`] | a registry in this process that misbehaves on demand and logs requests |
//! | [`docker_registry`] | Debian's docker-registry as a child process |
//! | [`document_server`] | a web server that misbehaves on demand |
//! | [`update_service`] | update graphs by channel and architecture |
//! | [`chart_repository`] | a repository of Helm charts |
//! | [`signature_store`] | signatures of releases |
//! | [`releases`] | releases like OpenShift's, and the keys that sign them |
//! | [`certificates`] | a private authority for servers and clients on loopback |
//! | [`link`] | a TCP proxy with latency and limited rate |
//! | [`proxy`] | a web proxy that tunnels |
//! | [`operators`] | a small operator catalog with images for all that it lists |
//! | [`netns`] | a network namespace without any route |
//! | [`object_store`] | an object store with the S3 API |
//! | [`tools`] | programs of others, built once in exact versions |
//!
//! Nodes and clusters are in `lab-cluster`, which depends on this crate. Everything that runs ends
//! when its value is dropped. Nothing here needs an asynchronous caller, and everything works with
//! one.

mod background;
mod bound;
pub mod catalogs;
pub mod certificates;
pub mod chart_repository;
pub mod corpus;
pub mod docker_registry;
pub mod document_server;
mod endpoint;
mod eventually;
pub mod images;
pub mod link;
pub mod netns;
pub mod object_store;
pub mod operators;
mod parallel;
pub mod proxy;
mod random;
pub mod registry;
pub mod releases;
pub mod signature_store;
pub mod sigstore;
pub mod update_service;

pub use ::data_tier::{data_tier, record_skip};
pub use background::Background;
pub use bound::bound_command;
pub use eventually::eventually;
/// The programs that tests run, and where they are.
pub use test_tools as tools;
