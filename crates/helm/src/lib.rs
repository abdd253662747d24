//! Helm charts: what their templates render to.

pub mod engine;
pub mod functions;
