//! `oc-brex`: the br-ex bridge of OpenShift nodes, as NMState documents.

use std::process::ExitCode;

fn main() -> ExitCode {
    oc_brex::run(std::env::args_os())
}
