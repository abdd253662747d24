//! MachineConfigs: reading, writing, disruption.

mod disruption;
mod reading;
mod real_documents;
mod round_trip;
