//! `brex-report`: how br-ex was configured at a node's first boot, as an annotation and an event of
//! its Node.

use std::process::ExitCode;

fn main() -> ExitCode {
    brex_report::run(std::env::args_os())
}
