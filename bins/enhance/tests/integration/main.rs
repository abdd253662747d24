//! Runs the program on documents.

mod command_line;
mod documents;
