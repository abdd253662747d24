//! The registry client: the only crate that speaks HTTP to registries
