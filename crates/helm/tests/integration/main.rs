//! Templates compared with Helm itself.

mod arbitrary;
mod engine;
mod functions;
mod language;
mod reference;
