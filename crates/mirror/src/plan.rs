//! What a plan is made from: what the target holds, and what is available for the rest.

pub(crate) mod availability;
pub(crate) mod presence;
pub(crate) mod stored_plan;
