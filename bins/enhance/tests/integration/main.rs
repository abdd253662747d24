//! Runs the program on documents.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod command_line;
mod documents;
mod ignore_list;
mod program;
mod report;
