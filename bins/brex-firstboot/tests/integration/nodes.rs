//! The program on nodes with real NetworkManager and Open vSwitch.

// A test that cannot continue panics with the reason and its location.
mod bench;
mod gathered;
mod good;
mod interrupted;
mod refused;
mod rolled_back;
mod staged;
mod topologies;
