//! MachineConfigs: reading, writing, disruption.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod disruption;
mod reading;
mod real_documents;
mod round_trip;
