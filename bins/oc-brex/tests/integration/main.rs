//! Runs the program on documents, and what it writes on nodes.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot continue")]

mod check;
mod cluster;
mod day2;
mod doctor;
mod enhancement;
mod init;
mod many_hosts;
mod nodes;
mod render;
mod scale_out;
mod support;
mod topology;
