//! Enhancement documents in the format of the OpenShift community: their
//! metadata, headings and Markdown, the template, and a report about all of
//! them.
//!
//! `text → Document → findings → report`. This crate does not read files; a
//! [`LinkResolver`] resolves the targets of links.
//!
//! # Guarantees
//!
//! The verdict on metadata and headings is that of the community's linter: a
//! document that passes here passes there. Other rules are in groups of their
//! own and do not change the verdict.
//!
//! # Example
//!
//! ```
//! use enhancement::Document;
//!
//! let document = Document::parse("mirror-signatures.md", "# Mirror signatures\n".to_owned());
//! assert_eq!(document.title(), "Mirror signatures");
//! assert!(!document.missing_headings().is_empty());
//! assert!(document.anchors().contains("mirror-signatures"));
//! ```

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
mod template_text;
mod title;
mod web_address;
mod yaml;

pub use diagnostic::{Position, Severity};
pub use document::{Document, Verdict};
pub use finding::Finding;
pub use headings::{Heading, REQUIRED as REQUIRED_HEADINGS};
pub use links::{LinkResolver, LinkTarget, anchors};
pub use report::{AreaSummary, Report, ReportEntry, Revision, SkippedDocument};
pub use rule::{Group, Rule};
pub use template::fill as fill_template;
pub use template_text::TemplateSentences;
pub use title::{Area, AreaError, Title, TitleError};
