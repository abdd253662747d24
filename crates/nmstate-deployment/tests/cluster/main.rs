//! The program against a real API server: what it writes for a release payload, how the server
//! handles the API, and what each component may do there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod api;
mod authority;
mod payload;
mod support;
