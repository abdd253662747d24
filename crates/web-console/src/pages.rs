//! The pages as HTML. Every text that is inserted is escaped by the templates.

pub(crate) mod archives;
pub(crate) mod charts;
pub(crate) mod configurations;
pub(crate) mod deletion;
pub(crate) mod images;
pub(crate) mod jobs;
pub(crate) mod layout;
pub(crate) mod login;
pub(crate) mod operators;
pub(crate) mod overview;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod releases;
pub(crate) mod resources;
pub(crate) mod runs;
pub(crate) mod selection;
pub(crate) mod start;
