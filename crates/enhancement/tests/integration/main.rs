//! Rules for enhancement documents.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod any_text;
mod markdown_style;
mod proposals;
mod verdicts;
