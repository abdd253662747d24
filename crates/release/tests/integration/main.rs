//! Update graphs and signatures.

mod data;
mod signatures;
