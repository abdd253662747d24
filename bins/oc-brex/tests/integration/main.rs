//! Runs the program on documents, and what it writes on nodes.

mod check;
mod day2;
mod doctor;
mod nodes;
mod render;
mod scale_out;
mod support;
mod topology;
