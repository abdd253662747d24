//! Enhancement documents in the form the OpenShift community uses: what they
//! must hold, how they are written, what is missing.
//!
//! `text → Document → findings → report`. Nothing here reads a file; what
//! links lead to is asked of a [`Surroundings`].
//!
//! The verdict on metadata and headings is the one the community's own linter
//! gives, so a document that passes here passes there. Everything beyond that
//! is in groups of its own.

mod advice;
mod document;
mod finding;
mod front_matter;
mod headings;
mod links;
mod markdown;
mod metadata;
mod pattern;
mod report;
mod rule;
mod source;
mod template;
mod title;
mod web_address;
mod yaml;

pub use document::{Document, Verdict};
pub use finding::{Finding, Position};
pub use headings::{Heading, REQUIRED as REQUIRED_HEADINGS};
pub use links::{Surroundings, Target, anchors};
pub use report::{Report, Row};
pub use rule::{Group, Rule, Severity};
pub use template::fill as fill_template;
pub use title::{Area, AreaError, Title, TitleError};
