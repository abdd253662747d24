//! Execution of a plan: blobs and images move to a disk or a registry.

pub(crate) mod blob_target;
pub(crate) mod destination_disk;
pub(crate) mod destination_registry;
pub(crate) mod execute;
pub(crate) mod fetch;
pub(crate) mod repair;
pub(crate) mod schedule;
pub(crate) mod spool;
pub(crate) mod supply;
pub(crate) mod transfer_error;
pub(crate) mod verified_body;
