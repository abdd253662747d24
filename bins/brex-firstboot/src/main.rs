//! `brex-firstboot`: br-ex by NMState at a node's first boot.

use std::process::ExitCode;

fn main() -> ExitCode {
    brex_firstboot::run(std::env::args_os())
}
