//! A workspace as a registry.

mod hostile;
mod protocol;
mod skopeo;
mod stand;
mod workspace;
