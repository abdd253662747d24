//! What tests, the demo and the benchmark run on: generated images, registries, an API server

mod background;
pub mod certificates;
pub mod corpus;
pub mod docker_registry;
pub mod images;
pub mod kube;
pub mod line;
pub mod netns;
mod parallel;
mod random;
pub mod registry;
pub mod tools;
