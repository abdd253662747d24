//! What tests, the demo and the benchmark run on: generated images, registries, an API server

mod background;
pub mod certificates;
pub mod images;
pub mod kube;
mod random;
pub mod registry;
pub mod tools;
