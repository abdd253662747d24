//! What tests, the demo and the benchmark run on: generated images, registries, an API server

pub mod kube;
pub mod tools;
