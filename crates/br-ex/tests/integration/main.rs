//! The rules for br-ex documents, on documents of our own and of others.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod real_documents;
mod real_policies;
mod rules;
