//! Runs the program on nodes and checks its units.

mod machine;
mod nodes;
mod uml;
mod units;
