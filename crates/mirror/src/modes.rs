//! The three directions of a run. Each file has only what differs from the others.

pub(crate) mod disk_to_mirror;
pub(crate) mod mirror_to_disk;
pub(crate) mod mirror_to_mirror;
pub(crate) mod push;
