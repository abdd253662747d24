//! Configurations: reading, findings, writing.

mod findings;
mod reading;
mod real_configurations;
mod round_trip;
