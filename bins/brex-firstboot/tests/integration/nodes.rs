//! The program on nodes with real NetworkManager and Open vSwitch.

// A test that cannot go on says why, and where.
mod bench;
mod gathered;
mod good;
mod interrupted;
mod refused;
mod rolled_back;
mod staged;
mod topologies;
