//! Rules for enhancement documents.

mod any_text;
mod markdown_style;
mod proposals;
mod verdicts;
