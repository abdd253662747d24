//! Templates and charts compared with Helm itself.

mod arbitrary;
mod bounds;
mod charts;
mod comparison;
mod discovering;
mod engine;
mod functions;
mod generated;
mod language;
mod reference;
