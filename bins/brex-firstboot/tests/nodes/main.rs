//! The program on nodes with real NetworkManager and Open vSwitch.

mod bench;
mod good;
mod interrupted;
mod refused;
mod rolled_back;
mod staged;
